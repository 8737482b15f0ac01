//! A schema in the form that pruning, defaulting and validation walk over.

use std::collections::BTreeMap;

use serde_json::Value;

use super::format::Format;
use super::pattern::Pattern;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
}

impl Type {
    pub(super) const ALLOWED: &'static str = "array, boolean, integer, number, object, string";

    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "array" => Self::Array,
            "boolean" => Self::Boolean,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "object" => Self::Object,
            "string" => Self::String,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Object => "object",
            Self::String => "string",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListType {
    Atomic,
    Set,
    Map,
}

/// `additionalProperties`. `false` is refused when the schema is read.
#[derive(Debug)]
pub(crate) enum Additional {
    /// `true`: any values, of which nothing is known.
    Any,
    Schema(Box<Node>),
}

impl Additional {
    pub(super) fn schema(&self) -> Option<&Node> {
        match self {
            Self::Any => None,
            Self::Schema(node) => Some(node),
        }
    }
}

/// One schema, or one clause of `allOf`, `anyOf`, `oneOf` and `not`.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) type_: Option<Type>,
    pub(crate) nullable: bool,
    pub(crate) default: Option<Value>,
    pub(crate) properties: BTreeMap<String, Node>,
    pub(crate) additional: Option<Additional>,
    pub(crate) items: Option<Box<Node>>,

    pub(crate) preserve_unknown_fields: bool,
    pub(crate) embedded_resource: bool,
    pub(crate) int_or_string: bool,
    pub(crate) list_type: Option<ListType>,
    pub(crate) list_map_keys: Vec<String>,

    /// None also where the type does not know the format: kube-apiserver ignores those.
    pub(crate) format: Option<Format>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_length: Option<u64>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) max_items: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) unique_items: bool,
    pub(crate) max_properties: Option<u64>,
    pub(crate) min_properties: Option<u64>,
    pub(crate) required: Vec<String>,
    pub(crate) enum_: Vec<Value>,
    pub(crate) all_of: Vec<Node>,
    pub(crate) any_of: Vec<Node>,
    pub(crate) one_of: Vec<Node>,
    pub(crate) not: Option<Box<Node>>,
}

impl Node {
    /// The schema of a field by name: its property, else `additionalProperties`.
    pub(super) fn field(&self, name: &str) -> Option<&Node> {
        self.properties
            .get(name)
            .or_else(|| self.additional.as_ref().and_then(Additional::schema))
    }
}
