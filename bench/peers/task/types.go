// Package task has the Go types of Task and of the joined object, as a typed client reads and writes them.
package task

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// UIDLabel is the label with which the Task controller says what an Event is about.
const UIDLabel = "tasks.example.com/task-uid"

// GroupVersion is that of the CustomResourceDefinition.
var GroupVersion = schema.GroupVersion{Group: "tasks.example.com", Version: "v1"}

// JoinedGroupVersion is that which the join server serves: its own, so that it can stand beside Joinery.
var JoinedGroupVersion = schema.GroupVersion{Group: "joined.bench.example.com", Version: "v1"}

// Spec is what the user asks for.
type Spec struct {
	Priority  int32  `json:"priority"`
	Deadline  string `json:"deadline,omitempty"`
	Details   string `json:"details,omitempty"`
	TaskState string `json:"taskState,omitempty"`
}

// EmittedEvent is the last Event of one reason.
type EmittedEvent struct {
	Reason     string      `json:"reason"`
	Generation int64       `json:"generation"`
	Time       metav1.Time `json:"time"`
}

// Status is what the controller observed.
type Status struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	EmittedEvents      []EmittedEvent     `json:"emittedEvents,omitempty"`
}

// Task is one piece of work.
type Task struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitempty"`
}

// List is a list of Tasks.
type List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Task `json:"items"`
}

// CombinedStatus is a Task's status with its Events.
type CombinedStatus struct {
	Status              `json:",inline"`
	Events              []corev1.Event `json:"events"`
	Summary             Summary        `json:"summary"`
	TaskResourceVersion string         `json:"taskResourceVersion"`
}

// Summary is what a Table shows of the Events.
type Summary struct {
	Events     int    `json:"events"`
	LastReason string `json:"lastReason,omitempty"`
	LastTime   string `json:"lastTime,omitempty"`
}

// Combined is a Task together with its Events.
type Combined struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec           `json:"spec"`
	Status            CombinedStatus `json:"status"`
}

// DeepCopyObject makes a Task a runtime.Object.
func (t *Task) DeepCopyObject() runtime.Object {
	out := t.copy()
	return &out
}

// DeepCopyObject makes a List a runtime.Object.
func (l *List) DeepCopyObject() runtime.Object {
	out := &List{TypeMeta: l.TypeMeta, Items: make([]Task, len(l.Items))}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items[i] = l.Items[i].copy()
	}
	return out
}

func (t *Task) copy() Task {
	out := *t
	t.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status.Conditions = append([]metav1.Condition(nil), t.Status.Conditions...)
	out.Status.EmittedEvents = append([]EmittedEvent(nil), t.Status.EmittedEvents...)
	return out
}

// AddToScheme registers Task and List.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Task{}, &List{})
	// The wire's name of the list kind.
	scheme.AddKnownTypeWithName(GroupVersion.WithKind("TaskList"), &List{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
