//! Judging a value by a schema, in the order and with the words of kube-openapi's pkg/validation/validate.

use serde_json::{Map, Number, Value};

use super::cause::Cause;
use super::node::{Additional, Node, Type};
use crate::go;

pub(super) fn root(schema: &Node, value: &Value) -> Vec<Cause> {
    schema_check(schema, value, "").causes
}

/// Embedded resources must say what they are; the root is the server's own matter.
pub(super) fn embedded(schema: &Node, object: &Value, causes: &mut Vec<Cause>) {
    fn walk(schema: &Node, value: &Value, path: &str, top: bool, causes: &mut Vec<Cause>) {
        match value {
            Value::Object(fields) => {
                if schema.embedded_resource && !top {
                    for name in ["apiVersion", "kind"] {
                        let field = format!("{path}.{name}");
                        match fields.get(name) {
                            None => causes.push(Cause::required(&field)),
                            Some(Value::String(text)) if !text.is_empty() => {}
                            Some(value @ Value::String(_)) => {
                                causes.push(Cause::invalid(&field, value, "must not be empty"));
                            }
                            Some(value) => {
                                causes.push(Cause::invalid(&field, value, "must be a string"))
                            }
                        }
                    }
                }
                for (name, value) in fields {
                    if let Some(property) = schema.properties.get(name) {
                        walk(property, value, &child(path, name), false, causes);
                    } else if let Some(additional) =
                        schema.additional.as_ref().and_then(Additional::schema)
                    {
                        walk(additional, value, &format!("{path}[{name}]"), false, causes);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(schema) = &schema.items {
                    for (index, item) in items.iter().enumerate() {
                        walk(schema, item, &format!("{path}[{index}]"), false, causes);
                    }
                }
            }
            _ => {}
        }
    }
    walk(schema, object, "", true, causes);
}

/// What was found, and how many checks applied: of alternatives that all fail, the one with most is reported.
#[derive(Default)]
struct Findings {
    causes: Vec<Cause>,
    matched: usize,
}

impl Findings {
    fn push(&mut self, cause: Cause) {
        if !self.causes.contains(&cause) {
            self.causes.push(cause);
        }
    }

    fn merge(&mut self, other: Findings) {
        self.matched += other.matched;
        for cause in other.causes {
            self.push(cause);
        }
    }

    fn is_valid(&self) -> bool {
        self.causes.is_empty()
    }
}

fn child(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn schema_check(schema: &Node, value: &Value, path: &str) -> Findings {
    let mut found = Findings::default();
    if value.is_null() {
        type_check(schema, value, path, &mut found);
        enum_check(schema, value, path, &mut found);
        return found;
    }
    // Go counts each check that applies to a value of this type.
    if has_type(schema) || schema.format.is_some() {
        type_check(schema, value, path, &mut found);
        found.matched += 1;
    }
    found.merge(junctors(schema, value, path));
    found.matched += 1;
    match value {
        Value::String(text) => {
            string_check(schema, text, path, &mut found);
            found.matched += 1;
            if let Some(format) = schema
                .format
                .as_ref()
                .filter(|format| format.is_for_strings())
            {
                if !format.admits(text) {
                    let detail = type_message(path, format.name(), text);
                    found.push(Cause::type_invalid(path, text, &detail));
                }
                found.matched += 1;
            }
        }
        Value::Number(number) => {
            number_check(schema, number, path, &mut found);
            found.matched += 2;
        }
        Value::Array(items) => {
            array_check(schema, items, path, &mut found);
            found.matched += 2;
        }
        Value::Bool(_) | Value::Object(_) | Value::Null => {}
    }
    enum_check(schema, value, path, &mut found);
    found.matched += 1;
    if let Value::Object(fields) = value {
        object_check(schema, fields, path, &mut found);
        found.matched += 1;
    }
    found.matched += 1;
    found
}

fn has_type(schema: &Node) -> bool {
    schema.type_.is_some() || schema.int_or_string
}

/// What the value is, and whether a number is integral.
fn type_of(value: &Value) -> (&'static str, bool) {
    match value {
        Value::Null => ("null", false),
        Value::Bool(_) => ("boolean", false),
        Value::Number(n) if n.is_i64() => ("integer", true),
        Value::Number(n) => (
            "number",
            n.as_f64()
                .is_some_and(|f| f.fract() == 0.0 && f.abs() < 9_007_199_254_740_992.0),
        ),
        Value::String(_) => ("string", false),
        Value::Array(_) => ("array", false),
        Value::Object(_) => ("object", false),
    }
}

fn type_message(path: &str, wanted: &str, data: &str) -> String {
    format!(
        "{path} in body must be of type {wanted}: {}",
        go::quote(data)
    )
}

fn type_check(schema: &Node, value: &Value, path: &str, found: &mut Findings) {
    if !has_type(schema) {
        return;
    }
    let (actual, integral) = type_of(value);
    let fits = match (schema.type_, value) {
        (_, Value::Null) => schema.nullable,
        (None, _) => matches!(actual, "integer" | "string") || integral,
        (Some(Type::Integer), _) => integral,
        (Some(Type::Number), _) => matches!(actual, "integer" | "number"),
        (Some(type_), _) => type_.name() == actual,
    };
    if fits {
        found.matched += 1;
        return;
    }
    let wanted = schema.type_.map_or("integer,string", Type::name);
    // Of a value of another type than its format is for, Go names the formats instead of the types.
    let (wanted, data) = match &schema.format {
        Some(format) if !matches!(value, Value::Null | Value::String(_) | Value::Array(_)) => {
            let data = match actual {
                "integer" => "int64",
                "number" => "float64",
                _ => "",
            };
            (format.name(), data)
        }
        _ => (wanted, actual),
    };
    found.push(Cause::type_invalid(
        path,
        data,
        &type_message(path, wanted, data),
    ));
}

fn enum_check(schema: &Node, value: &Value, path: &str, found: &mut Findings) {
    if !schema.enum_.is_empty() && !schema.enum_.iter().any(|allowed| same(allowed, value)) {
        found.push(Cause::not_supported(path, value, &schema.enum_));
    }
}

/// Equality in which 1 and 1.0 are one number.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    }
}

fn junctors(schema: &Node, value: &Value, path: &str) -> Findings {
    let mut found = Findings {
        matched: 1,
        ..Findings::default()
    };
    let quoted = || go::quote(path);
    if !schema.any_of.is_empty() {
        let results = alternatives(&schema.any_of, value, path);
        if results.valid == 0 {
            found.push(Cause::composite(&format!(
                "{} must validate at least one schema (anyOf)",
                quoted()
            )));
        }
        found.merge(results.reported);
    }
    if !schema.one_of.is_empty() {
        let results = alternatives(&schema.one_of, value, path);
        if results.valid != 1 {
            let number = match results.valid {
                0 => "Found none valid".to_owned(),
                valid => format!("Found {valid} valid alternatives"),
            };
            found.push(Cause::composite(&format!(
                "{} must validate one and only one schema (oneOf). {number}",
                quoted()
            )));
        }
        if results.valid <= 1 {
            found.merge(results.reported);
        }
    }
    if !schema.all_of.is_empty() {
        let mut valid = 0;
        for clause in &schema.all_of {
            let result = schema_check(clause, value, path);
            valid += usize::from(result.is_valid());
            found.merge(result);
        }
        if valid != schema.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            found.push(Cause::composite(&format!(
                "{} must validate all the schemas (allOf){none}",
                quoted()
            )));
        }
    }
    if let Some(not) = &schema.not
        && schema_check(not, value, path).is_valid()
    {
        found.push(Cause::composite(&format!(
            "{} must not validate the schema (not)",
            quoted()
        )));
    }
    found
}

struct Alternatives {
    valid: usize,
    /// The first that is valid, else the failure that went furthest.
    reported: Findings,
}

fn alternatives(clauses: &[Node], value: &Value, path: &str) -> Alternatives {
    let mut valid = 0;
    let mut reported: Option<Findings> = None;
    for clause in clauses {
        let result = schema_check(clause, value, path);
        if result.is_valid() {
            valid += 1;
            if valid == 1 {
                reported = Some(result);
            }
        } else if valid == 0
            && reported
                .as_ref()
                .is_none_or(|best| result.matched > best.matched)
        {
            reported = Some(result);
        }
    }
    Alternatives {
        valid,
        reported: reported.unwrap_or_default(),
    }
}

fn string_check(schema: &Node, text: &str, path: &str, found: &mut Findings) {
    let value = || Value::String(text.to_owned());
    let length = text.chars().count() as u64;
    // One of these is reported, not all.
    if let Some(max) = schema.max_length.filter(|max| length > *max) {
        found.push(Cause::too_long(path, max));
    } else if let Some(min) = schema.min_length.filter(|min| length < *min) {
        let detail = format!("{path} in body should be at least {min} chars long");
        found.push(Cause::invalid(path, &value(), &detail));
    } else if let Some(pattern) = schema
        .pattern
        .as_ref()
        .filter(|pattern| !pattern.is_match(text))
    {
        let detail = format!("{path} in body should match '{}'", pattern.text());
        found.push(Cause::invalid(path, &value(), &detail));
    }
}

fn number_check(schema: &Node, number: &Number, path: &str, found: &mut Findings) {
    let value = Value::Number(number.clone());
    let Some(float) = number.as_f64() else { return };
    let format = schema.format.as_ref().map(|format| format.name());
    if schema.type_ == Some(Type::Integer) {
        let fits = match (format, number.as_i64()) {
            (Some("int32"), Some(int)) => i32::try_from(int).is_ok(),
            (_, Some(_)) => true,
            (_, None) => type_of(&value).1,
        };
        if !fits {
            let format = format.map_or_else(
                || "(default format)".to_owned(),
                |format| format!("with format {format}"),
            );
            found.push(Cause::composite(&format!(
                "Checked value must be of type integer {format} in {path}"
            )));
        }
    } else if format == Some("float") && float.abs() > f64::from(f32::MAX) {
        found.push(Cause::composite(&format!(
            "Checked value must be of type number with format float in {path}"
        )));
    }
    if let Some(factor) = schema.multiple_of {
        let divided = if factor < 1.0 {
            1.0 / factor * float
        } else {
            float / factor
        };
        let multiple = (divided - divided.round()).abs() <= 1e-9 * divided.abs().max(1.0);
        if !multiple {
            let detail = format!(
                "{path} in body should be a multiple of {}",
                go::float(factor)
            );
            found.push(Cause::invalid(path, &value, &detail));
        }
    }
    if let Some(min) = schema.minimum {
        let (fails, words) = if schema.exclusive_minimum {
            (float <= min, "greater than")
        } else {
            (float < min, "greater than or equal to")
        };
        if fails {
            let detail = format!("{path} in body should be {words} {}", go::float(min));
            found.push(Cause::invalid(path, &value, &detail));
        }
    }
    if let Some(max) = schema.maximum {
        let (fails, words) = if schema.exclusive_maximum {
            (float >= max, "less than")
        } else {
            (float > max, "less than or equal to")
        };
        if fails {
            let detail = format!("{path} in body should be {words} {}", go::float(max));
            found.push(Cause::invalid(path, &value, &detail));
        }
    }
}

fn array_check(schema: &Node, items: &[Value], path: &str, found: &mut Findings) {
    if let Some(schema) = &schema.items {
        for (index, item) in items.iter().enumerate() {
            found.merge(schema_check(schema, item, &format!("{path}[{index}]")));
        }
    }
    let size = items.len();
    if let Some(min) = schema.min_items.filter(|min| (size as u64) < *min) {
        let detail = format!("{path} in body should have at least {min} items");
        found.push(Cause::invalid(path, &Value::from(size), &detail));
    }
    if let Some(max) = schema.max_items.filter(|max| size as u64 > *max) {
        found.push(Cause::too_many(path, size, max));
    }
    if schema.unique_items
        && items
            .iter()
            .enumerate()
            .any(|(index, item)| items[..index].contains(item))
    {
        let detail = format!("{path} in body shouldn't contain duplicates");
        found.push(Cause::invalid(path, &Value::from(""), &detail));
    }
}

fn object_check(schema: &Node, fields: &Map<String, Value>, path: &str, found: &mut Findings) {
    let size = fields.len();
    if let Some(min) = schema.min_properties.filter(|min| (size as u64) < *min) {
        let detail = format!("{path} in body should have at least {min} properties");
        found.push(Cause::invalid(path, &Value::from(size), &detail));
    }
    if let Some(max) = schema.max_properties.filter(|max| size as u64 > *max) {
        found.push(Cause::too_many(path, size, max));
    }
    for (name, value) in fields {
        if let Some(schema) = schema.field(name) {
            found.merge(schema_check(schema, value, &child(path, name)));
        }
    }
    for name in schema
        .required
        .iter()
        .filter(|name| !fields.contains_key(*name))
    {
        found.push(Cause::required(&child(path, name)));
    }
}
