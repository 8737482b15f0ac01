//! ObjectMeta: its shape, its rules, and who may write what of it.
//!
//! Follows k8s.io/apimachinery/pkg/api/validation/objectmeta.go and k8s.io/apiserver/pkg/registry/rest.

use std::collections::BTreeMap;

use joinery_object::Cause;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::decode::members;
use super::names;
use super::rules::Rules;
use crate::go_time;

/// Bytes of all annotations together.
const MAX_ANNOTATIONS: usize = 256 << 10;
/// Finalizers that the garbage collector takes away.
pub(super) const ORPHAN: &str = "orphan";
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// Of what cannot be changed.
pub(super) const IMMUTABLE: &str = "field is immutable";

/// The members that clients never write.
const OF_THE_HOST: [&str; 5] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
];
/// The members that admission does not write either.
const OF_NO_GUEST: [&str; 4] = ["name", "namespace", "generateName", "managedFields"];

/// What the host reads of an object's metadata. Members that are not there are empty.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ObjectMeta {
    pub(crate) name: String,
    pub(crate) generate_name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    pub(crate) generation: i64,
    pub(crate) creation_timestamp: String,
    pub(crate) deletion_timestamp: Option<String>,
    pub(crate) deletion_grace_period_seconds: Option<i64>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) finalizers: Vec<String>,
    pub(super) owner_references: Vec<OwnerReference>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct OwnerReference {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_owner_deletion: Option<bool>,
}

impl ObjectMeta {
    /// Reads them from an object.
    ///
    /// # Errors
    /// Says what is of another type than it must be.
    pub(crate) fn read(object: &Value) -> Result<Self, String> {
        let metadata = &object["metadata"];
        if !metadata.is_object() {
            return Err("metadata must be an object".to_owned());
        }
        // Member by member, so that the error names the one that is wrong.
        for (name, value) in metadata.as_object().into_iter().flatten() {
            let one = Value::Object(Map::from_iter([(name.clone(), value.clone())]));
            Self::deserialize(&one).map_err(|error| format!("metadata.{name}: {error}"))?;
            if let ("creationTimestamp" | "deletionTimestamp", Some(time)) =
                (name.as_str(), value.as_str())
            {
                go_time::check(time, go_time::RFC3339)?;
            }
        }
        Self::deserialize(metadata).map_err(|error| format!("metadata: {error}"))
    }

    /// What is wrong with them.
    pub(crate) fn causes(&self, rules: &Rules) -> Vec<Cause> {
        let mut causes = Vec::new();
        let mut invalid = |field: &str, value: &str, wrong: Vec<String>| {
            for detail in wrong {
                causes.push(Cause::invalid(format!("metadata.{field}"), value, &detail));
            }
        };
        if !self.generate_name.is_empty() {
            let wrong = (rules.name)(&self.generate_name, true);
            invalid("generateName", &self.generate_name, wrong);
        }
        if !self.name.is_empty() {
            let mut wrong = (rules.name)(&self.name, false);
            if wrong.is_empty() && matches!(self.name.as_str(), "." | "..") {
                wrong.push(format!("may not be '{}'", self.name));
            }
            invalid("name", &self.name, wrong);
        }
        if !self.namespace.is_empty() {
            invalid(
                "namespace",
                &self.namespace,
                names::label(&self.namespace, false),
            );
        }
        for (key, value) in &self.labels {
            invalid("labels", key, names::qualified(key));
            invalid("labels", value, names::label_value(value));
        }
        for key in self.annotations.keys() {
            invalid(
                "annotations",
                key,
                names::qualified(&key.to_ascii_lowercase()),
            );
        }
        for finalizer in &self.finalizers {
            invalid("finalizers", finalizer, names::qualified(finalizer));
        }
        if self.name.is_empty() {
            let detail = "name or generateName is required";
            causes.push(Cause::required("metadata.name", detail));
        }
        let size: usize = self
            .annotations
            .iter()
            .map(|(k, v)| k.len() + v.len())
            .sum();
        if size > MAX_ANNOTATIONS {
            causes.push(Cause::too_long("metadata.annotations", MAX_ANNOTATIONS));
        }
        let has = |name: &str| self.finalizers.iter().any(|finalizer| finalizer == name);
        if has(ORPHAN) && has(FOREGROUND) {
            let detail = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
            causes.push(Cause::invalid(
                "metadata.finalizers",
                &self.finalizers,
                &detail,
            ));
        }
        self.owner_causes(&mut causes);
        causes
    }

    fn owner_causes(&self, causes: &mut Vec<Cause>) {
        const PATH: &str = "metadata.ownerReferences";
        let mut controller: Option<String> = None;
        for owner in &self.owner_references {
            let members = [
                (
                    "apiVersion",
                    &owner.api_version,
                    "version must not be empty",
                ),
                ("kind", &owner.kind, "must not be empty"),
                ("name", &owner.name, "must not be empty"),
                ("uid", &owner.uid, "must not be empty"),
            ];
            for (name, value, detail) in members {
                let no_version = name == "apiVersion"
                    && (value.ends_with('/') || value.matches('/').count() > 1);
                if value.is_empty() || no_version {
                    causes.push(Cause::invalid(format!("{PATH}.{name}"), value, detail));
                }
            }
            if owner.api_version == "v1" && owner.kind == "Event" {
                let detail = "/v1, Kind=Event is disallowed from being an owner";
                causes.push(Cause::invalid(PATH, owner, detail));
            }
            if owner.controller == Some(true) {
                let this = format!("{}/{}", owner.kind, owner.name);
                if let Some(other) = &controller {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {other} \
                         and {this}"
                    );
                    causes.push(Cause::invalid(PATH, &self.owner_references, &detail));
                } else {
                    controller = Some(this);
                }
            }
        }
    }

    /// What may become a problem: finalizers that two controllers could choose. `old` ones are no news.
    pub(crate) fn finalizer_warnings(&self, old: &[String]) -> Vec<String> {
        /// Kubernetes' own.
        const STANDARD: [&str; 3] = [ORPHAN, FOREGROUND, "kubernetes"];
        let added: std::collections::BTreeSet<_> = self
            .finalizers
            .iter()
            .filter(|finalizer| !old.contains(finalizer))
            .filter(|finalizer| !finalizer.contains('/') && !STANDARD.contains(&finalizer.as_str()))
            .collect();
        added
            .into_iter()
            .map(|finalizer| {
                format!(
                    "metadata.finalizers: {finalizer:?}: prefer a domain-qualified finalizer name to avoid accidental \
                     conflicts with other finalizer writers"
                )
            })
            .collect()
    }

    /// Nobody but the host begins the end of an object, which `old` was.
    pub(super) fn end_causes(&self, old: &Self) -> Vec<Cause> {
        let mut causes = Vec::new();
        if let (Some(time), None) = (&self.deletion_timestamp, &old.deletion_timestamp) {
            causes.push(Cause::invalid(
                "metadata.deletionTimestamp",
                time,
                IMMUTABLE,
            ));
        }
        if let (Some(seconds), None) = (
            self.deletion_grace_period_seconds,
            old.deletion_grace_period_seconds,
        ) {
            let field = "metadata.deletionGracePeriodSeconds";
            causes.push(Cause::invalid(field, seconds, IMMUTABLE));
        }
        causes
    }

    /// What is wrong with them as those of an object that was `old` before.
    pub(super) fn update_causes(&self, old: &Self, rules: &Rules) -> Vec<Cause> {
        let mut causes = self.causes(rules);
        let added: Vec<_> = self
            .finalizers
            .iter()
            .filter(|finalizer| !old.finalizers.contains(finalizer))
            .map(|finalizer| format!("{finalizer:?}"))
            .collect();
        if old.deletion_timestamp.is_some() && !added.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            );
            causes.push(Cause::forbidden("metadata.finalizers", &detail));
        }
        causes
    }
}

/// Keeps one of owners that are the same in all, and gives the warning about the others, if there are any.
pub(super) fn dedup_owners(object: &mut Value) -> Option<String> {
    let owners = object
        .pointer_mut("/metadata/ownerReferences")?
        .as_array_mut()?;
    let mut kept: Vec<Value> = Vec::with_capacity(owners.len());
    let mut dropped: Vec<String> = Vec::new();
    for owner in owners.drain(..) {
        if kept.contains(&owner) {
            dropped.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        } else {
            kept.push(owner);
        }
    }
    *owners = kept;
    (!dropped.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may \
             reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            dropped.join(", ")
        )
    })
}

/// Takes away what a client may not set on create.
pub(crate) fn wipe(object: &mut Value) {
    let metadata = members(&mut object["metadata"]);
    for name in OF_THE_HOST {
        metadata.remove(name);
    }
    metadata.remove("resourceVersion");
    metadata.remove("selfLink");
}

/// Gives an object what of its metadata only the host writes, as `old` has it.
pub(crate) fn carry_over(object: &mut Value, old: &Value) {
    let metadata = members(&mut object["metadata"]);
    for name in OF_THE_HOST {
        restore(metadata, &old["metadata"], name);
    }
    metadata.remove("selfLink");
}

/// Gives an object that admission has returned what it may not write, as it was before.
pub(super) fn guard(object: &mut Value, before: &Value) {
    for name in ["apiVersion", "kind"] {
        object[name] = before[name].clone();
    }
    let metadata = members(&mut object["metadata"]);
    for name in OF_THE_HOST.into_iter().chain(OF_NO_GUEST) {
        restore(metadata, &before["metadata"], name);
    }
    restore(metadata, &before["metadata"], "resourceVersion");
}

/// Gives an object the managedFields of another.
pub(super) fn give_owners(object: &mut Value, of: &Value) {
    restore(
        members(&mut object["metadata"]),
        &of["metadata"],
        "managedFields",
    );
}

fn restore(metadata: &mut Map<String, Value>, from: &Value, name: &str) {
    match from.get(name) {
        Some(value) => metadata.insert(name.to_owned(), value.clone()),
        None => metadata.remove(name),
    };
}

/// Milliseconds since 1970 as Kubernetes writes times: RFC 3339, in whole seconds, UTC.
pub(crate) fn timestamp(milliseconds: u64) -> String {
    i64::try_from(milliseconds)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
        .unwrap_or_default()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn causes(metadata: Value) -> Vec<String> {
        let meta = ObjectMeta::read(&json!({"metadata": metadata})).unwrap();
        let causes = meta.causes(&Rules::default());
        causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.reason))
            .collect()
    }

    #[test]
    fn good_metadata_has_no_causes() {
        let good = json!({
            "name": "a", "namespace": "b", "labels": {"a/b": "c", "x": ""}, "annotations": {"Ex.com/A": "any thing"},
            "finalizers": ["example.com/f", "kubernetes"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u", "controller": true}],
        });
        assert!(causes(good).is_empty());
    }

    #[test]
    fn each_mistake_is_named_with_its_field() {
        let bad = json!({
            "name": "A", "labels": {"a b": "c", "x": "-"}, "annotations": {"a b": ""},
            "finalizers": ["a b", "orphan", "foregroundDeletion"],
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u", "controller": true},
                {"apiVersion": "v1", "kind": "K", "name": "n", "uid": "", "controller": true},
            ],
        });
        assert_eq!(
            causes(bad),
            [
                "metadata.name: FieldValueInvalid",
                "metadata.labels: FieldValueInvalid",
                "metadata.labels: FieldValueInvalid",
                "metadata.annotations: FieldValueInvalid",
                "metadata.finalizers: FieldValueInvalid",
                "metadata.finalizers: FieldValueInvalid",
                "metadata.ownerReferences.uid: FieldValueInvalid",
                "metadata.ownerReferences: FieldValueInvalid",
            ]
        );
        assert_eq!(causes(json!({})), ["metadata.name: FieldValueRequired"]);
    }

    #[test]
    fn a_member_of_another_type_is_named() {
        let error = ObjectMeta::read(&json!({"metadata": {"labels": {"a": 1}}})).unwrap_err();
        assert!(error.starts_with("metadata.labels: "), "{error}");
    }

    #[test]
    fn nothing_new_may_hold_back_what_is_being_deleted() {
        let meta = |value: Value| ObjectMeta::read(&json!({"metadata": value})).unwrap();
        let old = meta(
            json!({"name": "a", "finalizers": ["x/a"], "deletionTimestamp": "2026-01-01T00:00:00Z"}),
        );
        let new = meta(json!({"name": "a", "finalizers": ["x/a", "x/b"]}));
        let causes = new.update_causes(&old, &Rules::default());
        assert_eq!(
            causes[0].message,
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers \
             []string{\"x/b\"}"
        );
        assert!(old.update_causes(&old, &Rules::default()).is_empty());
    }

    #[test]
    fn admission_cannot_write_what_is_the_hosts() {
        let before = json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "a", "uid": "u", "generation": 2}});
        let mut after = json!({"metadata": {"name": "b", "labels": {"x": "y"}, "deletionTimestamp": "now"}, "spec": {}});
        guard(&mut after, &before);
        assert_eq!(
            after,
            json!({"apiVersion": "v1", "kind": "K", "spec": {},
                "metadata": {"name": "a", "uid": "u", "generation": 2, "labels": {"x": "y"}}})
        );
    }

    #[test]
    fn an_owner_named_twice_is_kept_once_with_a_warning() {
        let owner = json!({"uid": "u", "name": "n"});
        let other = json!({"uid": "u", "name": "m"});
        let mut object = json!({"metadata": {"ownerReferences": [owner, other, owner]}});
        let warning = dedup_owners(&mut object).unwrap();
        assert!(warning.ends_with("observed: u"), "{warning}");
        assert_eq!(object["metadata"]["ownerReferences"], json!([owner, other]));
        assert_eq!(dedup_owners(&mut object), None);
        let mut object = json!({"metadata": {}});
        assert_eq!(dedup_owners(&mut object), None);
        assert_eq!(object, json!({"metadata": {}}));
    }

    #[test]
    fn a_new_finalizer_without_a_domain_is_warned_of() {
        let meta = json!({"metadata": {"finalizers": ["mine", "example.com/x", "orphan", "old"]}});
        let meta = ObjectMeta::read(&meta).unwrap();
        let warnings = meta.finalizer_warnings(&["old".to_owned()]);
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("\"mine\""), "{warnings:?}");
    }

    #[test]
    fn times_are_whole_seconds() {
        assert_eq!(timestamp(1_767_225_600_999), "2026-01-01T00:00:00Z");
    }
}
