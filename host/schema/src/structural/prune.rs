//! Dropping what the schema does not specify (apiextensions-apiserver, pkg/apiserver/schema/pruning).

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::node::{Additional, Node};

const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

const OBJECT_META: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

const OWNER_REFERENCE: [&str; 6] = [
    "apiVersion",
    "blockOwnerDeletion",
    "controller",
    "kind",
    "name",
    "uid",
];

pub(super) fn root(schema: &Node, object: &mut Value) -> Vec<String> {
    let mut unknown = Unknown::default();
    if let Some(metadata) = object.get_mut("metadata") {
        unknown.within("metadata", |unknown| object_meta(metadata, unknown));
    }
    prune(object, Some(schema), true, &mut unknown);
    unknown.found()
}

/// As [`root`], for a value that is no resource.
pub(super) fn fragment(schema: &Node, value: &mut Value) -> Vec<String> {
    let mut unknown = Unknown::default();
    prune(value, Some(schema), false, &mut unknown);
    unknown.found()
}

/// The path walked so far, and the unknown fields found.
#[derive(Default)]
struct Unknown {
    path: String,
    fields: Vec<String>,
}

impl Unknown {
    fn within(&mut self, key: &str, walk: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        walk(self);
        self.path.truncate(length);
    }

    fn at(&mut self, index: usize, walk: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        let _ = write!(self.path, "[{index}]");
        walk(self);
        self.path.truncate(length);
    }

    fn found(mut self) -> Vec<String> {
        self.fields.sort_unstable();
        self.fields
            .into_iter()
            .map(|field| format!("unknown field \"{field}\""))
            .collect()
    }

    fn record(&mut self, key: &str) {
        self.within(key, |unknown| unknown.fields.push(unknown.path.clone()));
    }
}

fn prune(value: &mut Value, schema: Option<&Node>, resource: bool, unknown: &mut Unknown) {
    if let Some(schema) = schema
        && schema.preserve_unknown_fields
    {
        return skip(value, schema, resource, unknown);
    }
    match value {
        Value::Object(fields) => {
            let resource = resource || schema.is_some_and(|schema| schema.embedded_resource);
            fields.retain(|key, value| {
                if resource && META_FIELDS.contains(&key.as_str()) {
                    return true;
                }
                match child(schema, key) {
                    Child::Known(schema) => {
                        unknown.within(key, |unknown| prune(value, schema, false, unknown));
                        true
                    }
                    Child::Unknown => {
                        unknown.record(key);
                        false
                    }
                }
            });
        }
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            for (index, item) in items.iter_mut().enumerate() {
                unknown.at(index, |unknown| prune(item, schema, false, unknown));
            }
        }
        _ => {}
    }
}

/// Below `x-kubernetes-preserve-unknown-fields` all stays but what specified fields do not know inside themselves.
fn skip(value: &mut Value, schema: &Node, resource: bool, unknown: &mut Unknown) {
    match value {
        Value::Object(fields) => {
            let resource = resource || schema.embedded_resource;
            for (key, value) in fields {
                if resource && META_FIELDS.contains(&key.as_str()) {
                    continue;
                }
                if let Child::Known(schema) = child(Some(schema), key) {
                    unknown.within(key, |unknown| prune(value, schema, false, unknown));
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.items.as_deref() {
                for (index, item) in items.iter_mut().enumerate() {
                    unknown.at(index, |unknown| skip(item, schema, false, unknown));
                }
            }
        }
        _ => {}
    }
}

enum Child<'a> {
    /// Specified; none: `additionalProperties: true`, which keeps the key and knows nothing of the value.
    Known(Option<&'a Node>),
    Unknown,
}

fn child<'a>(schema: Option<&'a Node>, key: &str) -> Child<'a> {
    let Some(schema) = schema else {
        return Child::Unknown;
    };
    match (schema.properties.get(key), &schema.additional) {
        (Some(property), _) => Child::Known(Some(property)),
        (None, Some(additional)) => Child::Known(Additional::schema(additional)),
        (None, None) => Child::Unknown,
    }
}

fn object_meta(metadata: &mut Value, unknown: &mut Unknown) {
    let Value::Object(fields) = metadata else {
        return;
    };
    retain_known(fields, &OBJECT_META, unknown);
    if let Some(Value::Array(owners)) = fields.get_mut("ownerReferences") {
        unknown.within("ownerReferences", |unknown| {
            for (index, owner) in owners.iter_mut().enumerate() {
                if let Value::Object(fields) = owner {
                    unknown.at(index, |unknown| {
                        retain_known(fields, &OWNER_REFERENCE, unknown)
                    });
                }
            }
        });
    }
}

fn retain_known(fields: &mut Map<String, Value>, known: &[&str], unknown: &mut Unknown) {
    fields.retain(|key, _| {
        let keep = known.contains(&key.as_str());
        if !keep {
            unknown.record(key);
        }
        keep
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::StructuralSchema;

    fn schema(source: serde_json::Value) -> StructuralSchema {
        StructuralSchema::from_value(source).unwrap()
    }

    #[test]
    fn unknown_fields_are_dropped_and_named_as_kube_apiserver_names_them() {
        let schema = schema(
            json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
                "a": {"type": "string"},
                "list": {"type": "array", "items": {"type": "object", "properties": {"b": {"type": "string"}}}},
            }}}}),
        );
        let mut object = json!({
            "apiVersion": "g/v1", "kind": "K",
            "metadata": {"name": "n", "nmae": "x", "ownerReferences": [{"uid": "u", "oops": 1}]},
            "spec": {"a": "1", "x": 2, "list": [{"b": "1"}, {"b": "2", "c": 3}]},
            "extra": {},
        });
        assert_eq!(
            schema.prune(&mut object),
            [
                r#"unknown field "extra""#,
                r#"unknown field "metadata.nmae""#,
                r#"unknown field "metadata.ownerReferences[0].oops""#,
                r#"unknown field "spec.list[1].c""#,
                r#"unknown field "spec.x""#,
            ]
        );
        assert_eq!(
            object,
            json!({
                "apiVersion": "g/v1", "kind": "K",
                "metadata": {"name": "n", "ownerReferences": [{"uid": "u"}]},
                "spec": {"a": "1", "list": [{"b": "1"}, {"b": "2"}]},
            })
        );
    }

    #[test]
    fn preserved_subtrees_keep_all_but_what_their_own_fields_do_not_know() {
        let schema = schema(json!({"type": "object", "properties": {"spec": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}},
        }}}));
        let mut object = json!({"spec": {"any": {"thing": [1]}, "known": {"a": "1", "b": 2}}});
        assert_eq!(
            schema.prune(&mut object),
            [r#"unknown field "spec.known.b""#]
        );
        assert_eq!(
            object,
            json!({"spec": {"any": {"thing": [1]}, "known": {"a": "1"}}})
        );
    }

    #[test]
    fn embedded_resources_keep_their_type_and_metadata() {
        let schema = schema(json!({"type": "object", "properties": {"template": {
            "type": "object", "x-kubernetes-embedded-resource": true,
            "properties": {"spec": {"type": "object"}},
        }}}));
        let mut object = json!({"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}, "z": 1}});
        assert_eq!(schema.prune(&mut object), [r#"unknown field "template.z""#]);
        assert_eq!(
            object,
            json!({"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}}})
        );
    }

    #[test]
    fn maps_keep_their_keys() {
        let schema = schema(json!({"type": "object", "properties": {"labels": {
            "type": "object", "additionalProperties": {"type": "string"},
        }}}));
        let mut object = json!({"labels": {"a": "b"}});
        assert!(schema.prune(&mut object).is_empty());
        assert_eq!(object, json!({"labels": {"a": "b"}}));
    }
}
