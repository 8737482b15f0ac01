//! Schemas with all that decides who may own what.

use serde_json::{Value, json};

pub(crate) fn all() -> Vec<(&'static str, Option<Value>)> {
    vec![
        ("lists and maps", Some(lists_and_maps())),
        ("untyped parts", Some(untyped_parts())),
        ("nested lists", Some(nested_lists())),
        ("preserved root", Some(preserved_root())),
        ("no schema", None),
    ]
}

pub(crate) fn lists_and_maps() -> Value {
    let string = || json!({"type": "string"});
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "title": string(),
            "count": {"type": "integer"},
            "ratio": {"type": "number"},
            "on": {"type": "boolean"},
            "since": {"type": "string", "format": "date-time"},
            "maybe": {"type": "string", "nullable": true},
            "atomic": {"type": "array", "items": string()},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": string()},
            "numbers": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "number"}},
            "ports": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {"type": "object", "required": ["port"], "properties": {
                    "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"},
                    "name": string(), "tags": {"type": "object", "additionalProperties": string()}}}},
            "labels": {"type": "object", "additionalProperties": string()},
            "granular": {"type": "object", "x-kubernetes-map-type": "granular",
                "properties": {"a": string(), "b": string()}},
            "selector": {"type": "object", "x-kubernetes-map-type": "atomic",
                "properties": {"a": string(), "b": {"type": "object", "additionalProperties": string()}}},
        }},
        "status": {"type": "object", "properties": {
            "phase": string(),
            "conditions": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                "items": {"type": "object", "required": ["type"], "properties": {
                    "type": string(), "status": string()}}},
        }},
    }})
}

fn untyped_parts() -> Value {
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "size": {"x-kubernetes-int-or-string": true},
            "sizes": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "any": {"x-kubernetes-preserve-unknown-fields": true},
            "partly": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                "a": {"type": "string"}, "b": {"type": "object", "properties": {"c": {"type": "integer"}}}}},
            "template": {"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true},
            "list": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"name": {"type": "string"}}}},
        }},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }})
}

fn nested_lists() -> Value {
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "groups": {"type": "object", "additionalProperties": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"},
                    "members": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "inner": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
                        "items": {"type": "object", "required": ["id"], "properties": {
                            "id": {"type": "integer"}, "value": {"type": "string"}}}},
                    "whole": {"type": "object", "x-kubernetes-map-type": "atomic",
                        "additionalProperties": {"type": "string"}}}}}},
            "deep": {"type": "object", "properties": {"er": {"type": "object", "properties": {
                "a": {"type": "string"}, "b": {"type": "object", "additionalProperties": {"type": "integer"}}}}}},
            "pairs": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "x-kubernetes-map-type": "atomic", "required": ["name"], "properties": {
                    "name": {"type": "string"}, "value": {"type": "string"}}}},
        }},
        "status": {"type": "object", "properties": {"count": {"type": "integer"}}},
    }})
}

fn preserved_root() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
        "spec": {"type": "object", "properties": {"a": {"type": "string"}}},
    }})
}
