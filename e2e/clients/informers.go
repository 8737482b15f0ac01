package main

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// informer is one of client-go's, with its own connection to the server.
type informer struct {
	title, plural string
	shared        cache.SharedIndexInformer
	noted         *seen
}

// startInformers starts an informer for each resource: with watchList one that takes the initial state from its watch
// (KEP-3157), else one that lists first.
func startInformers(ctx context.Context, config *rest.Config, watchList bool) ([]follower, error) {
	var followers []follower
	for resource := range kinds {
		noted := newSeen()
		own := rest.CopyConfig(config)
		own.Wrap(noted.counting(resource))
		client, err := dynamic.NewForConfig(own)
		if err != nil {
			return nil, err
		}
		title := "informer of " + resource + " that lists first"
		var semantics any = listsFirst{}
		if watchList {
			title = "informer of " + resource + " with WatchList"
			semantics = client
		}
		// As client-go's own informers do it: the reflector asks the client whether it can WatchList.
		source := cache.ToListWatcherWithWatchListSemantics(listWatch(client.Resource(group.WithResource(resource))), semantics)
		shared := cache.NewSharedIndexInformer(source, &unstructured.Unstructured{}, 0, cache.Indexers{})
		one := &informer{title: title, plural: resource, shared: shared, noted: noted}
		if err := shared.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
			noted.failed(err)
			cache.DefaultWatchErrorHandler(ctx, reflector, err)
		}); err != nil {
			return nil, err
		}
		if _, err := shared.AddEventHandler(noted.handlers()); err != nil {
			return nil, err
		}
		go shared.RunWithContext(ctx)
		followers = append(followers, one)
	}
	return followers, nil
}

// listsFirst is a client without WatchList.
type listsFirst struct{}

func (listsFirst) IsWatchListSemanticsUnSupported() bool { return true }

func listWatch(resource dynamic.ResourceInterface) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, options)
		},
	}
}

func (i *informer) name() string     { return i.title }
func (i *informer) resource() string { return i.plural }
func (i *informer) seen() *seen      { return i.noted }

func (i *informer) synced(ctx context.Context) bool {
	return cache.WaitForCacheSync(ctx.Done(), i.shared.HasSynced)
}

func (i *informer) objects() (map[string]string, error) {
	objects := map[string]string{}
	for _, object := range i.shared.GetStore().List() {
		text, err := json.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", i.title, err)
		}
		objects[key(object)] = string(text)
	}
	return objects, nil
}
