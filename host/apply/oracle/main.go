// Command oracle answers what kube-apiserver makes of sequences of updates and applies to a custom resource.
//
// It reads cases as JSON lines and writes an answer for each: the field manager of k8s.io/apimachinery, with the types
// that k8s.io/apiextensions-apiserver makes of the schema, and the resets of its strategies around it.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

var kind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}

type testCase struct {
	Schema            *apiextensionsv1.JSONSchemaProps `json:"schema"`
	StatusSubresource bool                             `json:"statusSubresource"`
	Steps             []step                           `json:"steps"`
}

type step struct {
	Apply       bool            `json:"apply"`
	Object      json.RawMessage `json:"object"`
	Manager     string          `json:"manager"`
	Subresource string          `json:"subresource"`
	Force       bool            `json:"force"`
	Now         metav1.Time     `json:"now"`
}

type answer struct {
	// The object as it is stored after the step.
	Object map[string]any `json:"object,omitempty"`
	// What the manager applied, read back from the object.
	Extracted any `json:"extracted,omitempty"`
	// Why an update could not be tracked; the object is stored all the same.
	Untracked string `json:"untracked,omitempty"`
	// Why an apply was refused.
	Error *failure `json:"error,omitempty"`
}

type failure struct {
	Code    int32                `json:"code"`
	Message string               `json:"message"`
	Causes  []metav1.StatusCause `json:"causes"`
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	cases := json.NewDecoder(in)
	answers := json.NewEncoder(out)
	for cases.More() {
		var c testCase
		if err := cases.Decode(&c); err != nil {
			log.Fatal(err)
		}
		result, err := c.run()
		if err != nil {
			log.Fatal(err)
		}
		if err := answers.Encode(result); err != nil {
			log.Fatal(err)
		}
	}
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}

func (c testCase) run() ([]answer, error) {
	types, err := c.types()
	if err != nil {
		return nil, err
	}
	managers := map[string]*managedfields.FieldManager{}
	for _, subresource := range []string{"", "status"} {
		managers[subresource], err = managedfields.NewDefaultCRDFieldManager(
			types, converter{}, defaulter{}, creater{}, kind, kind.GroupVersion(), subresource,
			c.resets(subresource),
		)
		if err != nil {
			return nil, err
		}
	}
	var live *unstructured.Unstructured
	var answers []answer
	for _, s := range c.Steps {
		a, stored, err := c.step(managers[s.Subresource], types, live, s)
		if err != nil {
			return nil, err
		}
		if stored != nil {
			live = stored
		}
		answers = append(answers, a)
	}
	return answers, nil
}

// types are those of the custom resource, as customresource_handler.go and controller/openapi/builder make them.
func (c testCase) types() (managedfields.TypeConverter, error) {
	models := map[string]*spec.Schema{}
	ref := func(name string) spec.Ref { return spec.MustCreateRef("#/components/schemas/" + name) }
	for name, definition := range openapi.GetOpenAPIDefinitions(ref) {
		models[name] = &definition.Schema
	}
	model := &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}}}
	if c.Schema != nil {
		internal := &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(c.Schema, internal, nil); err != nil {
			return nil, err
		}
		structural, err := structuralschema.NewStructural(internal)
		if err != nil {
			return nil, err
		}
		if errs := structuralschema.ValidateStructural(nil, structural); len(errs) > 0 {
			return nil, errs.ToAggregate()
		}
		model = structural.Unfold().ToKubeOpenAPI()
		addEmbedded(model, ref)
		addResource(model, ref)
	}
	model.AddExtension("x-kubernetes-group-version-kind", []any{
		map[string]any{"group": kind.Group, "version": kind.Version, "kind": kind.Kind},
	})
	models["com.example.v1.Thing"] = model
	return managedfields.NewTypeConverter(models, false)
}

func addResource(s *spec.Schema, ref func(string) spec.Ref) {
	s.SetProperty("apiVersion", *spec.StringProperty())
	s.SetProperty("kind", *spec.StringProperty())
	s.SetProperty("metadata", spec.Schema{SchemaProps: spec.SchemaProps{Ref: ref(metav1.ObjectMeta{}.OpenAPIModelName())}})
}

func addEmbedded(s *spec.Schema, ref func(string) spec.Ref) {
	if s == nil {
		return
	}
	for name, property := range s.Properties {
		addEmbedded(&property, ref)
		s.Properties[name] = property
	}
	if s.Items != nil {
		addEmbedded(s.Items.Schema, ref)
	}
	if s.AdditionalProperties != nil {
		addEmbedded(s.AdditionalProperties.Schema, ref)
	}
	if embedded, _ := s.Extensions.GetBool("x-kubernetes-embedded-resource"); embedded {
		addResource(s, ref)
	}
}

// resets are the fields that the strategies of the custom resource reset. kube-apiserver names only metadata and spec for
// the subresource status, and leaves owners of other fields that are reset too; that is not followed.
func (c testCase) resets(subresource string) map[fieldpath.APIVersion]fieldpath.Filter {
	version := fieldpath.APIVersion(kind.GroupVersion().String())
	switch {
	case subresource == "status":
		only := fieldpath.NewIncludeMatcherFilter(fieldpath.MakePrefixMatcherOrDie("status"))
		return map[fieldpath.APIVersion]fieldpath.Filter{version: only}
	case c.StatusSubresource:
		but := fieldpath.NewExcludeSetFilter(fieldpath.NewSet(fieldpath.MakePathOrDie("status")))
		return map[fieldpath.APIVersion]fieldpath.Filter{version: but}
	default:
		return nil
	}
}

// step returns the answer and what is stored after it; nil: nothing is.
func (c testCase) step(
	manager *managedfields.FieldManager, types managedfields.TypeConverter, stored *unstructured.Unstructured, s step,
) (answer, *unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{Object: map[string]any{}}
	live.SetGroupVersionKind(kind)
	if stored != nil {
		live = stored.DeepCopy()
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(s.Object); err != nil {
		return answer{}, nil, err
	}
	var a answer
	var result runtime.Object
	if s.Apply {
		var err error
		result, err = manager.Apply(live, object, s.Manager, s.Force)
		if err != nil {
			a.Error = &failure{Message: err.Error()}
			var status apierrors.APIStatus
			if errors.As(err, &status) {
				a.Error.Code = status.Status().Code
				if details := status.Status().Details; details != nil {
					a.Error.Causes = details.Causes
				}
			}
			return a, nil, nil
		}
	} else {
		// As UpdateNoErrors, but saying why.
		updated, err := manager.Update(live, object, s.Manager)
		if err != nil {
			a.Untracked = err.Error()
			object.SetManagedFields(nil)
			updated = object
		}
		result = updated
	}
	object, ok := result.(*unstructured.Unstructured)
	if !ok {
		return answer{}, nil, fmt.Errorf("unexpected %T", result)
	}
	object = c.reset(stored, object.DeepCopy(), s.Subresource)
	if err := settleTimes(object, s.Now); err != nil {
		return answer{}, nil, err
	}
	object.SetUID("1")
	a.Object = object.DeepCopy().Object
	if s.Apply {
		a.Extracted = extract(types, object, s)
	}
	return a, object, nil
}

// reset does what the strategies of the custom resource do before a write.
func (c testCase) reset(stored, object *unstructured.Unstructured, subresource string) *unstructured.Unstructured {
	statusOf := func(to, from *unstructured.Unstructured) {
		delete(to.Object, "status")
		if from != nil {
			if status, ok := from.Object["status"]; ok {
				to.Object["status"] = status
			}
		}
	}
	switch {
	case subresource == "status":
		updated := stored.DeepCopy()
		updated.SetManagedFields(object.GetManagedFields())
		statusOf(updated, object)
		return updated
	case c.StatusSubresource:
		statusOf(object, stored)
	}
	return object
}

// settleTimes puts the time of the case for that of the clock.
func settleTimes(object *unstructured.Unstructured, now metav1.Time) error {
	entries := object.GetManagedFields()
	for i := range entries {
		if entries[i].Time != nil && entries[i].Time.After(time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)) {
			entries[i].Time = &now
		}
	}
	object.SetManagedFields(entries)
	return nil
}

// extract is managedfields.ExtractInto with these types. Nil: there is nothing, or the object is not as the schema has it.
func extract(types managedfields.TypeConverter, object *unstructured.Unstructured, s step) any {
	for _, entry := range object.GetManagedFields() {
		if entry.Manager != s.Manager || entry.Operation != metav1.ManagedFieldsOperationApply || entry.Subresource != s.Subresource {
			continue
		}
		typed, err := types.ObjectToTyped(object)
		if err != nil {
			return nil
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return nil
		}
		return typed.ExtractItems(set.Leaves()).AsValue().Unstructured()
	}
	return nil
}

// converter knows one version. Another is as one that is no longer served.
type converter struct{}

func (converter) Convert(_, _, _ any) error { return errors.New("not supported") }

func (converter) ConvertFieldLabel(schema.GroupVersionKind, string, string) (string, string, error) {
	return "", "", errors.New("not supported")
}

func (converter) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	from := in.GetObjectKind().GroupVersionKind()
	to, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{from})
	if !ok || to != kind {
		return nil, runtime.NewNotRegisteredErrForKind("oracle", from)
	}
	return in.DeepCopyObject(), nil
}

type defaulter struct{}

func (defaulter) Default(runtime.Object) {}

type creater struct{}

func (creater) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object, nil
}
