//! Reading an `openAPIV3Schema` and checking that it is structural.

use std::fmt;

use serde_json::{Map, Value, json};

use super::check;
use super::format::Format;
use super::node::{Additional, ListType, Node, Type};
use super::pattern::Pattern;

/// A schema that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct SchemaError {
    /// All that is wrong with it, in the order of the schema. Never empty.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong with a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the field in the schema, e.g. `openAPIV3Schema.properties[spec].type`.
    pub field: String,
    /// What is wrong and what is allowed.
    pub detail: String,
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{}: {}", problem.field, problem.detail)?;
        }
        Ok(())
    }
}

impl SchemaError {
    pub(super) fn not_json(error: &serde_json::Error) -> Self {
        let detail = format!("must be the JSON of a structural schema: {error}");
        Self {
            problems: vec![Problem {
                field: ROOT.to_owned(),
                detail,
            }],
        }
    }
}

const ROOT: &str = "openAPIV3Schema";

/// What a schema may hold, in the order of the error message.
pub(super) const KEYS: [&str; 36] = [
    "additionalProperties",
    "allOf",
    "anyOf",
    "default",
    "description",
    "enum",
    "example",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "externalDocs",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "nullable",
    "oneOf",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
    "uniqueItems",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
];

/// What belongs outside of `allOf`, `anyOf`, `oneOf` and `not`, so that the structure is known without them.
const NOT_IN_CLAUSES: [&str; 12] = [
    "additionalProperties",
    "default",
    "description",
    "nullable",
    "title",
    "type",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
];

pub(super) fn root(source: &Value) -> Result<Node, SchemaError> {
    let mut reader = Reader {
        problems: Vec::new(),
    };
    let node = reader.node(source, ROOT, Place::Root);
    if reader.problems.is_empty() {
        check::completeness(&node, ROOT, &mut reader.problems);
        check::defaults(&node, ROOT, &mut reader.problems);
    }
    if reader.problems.is_empty() {
        Ok(node)
    } else {
        Err(SchemaError {
            problems: reader.problems,
        })
    }
}

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Root,
    Field,
    Item,
    /// In `allOf`, `anyOf`, `oneOf` or `not`.
    Clause,
    /// One of the two clauses that `x-kubernetes-int-or-string` allows to name a type.
    IntOrString,
}

pub(super) struct Reader {
    pub(super) problems: Vec<Problem>,
}

impl Reader {
    pub(super) fn problem(&mut self, field: impl Into<String>, detail: impl Into<String>) {
        self.problems.push(Problem {
            field: field.into(),
            detail: detail.into(),
        });
    }

    fn node(&mut self, source: &Value, path: &str, place: Place) -> Node {
        let mut node = Node::default();
        let Value::Object(fields) = source else {
            self.problem(path, "must be a schema, a JSON object");
            return node;
        };
        self.keys(fields, path, place);

        if let Some(name) = self.string(fields, path, "type") {
            node.type_ = Type::parse(name);
            if node.type_.is_none() {
                self.problem(
                    format!("{path}.type"),
                    format!("{name:?} is not supported, allowed: {}", Type::ALLOWED),
                );
            }
        }
        node.nullable = self.boolean(fields, path, "nullable");
        node.preserve_unknown_fields =
            self.boolean(fields, path, "x-kubernetes-preserve-unknown-fields");
        if fields.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
            self.problem(
                format!("{path}.x-kubernetes-preserve-unknown-fields"),
                "must be true or absent",
            );
        }
        node.embedded_resource = self.boolean(fields, path, "x-kubernetes-embedded-resource");
        node.int_or_string = self.boolean(fields, path, "x-kubernetes-int-or-string");
        node.default = fields
            .get("default")
            .filter(|default| !default.is_null())
            .cloned();
        self.lists(fields, path, &mut node);
        self.children(fields, path, place, &mut node);
        self.values(fields, path, &mut node);
        self.clauses(fields, path, &mut node);
        if matches!(place, Place::Root | Place::Field | Place::Item) {
            self.structure(&node, path, place);
        }
        node
    }

    fn keys(&mut self, fields: &Map<String, Value>, path: &str, place: Place) {
        for key in fields.keys() {
            let field = || format!("{path}.{key}");
            match key.as_str() {
                "$ref" | "definitions" => {
                    self.problem(
                        field(),
                        "is not supported: a structural schema has all its parts inline",
                    );
                }
                "x-kubernetes-validations" => {
                    self.problem(
                        field(),
                        "is not supported: such rules belong into the admission of the plugin",
                    );
                }
                "type" if place == Place::IntOrString => {}
                key if place == Place::Clause && NOT_IN_CLAUSES.contains(&key) => {
                    self.problem(
                        field(),
                        "must be absent inside allOf, anyOf, oneOf and not: specify it outside",
                    );
                }
                key if !KEYS.contains(&key) => {
                    self.problem(
                        field(),
                        format!("is not supported, allowed: {}", KEYS.join(", ")),
                    );
                }
                _ => {}
            }
        }
    }

    fn lists(&mut self, fields: &Map<String, Value>, path: &str, node: &mut Node) {
        if let Some(name) = self.string(fields, path, "x-kubernetes-list-type") {
            node.list_type = match name {
                "atomic" => Some(ListType::Atomic),
                "set" => Some(ListType::Set),
                "map" => Some(ListType::Map),
                _ => None,
            };
            let field = format!("{path}.x-kubernetes-list-type");
            if node.list_type.is_none() {
                self.problem(
                    field,
                    format!("{name:?} is not supported, allowed: atomic, map, set"),
                );
            } else if node.type_ != Some(Type::Array) {
                self.problem(field, "is only allowed where type is array");
            }
        }
        if let Some(name) = self.string(fields, path, "x-kubernetes-map-type") {
            let field = format!("{path}.x-kubernetes-map-type");
            if !matches!(name, "atomic" | "granular") {
                self.problem(
                    field,
                    format!("{name:?} is not supported, allowed: atomic, granular"),
                );
            } else if node.type_ != Some(Type::Object) {
                self.problem(field, "is only allowed where type is object");
            }
        }
        node.list_map_keys = self.strings(fields, path, "x-kubernetes-list-map-keys");
        if (node.list_type == Some(ListType::Map)) == node.list_map_keys.is_empty() {
            let field = format!("{path}.x-kubernetes-list-map-keys");
            self.problem(field, "must name at least one key if x-kubernetes-list-type is map, and be absent otherwise");
        }
    }

    fn children(&mut self, fields: &Map<String, Value>, path: &str, place: Place, node: &mut Node) {
        let below = |normal| {
            if matches!(place, Place::Clause | Place::IntOrString) {
                Place::Clause
            } else {
                normal
            }
        };
        match fields.get("properties") {
            Some(Value::Object(properties)) => {
                for (name, schema) in properties {
                    let field = format!("{path}.properties[{name}]");
                    if name == "metadata" && below(Place::Field) == Place::Clause {
                        self.problem(&field, "must not be specified in a nested context");
                    }
                    let property = self.node(schema, &field, below(Place::Field));
                    node.properties.insert(name.clone(), property);
                }
            }
            Some(_) => self.problem(format!("{path}.properties"), "must be an object of schemas"),
            None => {}
        }
        if let Some(items) = fields.get("items") {
            node.items = Some(Box::new(self.node(
                items,
                &format!("{path}.items"),
                below(Place::Item),
            )));
        }
        let field = format!("{path}.additionalProperties");
        node.additional = match fields.get("additionalProperties") {
            None => None,
            Some(Value::Bool(true)) => Some(Additional::Any),
            Some(Value::Bool(false)) => {
                self.problem(
                    &field,
                    "must not be false: unknown fields are pruned in any case",
                );
                None
            }
            Some(schema) => Some(Additional::Schema(Box::new(self.node(
                schema,
                &field,
                below(Place::Field),
            )))),
        };
        if node.additional.is_some() {
            if place == Place::Root {
                self.problem(&field, "must not be used at the root");
            }
            if !node.properties.is_empty() {
                self.problem(&field, "must not be used together with properties");
            }
            if node.embedded_resource {
                self.problem(
                    &field,
                    "must not be used if x-kubernetes-embedded-resource is set",
                );
            }
        }
    }

    fn values(&mut self, fields: &Map<String, Value>, path: &str, node: &mut Node) {
        node.format = self
            .string(fields, path, "format")
            .and_then(|name| Format::new(name, node.type_));
        node.maximum = self.number(fields, path, "maximum");
        node.exclusive_maximum = self.boolean(fields, path, "exclusiveMaximum");
        node.minimum = self.number(fields, path, "minimum");
        node.exclusive_minimum = self.boolean(fields, path, "exclusiveMinimum");
        node.multiple_of = self.number(fields, path, "multipleOf");
        if node.multiple_of.is_some_and(|factor| factor <= 0.0) {
            self.problem(format!("{path}.multipleOf"), "must be greater than 0");
        }
        node.max_length = self.count(fields, path, "maxLength");
        node.min_length = self.count(fields, path, "minLength");
        node.max_items = self.count(fields, path, "maxItems");
        node.min_items = self.count(fields, path, "minItems");
        node.max_properties = self.count(fields, path, "maxProperties");
        node.min_properties = self.count(fields, path, "minProperties");
        node.unique_items = self.boolean(fields, path, "uniqueItems");
        node.required = self.strings(fields, path, "required");
        if let Some(text) = self
            .string(fields, path, "pattern")
            .filter(|text| !text.is_empty())
        {
            match Pattern::compile(text) {
                Ok(pattern) => node.pattern = Some(pattern),
                Err(error) => self.problem(
                    format!("{path}.pattern"),
                    format!("must be a valid regular expression (RE2 syntax), but isn't: {error}"),
                ),
            }
        }
        match fields.get("enum") {
            Some(Value::Array(values)) => node.enum_.clone_from(values),
            Some(_) => self.problem(format!("{path}.enum"), "must be a list of values"),
            None => {}
        }
    }

    fn clauses(&mut self, fields: &Map<String, Value>, path: &str, node: &mut Node) {
        // Where x-kubernetes-int-or-string is set, this one clause may name types, alone or as the first of allOf.
        let both = json!([{"type": "integer"}, {"type": "string"}]);
        let exempt = |clauses: Option<&Value>| node.int_or_string && clauses == Some(&both);
        let any_exempt = exempt(fields.get("anyOf"));
        let first_exempt = exempt(
            fields
                .get("allOf")
                .and_then(|all| all.get(0))
                .and_then(|first| first.get("anyOf")),
        );

        let place = if any_exempt {
            Place::IntOrString
        } else {
            Place::Clause
        };
        node.any_of = self.list_of_clauses(fields, path, "anyOf", place);
        node.one_of = self.list_of_clauses(fields, path, "oneOf", Place::Clause);
        node.all_of = if first_exempt {
            let mut fields = fields.clone();
            let first = fields
                .get_mut("allOf")
                .and_then(|all| all.get_mut(0))
                .and_then(Value::as_object_mut);
            if let Some(first) = first {
                first.remove("anyOf");
            }
            let mut all = self.list_of_clauses(&fields, path, "allOf", Place::Clause);
            if let Some(first) = all.first_mut() {
                first.any_of = int_or_string();
            }
            all
        } else {
            self.list_of_clauses(fields, path, "allOf", Place::Clause)
        };
        if let Some(not) = fields.get("not") {
            node.not = Some(Box::new(self.node(
                not,
                &format!("{path}.not"),
                Place::Clause,
            )));
        }
    }

    fn list_of_clauses(
        &mut self,
        fields: &Map<String, Value>,
        path: &str,
        key: &str,
        place: Place,
    ) -> Vec<Node> {
        match fields.get(key) {
            Some(Value::Array(clauses)) => {
                let path = format!("{path}.{key}");
                clauses
                    .iter()
                    .enumerate()
                    .map(|(i, clause)| self.node(clause, &format!("{path}[{i}]"), place))
                    .collect()
            }
            Some(_) => {
                self.problem(format!("{path}.{key}"), "must be a list of schemas");
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    fn string<'a>(
        &mut self,
        fields: &'a Map<String, Value>,
        path: &str,
        key: &str,
    ) -> Option<&'a str> {
        match fields.get(key) {
            Some(Value::String(text)) => Some(text),
            Some(_) => {
                self.problem(format!("{path}.{key}"), "must be a string");
                None
            }
            None => None,
        }
    }

    fn strings(&mut self, fields: &Map<String, Value>, path: &str, key: &str) -> Vec<String> {
        let Some(value) = fields.get(key) else {
            return Vec::new();
        };
        let strings = value.as_array().and_then(|list| {
            list.iter()
                .map(|item| item.as_str().map(str::to_owned))
                .collect::<Option<Vec<_>>>()
        });
        if strings.is_none() {
            self.problem(format!("{path}.{key}"), "must be a list of strings");
        }
        strings.unwrap_or_default()
    }

    fn boolean(&mut self, fields: &Map<String, Value>, path: &str, key: &str) -> bool {
        match fields.get(key) {
            Some(Value::Bool(value)) => *value,
            Some(_) => {
                self.problem(format!("{path}.{key}"), "must be true or false");
                false
            }
            None => false,
        }
    }

    fn number(&mut self, fields: &Map<String, Value>, path: &str, key: &str) -> Option<f64> {
        let value = fields.get(key)?;
        let number = value.as_f64();
        if number.is_none() {
            self.problem(format!("{path}.{key}"), "must be a number");
        }
        number
    }

    fn count(&mut self, fields: &Map<String, Value>, path: &str, key: &str) -> Option<u64> {
        let value = fields.get(key)?;
        let count = value.as_u64();
        if count.is_none() {
            self.problem(format!("{path}.{key}"), "must be an integer from 0 up");
        }
        count
    }
}

fn int_or_string() -> Vec<Node> {
    [Type::Integer, Type::String]
        .map(|type_| Node {
            type_: Some(type_),
            ..Node::default()
        })
        .into()
}
