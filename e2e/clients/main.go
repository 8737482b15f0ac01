// Clients watches resources with the informers that controllers are made of, while somebody else changes the resources and
// restarts their server, and in the end tells whether what the informers hold is what the server lists.
//
// It prints "synced" once all of them have synced, follows changes until its standard input ends, then waits until every
// cache equals the truth, or for -settle at most. The report on standard output is one line of JSON; the exit status is 0 when all
// caches equal the truth and no informer had more errors than -errors.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// group is where the watched resources live.
var group = schema.GroupVersion{Group: "aggregated.tasks.example.com", Version: "v1"}

// view is the one among the watched resources that is no stored one.
const view = "combinedtasks"

// kinds are the watched resources with their kinds.
var kinds = map[string]string{
	"clustertasks": "ClusterTask",
	view:           "CombinedTask",
	"customtasks":  "CustomTask",
}

// A follower keeps objects of one resource up to date.
type follower interface {
	// name is unique among the followers.
	name() string
	resource() string
	// synced waits for the first complete state.
	synced(ctx context.Context) bool
	// objects gives each object's JSON by namespace and name.
	objects() (map[string]string, error)
	// seen is what the handlers were told and the errors that the informer met.
	seen() *seen
}

type report struct {
	Followers   []followerReport `json:"followers"`
	Differences []string         `json:"differences"`
}

type followerReport struct {
	Name    string `json:"name"`
	Objects int    `json:"objects"`
	Added   int    `json:"added"`
	Updated int    `json:"updated"`
	Deleted int    `json:"deleted"`
	Errors  int    `json:"errors"`
	// LastError is the latest of them.
	LastError string `json:"lastError,omitempty"`
	// Lists is how often all objects were asked for, by a list or by a watch that begins with them.
	Lists int `json:"lists"`
}

func main() {
	// Not the process' own set: controller-runtime has put a -kubeconfig there.
	flags := flag.NewFlagSet("clients", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "who watches, and which server")
	syncTimeout := flags.Duration("sync", 60*time.Second, "time for the first sync")
	settle := flags.Duration("settle", 60*time.Second, "time for the caches to equal the truth in the end")
	maxErrors := flags.Int("errors", 50, "errors that one informer may meet")
	klog.InitFlags(flags)
	if err := flags.Parse(os.Args[1:]); err != nil {
		os.Exit(2)
	}
	if err := run(*kubeconfig, *syncTimeout, *settle, *maxErrors); err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		os.Exit(1)
	}
}

func run(kubeconfig string, syncTimeout, settle time.Duration, maxErrors int) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	var followers []follower
	for _, watchList := range []bool{true, false} {
		more, err := startInformers(ctx, config, watchList)
		if err != nil {
			return err
		}
		followers = append(followers, more...)
	}
	more, err := startManager(ctx, config)
	if err != nil {
		return err
	}
	followers = append(followers, more...)

	syncing, stop := context.WithTimeout(ctx, syncTimeout)
	defer stop()
	for _, follower := range followers {
		if !follower.synced(syncing) {
			return fmt.Errorf("%s did not sync in %s: %s", follower.name(), syncTimeout, follower.seen().lastError())
		}
	}
	fmt.Println("synced")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}

	differences, err := settled(ctx, config, followers, settle)
	if err != nil {
		return err
	}
	result := report{Differences: differences}
	failed := len(differences) > 0
	for _, follower := range followers {
		one := follower.seen().report(follower.name())
		failed = failed || one.Errors > maxErrors
		result.Followers = append(result.Followers, one)
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		return err
	}
	if failed {
		return fmt.Errorf("%d differences, or more than %d errors", len(differences), maxErrors)
	}
	return nil
}

// settled compares until nothing differs, and gives what still does when time is over.
func settled(ctx context.Context, config *rest.Config, followers []follower, within time.Duration) ([]string, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	end := time.Now().Add(within)
	for {
		differences, err := compareAll(ctx, client, followers)
		if err == nil && len(differences) == 0 {
			return nil, nil
		}
		if time.Now().After(end) {
			return differences, err
		}
		time.Sleep(250 * time.Millisecond)
	}
}

func compareAll(ctx context.Context, client dynamic.Interface, followers []follower) ([]string, error) {
	differences := []string{}
	for resource := range kinds {
		truth, err := list(ctx, client, resource)
		if err != nil {
			return nil, err
		}
		compare := compare
		if resource == view {
			compare = compareButVersions
		}
		for _, follower := range followers {
			if follower.resource() != resource {
				continue
			}
			held, err := follower.objects()
			if err != nil {
				return nil, err
			}
			differences = append(differences, compare(follower.name()+", cache", truth, held)...)
			differences = append(differences, compare(follower.name()+", handlers", truth, follower.seen().objects())...)
		}
	}
	return differences, nil
}

// list gives each object's JSON by namespace and name, in pages.
func list(ctx context.Context, client dynamic.Interface, resource string) (map[string]string, error) {
	objects := map[string]string{}
	options := metav1.ListOptions{Limit: 100}
	for {
		page, err := client.Resource(group.WithResource(resource)).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			text, err := json.Marshal(item.Object)
			if err != nil {
				return nil, err
			}
			objects[item.GetNamespace()+"/"+item.GetName()] = string(text)
		}
		options.Continue = page.GetContinue()
		if options.Continue == "" {
			return objects, nil
		}
	}
}

func compare(who string, truth, held map[string]string) []string {
	var differences []string
	for key, text := range truth {
		switch other, found := held[key]; {
		case !found:
			differences = append(differences, fmt.Sprintf("%s: %s is missing", who, key))
		case other != text:
			differences = append(differences, fmt.Sprintf("%s: %s is\n  %s\nnot\n  %s", who, key, other, text))
		}
	}
	for key := range held {
		if _, found := truth[key]; !found {
			differences = append(differences, fmt.Sprintf("%s: %s is gone, and its deletion was missed", who, key))
		}
	}
	return differences
}

// compareButVersions is for objects of a view. The resourceVersion of one is the position of its sources at which a host composed it:
// a restarted host composes all anew, and an unchanged object then has a later one than a client that did not list again.
func compareButVersions(who string, truth, held map[string]string) []string {
	return compare(who, withoutVersions(truth), withoutVersions(held))
}

func withoutVersions(objects map[string]string) map[string]string {
	without := make(map[string]string, len(objects))
	for key, text := range objects {
		var object unstructured.Unstructured
		if err := json.Unmarshal([]byte(text), &object.Object); err != nil {
			without[key] = err.Error()
			continue
		}
		object.SetResourceVersion("")
		bare, err := json.Marshal(object.Object)
		if err != nil {
			bare = []byte(err.Error())
		}
		without[key] = string(bare)
	}
	return without
}

// isList says whether a request asks for all objects of one of the resources.
func isList(path, query, resource string) bool {
	return strings.HasSuffix(path, "/"+resource) &&
		(!strings.Contains(query, "watch=true") || strings.Contains(query, "sendInitialEvents=true"))
}
