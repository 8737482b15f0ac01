// Command peers is what Joinery is measured beside, written in Go:
//
//	peers serve   an aggregated API server that joins Tasks and Events on each request
//	peers client  a program that lists Tasks and Events itself and joins them, several times
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"peers/join"

	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) == 0 {
		return fmt.Errorf("usage: peers serve|client FLAGS")
	}
	flags := flag.NewFlagSet(arguments[0], flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "how to reach the kube-apiserver")
	listen := flags.String("listen", "127.0.0.1:0", "where to serve")
	certificate := flags.String("tls-cert-file", "", "the serving certificate, PEM")
	key := flags.String("tls-private-key-file", "", "its key, PEM")
	authorities := flags.String("client-ca-files", "", "authorities of client certificates, PEM, separated by commas")
	rounds := flags.Int("rounds", 1, "how often the client joins")
	if err := flags.Parse(arguments[1:]); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	joiner, err := join.New(config)
	if err != nil {
		return err
	}
	switch arguments[0] {
	case "serve":
		return serve(joiner, *listen, *certificate, *key, strings.Split(*authorities, ","))
	case "client":
		return client(joiner, *rounds)
	default:
		return fmt.Errorf("unknown command %q", arguments[0])
	}
}

// client prints one line of JSON a round: how long it took, and the processor time that this process spent on it.
func client(joiner *join.Joiner, rounds int) error {
	out := json.NewEncoder(os.Stdout)
	for range rounds {
		start, spent := time.Now(), processorTime()
		items, _, err := joiner.List(context.Background(), "")
		if err != nil {
			return err
		}
		round := map[string]any{
			"objects": len(items), "seconds": time.Since(start).Seconds(), "cpuSeconds": (processorTime() - spent).Seconds(),
		}
		if err := out.Encode(round); err != nil {
			return err
		}
	}
	return nil
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
