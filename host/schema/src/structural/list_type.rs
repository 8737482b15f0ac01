//! Uniqueness in lists of type `set` and `map` (apiextensions-apiserver, pkg/apiserver/schema/listtype).

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::cause::Cause;
use super::node::{Additional, ListType, Node};

pub(super) fn check(schema: &Node, value: &Value, causes: &mut Vec<Cause>) {
    walk(schema, value, "", causes);
}

fn walk(schema: &Node, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                if let Some(property) = schema.properties.get(key) {
                    let path = if path.is_empty() {
                        key.clone()
                    } else {
                        format!("{path}.{key}")
                    };
                    walk(property, value, &path, causes);
                } else if let Some(additional) =
                    schema.additional.as_ref().and_then(Additional::schema)
                {
                    walk(additional, value, &format!("{path}[{key}]"), causes);
                }
            }
        }
        Value::Array(items) => {
            match schema.list_type {
                Some(ListType::Set) => {
                    for index in repeated(items.iter().map(Value::to_string)) {
                        causes.push(Cause::duplicate(&format!("{path}[{index}]"), &items[index]));
                    }
                }
                Some(ListType::Map) => map_keys(&schema.list_map_keys, items, path, causes),
                Some(ListType::Atomic) | None => {}
            }
            if let Some(schema) = schema.items.as_deref() {
                for (index, item) in items.iter().enumerate() {
                    walk(schema, item, &format!("{path}[{index}]"), causes);
                }
            }
        }
        _ => {}
    }
}

fn map_keys(keys: &[String], items: &[Value], path: &str, causes: &mut Vec<Cause>) {
    if let Some((index, item)) = items
        .iter()
        .enumerate()
        .find(|(_, item)| !item.is_object() && !item.is_null())
    {
        causes.push(Cause::invalid(
            &format!("{path}[{index}]"),
            item,
            "must be an object for an array of list-type map",
        ));
        return;
    }
    let key_of = |item: &Value| {
        let key: Map<String, Value> = keys
            .iter()
            .filter_map(|name| Some((name.clone(), item.get(name)?.clone())))
            .collect();
        Value::Object(key)
    };
    let found: Vec<Value> = items.iter().map(key_of).collect();
    for index in repeated(found.iter().map(Value::to_string)) {
        causes.push(Cause::duplicate(&format!("{path}[{index}]"), &found[index]));
    }
}

/// Where a value stands for the second time. Further repetitions are not reported.
fn repeated(values: impl Iterator<Item = String>) -> Vec<usize> {
    let mut seen: HashMap<String, u32> = HashMap::new();
    let mut found = Vec::new();
    for (index, value) in values.enumerate() {
        let times = seen.entry(value).or_default();
        *times += 1;
        if *times == 2 {
            found.push(index);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::StructuralSchema;

    #[test]
    fn sets_and_maps_report_the_second_of_equal_members() {
        let schema = StructuralSchema::from_value(json!({"type": "object", "properties": {"spec": {"type": "object",
            "properties": {
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
                    "items": {"type": "object", "required": ["port"], "properties": {
                        "port": {"type": "integer"}, "name": {"type": "string"}}}},
            }}}}))
        .unwrap();
        let causes = schema.validate(&json!({"spec": {
            "tags": ["a", "b", "a", "a"],
            "ports": [{"port": 1, "name": "x"}, {"port": 1, "name": "y"}, {"port": 2}],
        }}));
        let found: Vec<_> = causes
            .iter()
            .map(|c| (c.reason.as_str(), c.message.as_str(), c.field.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                (
                    "FieldValueDuplicate",
                    r#"Duplicate value: {"port":1}"#,
                    "spec.ports[1]"
                ),
                (
                    "FieldValueDuplicate",
                    r#"Duplicate value: "a""#,
                    "spec.tags[2]"
                ),
            ]
        );
    }
}
