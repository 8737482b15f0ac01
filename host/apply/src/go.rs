//! How Go writes values: the keys of `fieldsV1` and the paths in conflicts are compared as text by clients.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// A JSON number as Kubernetes keeps it: an int64 where it fits, else a float64.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Num {
    Int(i64),
    Float(f64),
}

impl Num {
    pub(crate) fn of(number: &Number) -> Self {
        match number.as_i64() {
            Some(int) => Self::Int(int),
            None => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
        }
    }

    pub(crate) fn as_f64(self) -> f64 {
        match self {
            // As Go converts it, the nearest float.
            #[expect(
                clippy::cast_precision_loss,
                reason = "Go compares ints with floats so"
            )]
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }
}

/// A value as json-iterator writes it: compact, members sorted, with what could end an HTML script escaped.
pub(crate) fn json(value: &Value) -> String {
    let mut out = String::new();
    write_json(&mut out, value);
    out
}

fn write_json(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&match Num::of(number) {
            Num::Int(int) => int.to_string(),
            Num::Float(float) => shortest(float, -6..21),
        }),
        Value::String(text) => write_string(out, text, true),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(out, item);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (index, (name, value)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(out, name, true);
                out.push(':');
                write_json(out, value);
            }
            out.push('}');
        }
    }
}

/// A JSON string. Names of members in a path element are not escaped for HTML, values are.
pub(crate) fn write_string(out: &mut String, text: &str, html: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if html => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A value as the paths of conflicts show it.
pub(crate) fn display(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => match Num::of(number) {
            Num::Int(int) => int.to_string(),
            Num::Float(float) => general(float),
        },
        Value::String(text) => joinery_schema::quote(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(display).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(members) => {
            let each = |(name, value)| format!("{name}={}", display(value));
            members.iter().map(each).collect()
        }
    }
}

/// A float as `%v` prints it: the shortest digits that read back, with an exponent below 1e-4 and from 1e6.
fn general(value: f64) -> String {
    shortest(value, -4..6)
}

/// The shortest digits that read back; without an exponent if it is one of these.
fn shortest(value: f64, plain: std::ops::Range<i32>) -> String {
    // Rust's `{:e}` gives the same shortest digits.
    let scientific = format!("{value:e}");
    let parts = scientific
        .split_once('e')
        .and_then(|(mantissa, exponent)| Some((mantissa, exponent.parse::<i32>().ok()?)));
    match parts {
        Some((mantissa, exponent)) if value != 0.0 && !plain.contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn floats_show_as_go_prints_them() {
        for (value, text) in [
            (100_000.0, "100000"),
            (1e6, "1e+06"),
            (123_456_789.0, "1.23456789e+08"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.5, "0.5"),
            (0.0, "0"),
        ] {
            assert_eq!(display(&json!(value)), text);
        }
    }

    #[test]
    fn floats_are_written_as_go_writes_json() {
        for (value, text) in [
            (1.0, "1"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1e-6, "0.000001"),
            (1e-7, "1e-07"),
        ] {
            assert_eq!(json(&json!(value)), text);
        }
    }

    #[test]
    fn strings_are_escaped_for_html_in_json_but_not_when_shown() {
        assert_eq!(
            json(&json!({"a": "<b>\u{8}"})),
            r#"{"a":"\u003cb\u003e\u0008"}"#
        );
        assert_eq!(display(&json!("<b>\u{1}")), r#""<b>\x01""#);
    }
}
