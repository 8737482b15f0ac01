//! The order of values, as `k8s.io/structured-merge-diff/value` has it: numbers, strings, booleans, lists, maps, null.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use crate::go::Num;

/// Compares two values. Ints and floats compare by what they amount to: 1 equals 1.0.
pub(crate) fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => match (Num::of(left), Num::of(right)) {
            (Num::Int(left), Num::Int(right)) => left.cmp(&right),
            (left, right) => left
                .as_f64()
                .partial_cmp(&right.as_f64())
                .unwrap_or(Ordering::Equal),
        },
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => lists(left, right),
        (Value::Object(left), Value::Object(right)) => maps(left, right),
        _ => rank(left).cmp(&rank(right)),
    }
}

/// Whether two values are the same.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    compare(left, right) == Ordering::Equal
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn lists(left: &[Value], right: &[Value]) -> Ordering {
    let mut items = left.iter().zip(right).map(|(l, r)| compare(l, r));
    items
        .find(|order| order.is_ne())
        .unwrap_or_else(|| left.len().cmp(&right.len()))
}

fn maps(left: &Map<String, Value>, right: &Map<String, Value>) -> Ordering {
    let mut members = left.iter().zip(right).map(|((ln, lv), (rn, rv))| {
        // The side that lacks a name which the other has is the greater.
        ln.cmp(rn).then_with(|| compare(lv, rv))
    });
    members
        .find(|order| order.is_ne())
        .unwrap_or_else(|| left.len().cmp(&right.len()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_different_types_have_an_order() {
        let sorted = [
            json!(-1),
            json!(0.5),
            json!(1),
            json!("a"),
            json!("b"),
            json!(false),
            json!(true),
            json!([]),
            json!([1]),
            json!([1, 2]),
            json!([2]),
            json!({}),
            json!({"a": 1}),
            json!(null),
        ];
        for (i, left) in sorted.iter().enumerate() {
            for (j, right) in sorted.iter().enumerate() {
                assert_eq!(compare(left, right), i.cmp(&j), "{left} {right}");
            }
        }
    }

    #[test]
    fn an_int_equals_the_float_of_the_same_amount() {
        assert!(equal(&json!(1), &json!(1.0)));
        assert!(!equal(&json!(1), &json!("1")));
    }
}
