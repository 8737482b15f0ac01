//! How Go prints values: the wording of kube-apiserver's errors and table cells follows `fmt` and `strconv`.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// A string as Go's `%q` (strconv.Quote) prints it.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if c < ' ' || c == '\u{7f}' => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A float as Go's `%v` prints it: the shortest digits that read back, with an exponent below 1e-4 and from 1e6.
pub(crate) fn float(value: f64) -> String {
    if value == 0.0 {
        return if value.is_sign_negative() {
            "-0".into()
        } else {
            "0".into()
        };
    }
    // Rust's `{:e}` gives the same shortest digits.
    let scientific = format!("{value:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{value}"),
    }
}

/// A JSON number as Go's decoder keeps it (int64 where it fits, else float64) and `%v` prints it.
pub(crate) fn number(value: &Number) -> String {
    match value.as_i64() {
        Some(int) => int.to_string(),
        None => value.as_f64().map_or_else(|| value.to_string(), float),
    }
}

/// The offending value as field.Error prints it: scalars by `%v`, strings quoted, all else as JSON.
pub(crate) fn bad_value(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Number(n) => number(n),
        other => json(other),
    }
}

/// A value as Go's encoding/json writes it: what could end an HTML script is escaped.
pub(crate) fn json(value: &Value) -> String {
    let plain = value.to_string();
    if !plain.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return plain;
    }
    let mut out = String::with_capacity(plain.len() + 16);
    for c in plain.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_in_go() {
        for (value, text) in [
            (10.0, "10"),
            (0.1, "0.1"),
            (-2.5, "-2.5"),
            (100_000.0, "100000"),
            (123_456.5, "123456.5"),
            (1e6, "1e+06"),
            (1_234_567.25, "1.23456725e+06"),
            (-1e6, "-1e+06"),
            (1e20, "1e+20"),
            (1e21, "1e+21"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e300, "1.5e+300"),
        ] {
            assert_eq!(float(value), text);
        }
    }

    #[test]
    fn json_is_escaped_as_in_go() {
        assert_eq!(
            json(&serde_json::json!({"a": "<b>&"})),
            r#"{"a":"\u003cb\u003e\u0026"}"#
        );
    }

    #[test]
    fn strings_are_quoted_as_in_go() {
        assert_eq!(quote("a\"b\\c\nd\u{1}é"), r#""a\"b\\c\nd\x01é""#);
    }
}
