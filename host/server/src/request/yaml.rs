//! YAML as JSON.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;
use serde_saphyr::DuplicateKeyPolicy;

/// The JSON text of one YAML document. A member that comes twice comes twice there too: what becomes of it is decided where JSON
/// bodies with such members are judged, and is then the same.
///
/// # Errors
/// Says where it is no YAML, or no JSON can say the same.
pub(super) fn to_json(text: &str) -> Result<Vec<u8>, String> {
    // 010 is eight in YAML 1.1, as for Go.
    let options = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        legacy_octal_numbers: true,
    };
    let node: Node =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())?;
    serde_json::to_vec(&node).map_err(|error| error.to_string())
}

/// A value whose members are as they were written.
enum Node {
    Scalar(Value),
    List(Vec<Node>),
    Members(Vec<(String, Node)>),
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Node::Scalar(value) => value.serialize(serializer),
            Node::List(items) => items.serialize(serializer),
            Node::Members(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyNode)
    }
}

struct AnyNode;

impl<'de> Visitor<'de> for AnyNode {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON has too")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = entries.next_entry()? {
            members.push(member);
        }
        Ok(Node::Members(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(yaml: &str) -> String {
        String::from_utf8(to_json(yaml).unwrap()).unwrap()
    }

    #[test]
    fn numbers_are_those_of_go() {
        assert_eq!(
            json("[010, 0x10, 1e1, '010', 1.5]"),
            r#"[8,16,10.0,"010",1.5]"#
        );
    }

    #[test]
    fn a_member_that_comes_twice_is_kept_twice() {
        assert_eq!(
            json("a: 1\nb:\n  c: 1\n  c: x\na: [z]\n"),
            r#"{"a":1,"b":{"c":1,"c":"x"},"a":["z"]}"#
        );
    }

    #[test]
    fn values_are_those_that_go_reads_and_keys_are_text() {
        assert_eq!(
            json(
                "{on: yes, n: null, e: , t: true, f: 1.5, i: -3, u: 18446744073709551615, s: '1', 5: five, d: 2026-01-01}"
            ),
            r#"{"on":true,"n":null,"e":null,"t":true,"f":1.5,"i":-3,"u":18446744073709551615,"s":"1","5":"five","d":"2026-01-01"}"#
        );
    }

    #[test]
    fn anchors_and_merges_are_written_out() {
        assert_eq!(
            json("a: &a {x: 1, y: 2}\nb: *a\nc: {<<: *a, y: 3}\n"),
            r#"{"a":{"x":1,"y":2},"b":{"x":1,"y":2},"c":{"y":3,"x":1}}"#
        );
    }

    #[test]
    fn of_two_documents_none_is_taken() {
        assert!(to_json("a: 1\n---\na: 2\n").is_err());
        assert!(to_json("a: [").is_err());
    }
}
