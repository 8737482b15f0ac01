package main

import (
	"encoding/json"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

// seen is what one informer told its handlers, and its errors. It is safe for concurrent use.
type seen struct {
	lock                            sync.Mutex
	held                            map[string]string
	added, updated, deleted, errors int
	last                            error
	lists                           int
}

func newSeen() *seen {
	return &seen{held: map[string]string{}}
}

// handlers gives the handlers to register at an informer.
func (s *seen) handlers() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.hold(object, &s.added) },
		UpdateFunc: func(_, object any) { s.hold(object, &s.updated) },
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			s.lock.Lock()
			defer s.lock.Unlock()
			s.deleted++
			delete(s.held, key(object))
		},
	}
}

func (s *seen) hold(object any, counter *int) {
	text, err := json.Marshal(object)
	s.lock.Lock()
	defer s.lock.Unlock()
	*counter++
	if err != nil {
		s.errors++
		s.last = err
		return
	}
	s.held[key(object)] = string(text)
}

func (s *seen) failed(err error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.errors++
	s.last = err
}

func (s *seen) lastError() string {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.last == nil {
		return ""
	}
	return s.last.Error()
}

func (s *seen) objects() map[string]string {
	s.lock.Lock()
	defer s.lock.Unlock()
	copied := make(map[string]string, len(s.held))
	for key, text := range s.held {
		copied[key] = text
	}
	return copied
}

func (s *seen) report(name string) followerReport {
	last := s.lastError()
	s.lock.Lock()
	defer s.lock.Unlock()
	return followerReport{
		Name: name, Objects: len(s.held), Added: s.added, Updated: s.updated, Deleted: s.deleted,
		Errors: s.errors, LastError: last, Lists: s.lists,
	}
}

// counting counts the requests for all objects of a resource.
func (s *seen) counting(resource string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if isList(request.URL.Path, request.URL.RawQuery, resource) {
				s.lock.Lock()
				s.lists++
				s.lock.Unlock()
			}
			return next.RoundTrip(request)
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	return f(request)
}

func key(object any) string {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err.Error()
	}
	return accessor.GetNamespace() + "/" + accessor.GetName()
}
