package main

import (
	"context"
	"encoding/json"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// managed is a resource in the cache of a controller-runtime manager, read through its client.
type managed struct {
	plural   string
	manager  ctrl.Manager
	informer cache.Informer
	noted    *seen
}

// startManager runs one manager and has its cache follow each resource.
func startManager(ctx context.Context, config *rest.Config) ([]follower, error) {
	ctrl.SetLogger(logr.Discard())
	own := rest.CopyConfig(config)
	noted := map[string]*seen{}
	for resource := range kinds {
		noted[resource] = newSeen()
		own.Wrap(noted[resource].counting(resource))
	}
	manager, err := ctrl.NewManager(own, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{
			DefaultWatchErrorHandler: func(ctx context.Context, reflector *toolscache.Reflector, err error) {
				for resource, kind := range kinds {
					if reflector.TypeDescription() == group.WithKind(kind).String() {
						noted[resource].failed(err)
					}
				}
				toolscache.DefaultWatchErrorHandler(ctx, reflector, err)
			},
		},
	})
	if err != nil {
		return nil, err
	}
	failed := make(chan error, 1)
	go func() { failed <- manager.Start(ctx) }()
	var followers []follower
	for resource, kind := range kinds {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(group.WithKind(kind))
		informer, err := manager.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, err
		}
		if _, err := informer.AddEventHandler(noted[resource].handlers()); err != nil {
			return nil, err
		}
		followers = append(followers, &managed{plural: resource, manager: manager, informer: informer, noted: noted[resource]})
	}
	select {
	case err := <-failed:
		return nil, err
	default:
		return followers, nil
	}
}

func (m *managed) name() string     { return "manager's cache of " + m.plural }
func (m *managed) resource() string { return m.plural }
func (m *managed) seen() *seen      { return m.noted }

func (m *managed) synced(ctx context.Context) bool {
	return toolscache.WaitForCacheSync(ctx.Done(), m.informer.HasSynced)
}

func (m *managed) objects() (map[string]string, error) {
	items := &unstructured.UnstructuredList{}
	items.SetGroupVersionKind(group.WithKind(kinds[m.plural] + "List"))
	if err := m.manager.GetClient().List(context.Background(), items); err != nil {
		return nil, err
	}
	objects := map[string]string{}
	for index := range items.Items {
		object := &items.Items[index]
		text, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		objects[key(object)] = string(text)
	}
	return objects, nil
}
