package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"peers/join"
	"peers/task"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
)

// server is the aggregated API server of the article: it keeps nothing and joins on each request.
type server struct {
	joiner *join.Joiner
}

func serve(joiner *join.Joiner, listen, certificate, key string, clientAuthorities []string) error {
	pool := x509.NewCertPool()
	for _, file := range clientAuthorities {
		pem, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !pool.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s holds no certificate", file)
		}
	}
	s := &server{joiner: joiner}
	mux := http.NewServeMux()
	base := "/apis/" + task.JoinedGroupVersion.String()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("GET "+base, s.resources)
	mux.HandleFunc("GET "+base+"/combinedtasks", s.list)
	mux.HandleFunc("GET "+base+"/namespaces/{namespace}/combinedtasks", s.list)
	mux.HandleFunc("GET "+base+"/namespaces/{namespace}/combinedtasks/{name}", s.get)
	http1and2 := &http.Server{
		Addr:    listen,
		Handler: mux,
		// Who is behind a certificate of one of the two authorities, a client or the aggregator, may read: reviewing access
		// would only cost this server more.
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool},
		ReadHeaderTimeout: 10 * time.Second,
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	go func() {
		<-ctx.Done()
		_ = http1and2.Close()
	}()
	err := http1and2.ListenAndServeTLS(certificate, key)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (s *server) resources(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"},
		GroupVersion: task.JoinedGroupVersion.String(),
		APIResources: []metav1.APIResource{{
			Name: "combinedtasks", SingularName: "combinedtask", Kind: "CombinedTask", Namespaced: true, Verbs: []string{"get", "list"},
		}},
	})
}

func (s *server) get(w http.ResponseWriter, r *http.Request) {
	one, err := s.joiner.Get(r.Context(), r.PathValue("namespace"), r.PathValue("name"))
	if err != nil {
		fail(w, err)
		return
	}
	write(w, http.StatusOK, one)
}

func (s *server) list(w http.ResponseWriter, r *http.Request) {
	items, version, err := s.joiner.List(r.Context(), r.PathValue("namespace"))
	if err != nil {
		fail(w, err)
		return
	}
	if strings.Contains(r.Header.Get("Accept"), "as=Table") {
		write(w, http.StatusOK, table(items, version))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// One item at a time: the whole text would take as much memory again as the objects do.
	out := bufio.NewWriterSize(w, 64<<10)
	fmt.Fprintf(out, `{"kind":"CombinedTaskList","apiVersion":%q,"metadata":{"resourceVersion":%q},"items":[`, task.JoinedGroupVersion, version)
	encoder := json.NewEncoder(out)
	for i := range items {
		if i > 0 {
			_ = out.WriteByte(',')
		}
		if err := encoder.Encode(&items[i]); err != nil {
			// The status is sent already: cutting the answer short is all that can still be said.
			panic(http.ErrAbortHandler)
		}
	}
	_, _ = out.WriteString("]}\n")
	_ = out.Flush()
}

func table(items []task.Combined, version string) *metav1.Table {
	now := time.Now()
	column := func(name, kind string) metav1.TableColumnDefinition {
		return metav1.TableColumnDefinition{Name: name, Type: kind}
	}
	out := &metav1.Table{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "Table"},
		ListMeta: metav1.ListMeta{ResourceVersion: version},
		ColumnDefinitions: []metav1.TableColumnDefinition{
			column("Name", "string"), column("Priority", "integer"), column("DeadLine", "string"), column("TaskState", "string"),
			column("Events", "integer"), column("Last", "string"), column("Age", "string"),
		},
		Rows: make([]metav1.TableRow, len(items)),
	}
	for i := range items {
		item := &items[i]
		out.Rows[i] = metav1.TableRow{
			Cells: []any{
				item.Name, item.Spec.Priority, item.Spec.Deadline, item.Spec.TaskState, item.Status.Summary.Events,
				item.Status.Summary.LastReason, duration.HumanDuration(now.Sub(item.CreationTimestamp.Time)),
			},
			Object: runtime.RawExtension{Object: &metav1.PartialObjectMetadata{
				TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
				ObjectMeta: item.ObjectMeta,
			}},
		}
	}
	return out
}

func write(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value)
}

func fail(w http.ResponseWriter, err error) {
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		status := known.Status()
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		write(w, int(status.Code), status)
		return
	}
	http.Error(w, err.Error(), http.StatusInternalServerError)
}
