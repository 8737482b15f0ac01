//! Whether the members of metadata are of the types that they must be of, in the words of Go's encoding/json, which tools
//! print as they come.

use serde_json::{Map, Value};

/// Of metav1.ObjectMeta.
enum Type {
    Text,
    Integer,
    Time,
    Texts,
    Map,
    Objects(&'static str),
}

const MEMBERS: [(&str, Type); 14] = [
    ("name", Type::Text),
    ("generateName", Type::Text),
    ("namespace", Type::Text),
    ("selfLink", Type::Text),
    ("uid", Type::Text),
    ("resourceVersion", Type::Text),
    ("generation", Type::Integer),
    ("creationTimestamp", Type::Time),
    ("deletionTimestamp", Type::Time),
    ("deletionGracePeriodSeconds", Type::Integer),
    ("labels", Type::Map),
    ("annotations", Type::Map),
    ("finalizers", Type::Texts),
    ("ownerReferences", Type::Objects("[]v1.OwnerReference")),
];

/// Checks what an object has as metadata, and makes of null inside of a collection what Go reads it as: an empty string.
///
/// # Errors
/// Says what is of another type than it must be.
pub(super) fn settle(metadata: &mut Map<String, Value>) -> Result<(), String> {
    for (name, expected) in MEMBERS {
        let Some(value) = metadata.get_mut(name) else {
            continue;
        };
        match expected {
            Type::Text => text(name, value)?,
            Type::Integer if value.is_i64() || value.is_u64() => {}
            Type::Integer => return Err(wrong(name, value, "int64")),
            Type::Time => {
                text(name, value)?;
                let given = value.as_str().unwrap_or_default();
                if given.parse::<jiff::Timestamp>().is_err() {
                    return Err(format!(
                        "parsing time {given:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {given:?} as \"2006\""
                    ));
                }
            }
            Type::Texts => match value {
                Value::Array(items) => items
                    .iter_mut()
                    .try_for_each(|item| text_or_null(name, item))?,
                _ => return Err(wrong(name, value, "[]string")),
            },
            Type::Map => match value {
                Value::Object(members) => members
                    .values_mut()
                    .try_for_each(|value| text_or_null(name, value))?,
                _ => return Err(wrong(name, value, "map[string]string")),
            },
            Type::Objects(_) if value.is_array() => {}
            Type::Objects(list) => return Err(wrong(name, value, list)),
        }
    }
    Ok(())
}

/// What metadata is when it is no object.
pub(super) fn no_object(value: &Value) -> String {
    let kind = kind(value);
    format!("json: cannot unmarshal {kind} into Go value of type v1.ObjectMeta")
}

fn text(name: &str, value: &Value) -> Result<(), String> {
    if value.is_string() {
        Ok(())
    } else {
        Err(wrong(name, value, "string"))
    }
}

fn text_or_null(name: &str, value: &mut Value) -> Result<(), String> {
    if value.is_null() {
        *value = Value::String(String::new());
    }
    text(name, value)
}

fn wrong(name: &str, value: &Value, expected: &str) -> String {
    let kind = kind(value);
    format!(
        "json: cannot unmarshal {kind} into Go struct field ObjectMeta.{name} of type {expected}"
    )
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settled(mut value: Value) -> Result<Value, String> {
        settle(value.as_object_mut().unwrap()).map(|()| value)
    }

    #[test]
    fn null_in_a_collection_is_an_empty_string() {
        let given = json!({"labels": {"a": null}, "finalizers": [null], "other": 1});
        let read = json!({"labels": {"a": ""}, "finalizers": [""], "other": 1});
        assert_eq!(settled(given), Ok(read));
    }

    #[test]
    fn another_type_is_told_as_go_tells_it() {
        for (given, said) in [
            (
                json!({"labels": {"a": 5}}),
                "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
            ),
            (
                json!({"labels": []}),
                "json: cannot unmarshal array into Go struct field ObjectMeta.labels of type map[string]string",
            ),
            (
                json!({"generation": "x"}),
                "json: cannot unmarshal string into Go struct field ObjectMeta.generation of type int64",
            ),
            (
                json!({"ownerReferences": {}}),
                "json: cannot unmarshal object into Go struct field ObjectMeta.ownerReferences of type []v1.OwnerReference",
            ),
            (
                json!({"creationTimestamp": "yesterday"}),
                "parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"yesterday\" as \"2006\"",
            ),
        ] {
            assert_eq!(settled(given), Err(said.to_owned()));
        }
    }
}
