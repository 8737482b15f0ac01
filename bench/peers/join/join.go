// Package join lists Tasks and their Events and puts them together, anew for each request.
package join

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"peers/task"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Up to so many uids are asked for by name. A selector of more no longer fits into a URL, and asking for every Event that has
// the label is then the cheaper question too.
const maxUIDs = 150

// Joiner asks upstream.
type Joiner struct {
	tasks rest.Interface
	core  kubernetes.Interface
}

// New makes typed clients: JSON for the custom resource, protobuf for Events, without client-side rate limits.
func New(config *rest.Config) (*Joiner, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	// Both ends are on one machine: compressing would only cost.
	config.DisableCompression = true

	coreConfig := rest.CopyConfig(config)
	coreConfig.ContentType = runtime.ContentTypeProtobuf
	coreConfig.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	core, err := kubernetes.NewForConfig(coreConfig)
	if err != nil {
		return nil, fmt.Errorf("client of core/v1: %w", err)
	}

	scheme := runtime.NewScheme()
	if err := task.AddToScheme(scheme); err != nil {
		return nil, err
	}
	taskConfig := rest.CopyConfig(config)
	taskConfig.GroupVersion = &task.GroupVersion
	taskConfig.APIPath = "/apis"
	taskConfig.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	tasks, err := rest.RESTClientFor(taskConfig)
	if err != nil {
		return nil, fmt.Errorf("client of Tasks: %w", err)
	}
	return &Joiner{tasks: tasks, core: core}, nil
}

// List joins all Tasks of a namespace, or of all if it is empty. It also gives the version of the list of Tasks.
func (j *Joiner) List(ctx context.Context, namespace string) ([]task.Combined, string, error) {
	var tasks task.List
	err := j.tasks.Get().NamespaceIfScoped(namespace, namespace != "").Resource("tasks").Do(ctx).Into(&tasks)
	if err != nil {
		return nil, "", err
	}
	events, err := j.events(ctx, namespace, tasks.Items)
	if err != nil {
		return nil, "", err
	}
	combined := make([]task.Combined, len(tasks.Items))
	for i := range tasks.Items {
		combined[i] = combine(&tasks.Items[i], events[string(tasks.Items[i].UID)])
	}
	return combined, tasks.ResourceVersion, nil
}

// Get joins one Task.
func (j *Joiner) Get(ctx context.Context, namespace, name string) (*task.Combined, error) {
	var one task.Task
	err := j.tasks.Get().Namespace(namespace).Resource("tasks").Name(name).Do(ctx).Into(&one)
	if err != nil {
		return nil, err
	}
	events, err := j.events(ctx, namespace, []task.Task{one})
	if err != nil {
		return nil, err
	}
	combined := combine(&one, events[string(one.UID)])
	return &combined, nil
}

// events asks once for the Events of all these Tasks and groups them by uid.
func (j *Joiner) events(ctx context.Context, namespace string, tasks []task.Task) (map[string][]corev1.Event, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	selector := task.UIDLabel
	if len(tasks) <= maxUIDs {
		uids := make([]string, len(tasks))
		for i := range tasks {
			uids[i] = string(tasks[i].UID)
		}
		selector += " in (" + strings.Join(uids, ",") + ")"
	}
	list, err := j.core.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	grouped := make(map[string][]corev1.Event, len(tasks))
	for i := range list.Items {
		event := &list.Items[i]
		uid := event.Labels[task.UIDLabel]
		grouped[uid] = append(grouped[uid], *event)
	}
	return grouped, nil
}

func combine(t *task.Task, events []corev1.Event) task.Combined {
	for i := range events {
		// Items of built-in lists lack them.
		events[i].APIVersion, events[i].Kind = "v1", "Event"
		events[i].ManagedFields = nil
	}
	sort.Slice(events, func(a, b int) bool {
		x, y := last(&events[a]), last(&events[b])
		if x.Equal(y) {
			return events[a].UID < events[b].UID
		}
		return x.Before(y)
	})
	summary := task.Summary{Events: len(events)}
	if n := len(events); n > 0 {
		summary.LastReason = events[n-1].Reason
		summary.LastTime = last(&events[n-1]).UTC().Format(time.RFC3339)
	}
	if events == nil {
		events = []corev1.Event{}
	}
	combined := task.Combined{
		TypeMeta:   metav1.TypeMeta{APIVersion: task.JoinedGroupVersion.String(), Kind: "CombinedTask"},
		ObjectMeta: t.ObjectMeta,
		Spec:       t.Spec,
		Status: task.CombinedStatus{
			Status: t.Status, Events: events, Summary: summary, TaskResourceVersion: t.ResourceVersion,
		},
	}
	combined.ManagedFields = nil
	return combined
}

// last is when an Event last happened; writers fill different fields.
func last(event *corev1.Event) time.Time {
	switch {
	case event.Series != nil && !event.Series.LastObservedTime.IsZero():
		return event.Series.LastObservedTime.Time
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp.Time
	case !event.EventTime.IsZero():
		return event.EventTime.Time
	case !event.FirstTimestamp.IsZero():
		return event.FirstTimestamp.Time
	default:
		return event.CreationTimestamp.Time
	}
}
