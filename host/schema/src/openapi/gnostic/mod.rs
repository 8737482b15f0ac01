//! OpenAPI documents as protobuf: the messages of github.com/google/gnostic-models, which client-go asks
//! `/openapi/v2` for and kube-openapi answers with (`ToProtoBinary`).
//!
//! Tables say which key of the JSON is which field of which message; [`v2`] and [`v3`] have those that our documents
//! use. What is free JSON (defaults, extensions) travels as YAML text, of which JSON is a part.

mod v2;
mod v3;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The document as an `openapi.v2.Document`.
pub(super) fn encode_v2(document: &Value) -> Vec<u8> {
    encode(&v2::DOCUMENT, document).0
}

/// The document as an `openapi.v3.Document`.
pub(super) fn encode_v3(document: &Value) -> Vec<u8> {
    encode(&v3::DOCUMENT, document).0
}

/// A message: what its keys become.
struct Message {
    fields: &'static [Field],
    /// Where all other keys go, each as a `Named…` message of name and value.
    entries: Option<(u32, Kind)>,
    /// Where keys that begin with `x-` go, as `NamedAny`.
    extensions: Option<u32>,
}

struct Field {
    key: &'static str,
    number: u32,
    kind: Kind,
    /// The value is an array, one field for each element.
    repeated: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Flag,
    Integer,
    Number,
    /// Whatever JSON, in the field `yaml` of an `Any`.
    Any,
    Message(&'static Message),
    /// A message with one field, a different one for different values; none leaves the field out.
    OneOf(fn(&Value) -> Option<(u32, Kind)>),
    /// A message whose field 1 is repeated; the value is an array or a single element.
    Wrapped(&'static Kind),
}

const fn one(key: &'static str, number: u32, kind: Kind) -> Field {
    Field {
        key,
        number,
        kind,
        repeated: false,
    }
}

const fn many(key: &'static str, number: u32, kind: Kind) -> Field {
    Field {
        key,
        number,
        kind,
        repeated: true,
    }
}

const fn text(key: &'static str, number: u32) -> Field {
    one(key, number, Kind::Text)
}

const fn texts(key: &'static str, number: u32) -> Field {
    many(key, number, Kind::Text)
}

const fn flag(key: &'static str, number: u32) -> Field {
    one(key, number, Kind::Flag)
}

const fn integer(key: &'static str, number: u32) -> Field {
    one(key, number, Kind::Integer)
}

const fn number(key: &'static str, number: u32) -> Field {
    one(key, number, Kind::Number)
}

/// A message of known keys and extensions.
const fn message(fields: &'static [Field], extensions: u32) -> Message {
    Message {
        fields,
        entries: None,
        extensions: Some(extensions),
    }
}

/// A message of arbitrary keys.
const fn map(value: Kind) -> Message {
    Message {
        fields: &[],
        entries: Some((1, value)),
        extensions: None,
    }
}

/// The bytes, and the keys that no table knows.
fn encode(message: &Message, document: &Value) -> (Vec<u8>, BTreeSet<String>) {
    let mut encoder = Encoder::default();
    let mut out = Vec::new();
    encoder.message(&mut out, message, document);
    (out, encoder.unknown)
}

/// Wire types of protobuf.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH: u32 = 2;

#[derive(Default)]
struct Encoder {
    unknown: BTreeSet<String>,
}

impl Encoder {
    fn message(&mut self, out: &mut Vec<u8>, message: &Message, value: &Value) {
        let empty = Map::new();
        let object = value.as_object().unwrap_or(&empty);
        for field in message.fields {
            match (object.get(field.key), field.repeated) {
                (None, _) => {}
                (Some(Value::Array(all)), true) => {
                    for value in all {
                        self.field(out, field.number, field.kind, value, true);
                    }
                }
                (Some(value), _) => self.field(out, field.number, field.kind, value, false),
            }
        }
        for (key, value) in object {
            if message.fields.iter().any(|field| field.key == key) {
                continue;
            }
            let extension = message.extensions.filter(|_| key.starts_with("x-"));
            let entry = match (extension, message.entries) {
                (Some(number), _) => (number, Kind::Any),
                (None, Some(entry)) => entry,
                (None, None) => {
                    self.unknown.insert(key.clone());
                    continue;
                }
            };
            let mut named = Vec::new();
            bytes(&mut named, 1, key.as_bytes());
            self.field(&mut named, 2, entry.1, value, true);
            bytes(out, entry.0, &named);
        }
    }

    /// `present`: write it also when it has the value that a missing field stands for.
    fn field(&mut self, out: &mut Vec<u8>, field: u32, kind: Kind, value: &Value, present: bool) {
        match kind {
            Kind::Text => {
                let text = value.as_str().unwrap_or_default();
                if present || !text.is_empty() {
                    bytes(out, field, text.as_bytes());
                }
            }
            Kind::Flag => {
                let flag = value.as_bool().unwrap_or_default();
                if present || flag {
                    tag(out, field, VARINT);
                    varint(out, flag.into());
                }
            }
            Kind::Integer => {
                let integer = value.as_i64().unwrap_or_default();
                if present || integer != 0 {
                    tag(out, field, VARINT);
                    varint(out, integer.cast_unsigned());
                }
            }
            Kind::Number => {
                let number = value.as_f64().unwrap_or_default();
                if present || number != 0.0 {
                    tag(out, field, FIXED64);
                    out.extend_from_slice(&number.to_le_bytes());
                }
            }
            Kind::Any => {
                let mut any = Vec::new();
                bytes(&mut any, 2, yaml(value).as_bytes());
                bytes(out, field, &any);
            }
            Kind::Message(message) => {
                let mut inner = Vec::new();
                self.message(&mut inner, message, value);
                bytes(out, field, &inner);
            }
            Kind::OneOf(choose) => {
                if let Some((number, kind)) = choose(value) {
                    let mut inner = Vec::new();
                    self.field(&mut inner, number, kind, value, true);
                    bytes(out, field, &inner);
                }
            }
            Kind::Wrapped(kind) => {
                let mut inner = Vec::new();
                for value in value.as_array().map_or(std::slice::from_ref(value), |v| v) {
                    self.field(&mut inner, 1, *kind, value, true);
                }
                bytes(out, field, &inner);
            }
        }
    }
}

/// JSON text that YAML 1.2 parsers take: they refuse some characters that JSON leaves as they are.
fn yaml(value: &Value) -> String {
    let mut out = String::new();
    for c in value.to_string().chars() {
        match c {
            // Only ever inside of strings.
            '\u{7f}'..='\u{9f}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{feff}'
            | '\u{fffe}'
            | '\u{ffff}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('\n');
    out
}

fn tag(out: &mut Vec<u8>, field: u32, wire: u32) {
    varint(out, u64::from(field << 3 | wire));
}

#[expect(clippy::cast_possible_truncation, reason = "seven bits at a time")]
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    tag(out, field, LENGTH);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_extensions_and_entries_are_where_the_messages_have_them() {
        // As protoc writes it: info { title: "t" version: "v" }, then the definition `D` with its type, a required
        // field and an extension.
        let document = json!({
            "swagger": "2.0",
            "info": {"title": "t", "version": "v"},
            "definitions": {"D": {"type": "object", "required": ["r"], "x-k": [1]}},
        });
        let (encoded, unknown) = encode(&v2::DOCUMENT, &document);
        let schema = [
            &b"\x9a\x01\x01r"[..],
            b"\xb2\x01\x08\x0a\x06object",
            b"\xfa\x01\x0d\x0a\x03x-k\x12\x06\x12\x04[1]\n",
        ]
        .concat();
        let named = [&b"\x0a\x01D\x12\x1f"[..], &schema].concat();
        let expected = [
            &b"\x0a\x032.0\x12\x06\x0a\x01t\x12\x01v\x4a\x26\x0a\x24"[..],
            &named,
        ]
        .concat();
        assert_eq!(schema.len(), 0x1f);
        assert_eq!(encoded, expected);
        assert!(unknown.is_empty());
    }

    #[test]
    fn a_choice_is_told_apart_from_its_absence() {
        let schema = |additional: Value| {
            let document = json!({"definitions": {"D": {"additionalProperties": additional}}});
            encode(&v2::DOCUMENT, &document).0
        };
        assert!(schema(json!(false)).ends_with(b"\xaa\x01\x02\x10\x00"));
        assert!(schema(json!(true)).ends_with(b"\xaa\x01\x02\x10\x01"));
        assert!(schema(json!({})).ends_with(b"\xaa\x01\x02\x0a\x00"));
    }

    #[test]
    fn nothing_of_our_documents_is_left_out() {
        use crate::openapi::tests::{combined_task, custom_task};
        use crate::openapi::{openapi_v2, openapi_v3_group_version};
        let docs = [combined_task(), custom_task()];
        for (table, document) in [
            (&v2::DOCUMENT, openapi_v2(&docs)),
            (&v3::DOCUMENT, openapi_v3_group_version(&docs)),
        ] {
            let (encoded, unknown) =
                encode(table, &serde_json::from_slice(&document.body).unwrap());
            assert_eq!(unknown, BTreeSet::new());
            assert_eq!(document.protobuf.as_deref(), Some(&*encoded));
        }
    }

    #[test]
    fn keys_that_no_table_knows_are_told() {
        let document = json!({"definitions": {"D": {"oneOf": []}}});
        let (_, unknown) = encode(&v2::DOCUMENT, &document);
        assert_eq!(unknown, BTreeSet::from(["oneOf".to_owned()]));
    }

    #[test]
    fn yaml_has_no_characters_that_its_parsers_refuse() {
        assert_eq!(
            yaml(&json!("a\u{7f}\u{85}\u{2028}ä")),
            "\"a\\u007f\\u0085\\u2028ä\"\n"
        );
    }
}
