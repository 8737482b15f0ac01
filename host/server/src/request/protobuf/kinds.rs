//! The messages of the built-in kinds that standalone serves, from the `generated.proto` files of k8s.io/apimachinery
//! and k8s.io/api. What only a server writes is left out.

use super::Form::{
    BoolOrNone, BytesMap, Int, IntOrNone, MicroTime, Nested, Objects, Text, TextMap, Texts, Time,
};
use super::{Field as F, Message};

/// The message of a kind.
pub(super) fn message(api_version: &str, kind: &str) -> Option<&'static Message> {
    Some(match (api_version, kind) {
        ("v1", "Namespace") => &NAMESPACE,
        ("v1", "ConfigMap") => &CONFIG_MAP,
        ("v1", "Event") => &EVENT,
        ("coordination.k8s.io/v1", "Lease") => &LEASE,
        ("authentication.k8s.io/v1", "SelfSubjectReview") => &SELF_REVIEW,
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview") => &ACCESS_REVIEW,
        ("authorization.k8s.io/v1", "SelfSubjectRulesReview") => &RULES_REVIEW,
        // In the group that is deleted from, as client-go does, or in meta's own.
        (_, "DeleteOptions") => &DELETE_OPTIONS,
        _ => return None,
    })
}

static OBJECT_META: Message = Message(&[
    F(1, "name", Text),
    F(2, "generateName", Text),
    F(3, "namespace", Text),
    F(4, "selfLink", Text),
    F(5, "uid", Text),
    F(6, "resourceVersion", Text),
    F(7, "generation", Int),
    F(8, "creationTimestamp", Time),
    F(9, "deletionTimestamp", Time),
    F(10, "deletionGracePeriodSeconds", IntOrNone),
    F(11, "labels", TextMap),
    F(12, "annotations", TextMap),
    F(13, "ownerReferences", Objects(&OWNER_REFERENCE)),
    F(14, "finalizers", Texts),
]);

static OWNER_REFERENCE: Message = Message(&[
    F(1, "kind", Text),
    F(3, "name", Text),
    F(4, "uid", Text),
    F(5, "apiVersion", Text),
    F(6, "controller", BoolOrNone),
    F(7, "blockOwnerDeletion", BoolOrNone),
]);

static DELETE_OPTIONS: Message = Message(&[
    F(1, "gracePeriodSeconds", IntOrNone),
    F(2, "preconditions", Nested(&PRECONDITIONS)),
    F(3, "orphanDependents", BoolOrNone),
    F(4, "propagationPolicy", Text),
    F(5, "dryRun", Texts),
]);

static PRECONDITIONS: Message = Message(&[F(1, "uid", Text), F(2, "resourceVersion", Text)]);

static NAMESPACE: Message = Message(&[
    F(1, "metadata", Nested(&OBJECT_META)),
    F(2, "spec", Nested(&NAMESPACE_SPEC)),
    F(3, "status", Nested(&NAMESPACE_STATUS)),
]);

static NAMESPACE_SPEC: Message = Message(&[F(1, "finalizers", Texts)]);

static NAMESPACE_STATUS: Message = Message(&[
    F(1, "phase", Text),
    F(2, "conditions", Objects(&NAMESPACE_CONDITION)),
]);

static NAMESPACE_CONDITION: Message = Message(&[
    F(1, "type", Text),
    F(2, "status", Text),
    F(4, "lastTransitionTime", Time),
    F(5, "reason", Text),
    F(6, "message", Text),
]);

static CONFIG_MAP: Message = Message(&[
    F(1, "metadata", Nested(&OBJECT_META)),
    F(2, "data", TextMap),
    F(3, "binaryData", BytesMap),
    F(4, "immutable", BoolOrNone),
]);

static EVENT: Message = Message(&[
    F(1, "metadata", Nested(&OBJECT_META)),
    F(2, "involvedObject", Nested(&OBJECT_REFERENCE)),
    F(3, "reason", Text),
    F(4, "message", Text),
    F(5, "source", Nested(&EVENT_SOURCE)),
    F(6, "firstTimestamp", Time),
    F(7, "lastTimestamp", Time),
    F(8, "count", Int),
    F(9, "type", Text),
    F(10, "eventTime", MicroTime),
    F(11, "series", Nested(&EVENT_SERIES)),
    F(12, "action", Text),
    F(13, "related", Nested(&OBJECT_REFERENCE)),
    F(14, "reportingComponent", Text),
    F(15, "reportingInstance", Text),
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

static LEASE: Message = Message(&[
    F(1, "metadata", Nested(&OBJECT_META)),
    F(2, "spec", Nested(&LEASE_SPEC)),
]);

static LEASE_SPEC: Message = Message(&[
    F(1, "holderIdentity", Text),
    F(2, "leaseDurationSeconds", IntOrNone),
    F(3, "acquireTime", MicroTime),
    F(4, "renewTime", MicroTime),
    F(5, "leaseTransitions", IntOrNone),
    F(6, "strategy", Text),
    F(7, "preferredHolder", Text),
]);

static SELF_REVIEW: Message = Message(&[F(1, "metadata", Nested(&OBJECT_META))]);

static ACCESS_REVIEW: Message = Message(&[
    F(1, "metadata", Nested(&OBJECT_META)),
    F(2, "spec", Nested(&ACCESS_REVIEW_SPEC)),
]);

static ACCESS_REVIEW_SPEC: Message = Message(&[
    F(1, "resourceAttributes", Nested(&RESOURCE_ATTRIBUTES)),
    F(2, "nonResourceAttributes", Nested(&NON_RESOURCE_ATTRIBUTES)),
]);

static RESOURCE_ATTRIBUTES: Message = Message(&[
    F(1, "namespace", Text),
    F(2, "verb", Text),
    F(3, "group", Text),
    F(4, "version", Text),
    F(5, "resource", Text),
    F(6, "subresource", Text),
    F(7, "name", Text),
    F(8, "fieldSelector", Nested(&SELECTOR)),
    F(9, "labelSelector", Nested(&SELECTOR)),
]);

static SELECTOR: Message = Message(&[
    F(1, "rawSelector", Text),
    F(2, "requirements", Objects(&REQUIREMENT)),
]);

static REQUIREMENT: Message = Message(&[
    F(1, "key", Text),
    F(2, "operator", Text),
    F(3, "values", Texts),
]);

static NON_RESOURCE_ATTRIBUTES: Message = Message(&[F(1, "path", Text), F(2, "verb", Text)]);

static RULES_REVIEW: Message = Message(&[
    F(1, "metadata", Nested(&OBJECT_META)),
    F(2, "spec", Nested(&RULES_REVIEW_SPEC)),
]);

static RULES_REVIEW_SPEC: Message = Message(&[F(1, "namespace", Text)]);
