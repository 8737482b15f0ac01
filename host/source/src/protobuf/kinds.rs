//! The messages of k8s.io/api and k8s.io/apimachinery, in the order in which Go writes their fields as JSON. Numbers are those of
//! the `generated.proto` files, forms those of the struct tags in `types.go`.

use super::Kind;
use super::text::Form::{
    Annotations, Bool, Dropped, Int, IntOrNone, MicroTime, Nested, Objects, OrNone, Plain, Text,
    TextMap, Texts, Time, TimeOrNone,
};
use super::text::{Field as F, Message};

pub(super) static EVENT: Kind = Kind {
    api_version: "v1",
    kind: "Event",
    metadata: &OBJECT_META,
    rest: &EVENT_REST,
};

static OBJECT_META: Message = Message(&[
    F(1, "name", Text),
    F(2, "generateName", Text),
    F(3, "namespace", Text),
    F(4, "selfLink", Text),
    F(5, "uid", Text),
    F(6, "resourceVersion", Text),
    F(7, "generation", Int),
    F(8, "creationTimestamp", TimeOrNone),
    F(9, "deletionTimestamp", TimeOrNone),
    F(10, "deletionGracePeriodSeconds", IntOrNone),
    F(11, "labels", TextMap),
    F(12, "annotations", Annotations),
    F(13, "ownerReferences", Objects(&OWNER_REFERENCE)),
    F(14, "finalizers", Texts),
    F(17, "managedFields", Dropped),
]);

static OWNER_REFERENCE: Message = Message(&[
    F(5, "apiVersion", Plain),
    F(1, "kind", Plain),
    F(3, "name", Plain),
    F(4, "uid", Plain),
    F(6, "controller", Bool),
    F(7, "blockOwnerDeletion", Bool),
]);

/// Without metadata.
static EVENT_REST: Message = Message(&[
    F(2, "involvedObject", Nested(&OBJECT_REFERENCE)),
    F(3, "reason", Text),
    F(4, "message", Text),
    F(5, "source", Nested(&EVENT_SOURCE)),
    F(6, "firstTimestamp", Time),
    F(7, "lastTimestamp", Time),
    F(8, "count", Int),
    F(9, "type", Text),
    F(10, "eventTime", MicroTime),
    F(11, "series", OrNone(&EVENT_SERIES)),
    F(12, "action", Text),
    F(13, "related", OrNone(&OBJECT_REFERENCE)),
    F(14, "reportingComponent", Plain),
    F(15, "reportingInstance", Plain),
]);

static OBJECT_REFERENCE: Message = Message(&[
    F(1, "kind", Text),
    F(2, "namespace", Text),
    F(3, "name", Text),
    F(4, "uid", Text),
    F(5, "apiVersion", Text),
    F(6, "resourceVersion", Text),
    F(7, "fieldPath", Text),
]);

static EVENT_SOURCE: Message = Message(&[F(1, "component", Text), F(2, "host", Text)]);

static EVENT_SERIES: Message = Message(&[F(1, "count", Int), F(2, "lastObservedTime", MicroTime)]);
