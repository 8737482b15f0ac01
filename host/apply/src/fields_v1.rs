//! `fieldsV1`: the JSON form of a set of paths.
//!
//! A member's name is a path element, its value the set below it. `{}` is a member with none below it; a member with
//! others below it says so by `".": {}`.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::element::PathElement;
use crate::set::{FieldSet, Node};

/// The member that stands for the path itself.
const SELF: &str = ".";

/// A `fieldsV1` that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FieldsError(String);

impl FieldSet {
    /// Reads a `fieldsV1`. Path elements of unknown kinds are dropped.
    ///
    /// # Errors
    /// What is no JSON object, or has a member whose name is no path element.
    pub fn decode(fields: &Value) -> Result<Self, FieldsError> {
        Ok(read(fields)?.0)
    }

    /// As a `fieldsV1`. A [`Value`] sorts members by their names; as text ([`Serialize`]) they have the canonical order,
    /// that of their path elements.
    #[must_use]
    pub fn encode(&self) -> Value {
        members(self, false)
    }
}

/// The set, and whether the path itself is a member.
fn read(fields: &Value) -> Result<(FieldSet, bool), FieldsError> {
    let mut set = FieldSet::default();
    let mut member = false;
    match fields {
        Value::Null => {}
        Value::Object(fields) => {
            for (name, value) in fields {
                if name == SELF {
                    member = true;
                } else if let Some(element) = PathElement::decode(name).map_err(FieldsError)? {
                    let (children, member) = read(value)?;
                    // Two spellings of one element are one.
                    let node = set.nodes.entry(element).or_default();
                    node.member |= member;
                    node.children.extend(&children);
                }
            }
        }
        other => return Err(FieldsError(format!("expected an object, got {other}"))),
    }
    let member = member || set.is_empty();
    Ok((set, member))
}

fn members(set: &FieldSet, with_self: bool) -> Value {
    let mut fields = Map::new();
    if with_self {
        fields.insert(SELF.to_owned(), Value::Object(Map::new()));
    }
    for (element, node) in &set.nodes {
        let with_self = node.member && !node.children.is_empty();
        fields.insert(element.encode(), members(&node.children, with_self));
    }
    Value::Object(fields)
}

impl Serialize for FieldSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (element, node) in &self.nodes {
            map.serialize_entry(&element.encode(), node)?;
        }
        map.end()
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if self.member && !self.children.is_empty() {
            map.serialize_entry(SELF, &Map::new())?;
        }
        for (element, node) in &self.children.nodes {
            map.serialize_entry(&element.encode(), node)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_has_the_canonical_order_whatever_the_order_it_was_read_in() {
        let fields = json!({
            "i:2": {}, "i:10": {}, "v:true": {}, "v:\"a\"": {}, "v:3": {}, "v: 2": {},
            "k:{ \"port\":443, \"name\":\"b\"}": {}, "k:{\"name\":\"a\"}": {".": {}, "f:x": {}},
            "f:b": {"f:c": {}}, "f:a": {}, "r:new": {},
        });
        let set = FieldSet::decode(&fields).unwrap();
        assert_eq!(
            serde_json::to_string(&set).unwrap(),
            concat!(
                r#"{"f:a":{},"f:b":{"f:c":{}},"k:{\"name\":\"a\"}":{".":{},"f:x":{}},"#,
                r#""k:{\"name\":\"b\",\"port\":443}":{},"v:2":{},"v:3":{},"v:\"a\"":{},"v:true":{},"i:2":{},"i:10":{}}"#
            )
        );
        assert_eq!(serde_json::to_value(&set).unwrap(), set.encode());
    }

    #[test]
    fn a_field_with_fields_below_it_is_a_member_only_if_it_says_so() {
        let set =
            FieldSet::decode(&json!({"f:a": {"f:b": {}}, "f:c": {".": {}, "f:d": {}}})).unwrap();
        let paths: Vec<_> = set.paths().iter().map(ToString::to_string).collect();
        assert_eq!(paths, [".c", ".a.b", ".c.d"]);
    }

    #[test]
    fn what_holds_only_unknown_kinds_is_a_member_itself() {
        let set = FieldSet::decode(&json!({"f:a": {"r:b": {}}, "f:c": null})).unwrap();
        assert_eq!(set.encode(), json!({"f:a": {}, "f:c": {}}));
    }

    #[test]
    fn garbage_is_refused() {
        for fields in [
            json!([]),
            json!({"f:a": 1}),
            json!({"a": {}}),
            json!({"v:x": {}}),
        ] {
            assert!(FieldSet::decode(&fields).is_err(), "{fields}");
        }
    }
}
