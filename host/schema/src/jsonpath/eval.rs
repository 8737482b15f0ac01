//! Walking raw JSON along steps.

use std::cmp::Ordering;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Filter, Operand, Operator, Slice, Step};

/// A JSON value where it stands in the object.
pub(crate) type Match<'a> = &'a RawValue;

/// Why there is no result. client-go gives up on a whole path for these, and so does a column.
pub(super) struct Mismatch;

/// All values that the steps lead to from `from`.
pub(super) fn walk<'a>(from: Match<'a>, steps: &[Step]) -> Result<Vec<Match<'a>>, Mismatch> {
    let mut current = vec![from];
    for step in steps {
        current = apply(&current, step)?;
    }
    Ok(current)
}

fn apply<'a>(inputs: &[Match<'a>], step: &Step) -> Result<Vec<Match<'a>>, Mismatch> {
    let mut results = Vec::new();
    for &input in inputs {
        match step {
            Step::Field(name) => results.extend(field(input, name)),
            Step::Wildcard => results.extend(children(input)),
            Step::Recursive => recurse(input, &mut results),
            Step::Slice(slice) => match kind(input) {
                Kind::List => results.extend(sliced(list(input)?, *slice)?),
                Kind::Null => {}
                _ => return Err(Mismatch),
            },
            Step::Union(steps) => {
                for step in steps {
                    results.extend(apply(&[input], step)?);
                }
            }
            Step::Filter(filter) => {
                if kind(input) != Kind::List {
                    return Err(Mismatch);
                }
                for item in list(input)? {
                    if passes(item, filter)? {
                        results.push(item);
                    }
                }
            }
        }
    }
    Ok(results)
}

#[derive(PartialEq, Eq)]
enum Kind {
    Object,
    List,
    Null,
    Scalar,
}

fn kind(value: Match<'_>) -> Kind {
    match value.get().as_bytes().first() {
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::List,
        Some(b'n') => Kind::Null,
        _ => Kind::Scalar,
    }
}

fn list(value: Match<'_>) -> Result<Vec<Match<'_>>, Mismatch> {
    serde_json::from_str(value.get()).map_err(|_| Mismatch)
}

fn field<'a>(value: Match<'a>, name: &str) -> Option<Match<'a>> {
    if kind(value) != Kind::Object {
        return None;
    }
    serde_json::Deserializer::from_str(value.get())
        .deserialize_map(FieldOf(name))
        .ok()
        .flatten()
}

/// Finds one field; of duplicates the last, as Go's decoder does.
struct FieldOf<'n>(&'n str);

impl<'de> Visitor<'de> for FieldOf<'_> {
    type Value = Option<Match<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(wanted) = map.next_key_seed(KeyIs(self.0))? {
            if wanted {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

struct KeyIs<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for KeyIs<'_> {
    type Value = bool;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeyIs<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<bool, E> {
        Ok(key == self.0)
    }
}

/// All values of an object or a list.
fn children(value: Match<'_>) -> Vec<Match<'_>> {
    struct Values;
    impl<'de> Visitor<'de> for Values {
        type Value = Vec<Match<'de>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut values = Vec::new();
            while map.next_key::<IgnoredAny>()?.is_some() {
                values.push(map.next_value()?);
            }
            Ok(values)
        }
    }
    match kind(value) {
        Kind::Object => serde_json::Deserializer::from_str(value.get())
            .deserialize_map(Values)
            .unwrap_or_default(),
        Kind::List => list(value).unwrap_or_default(),
        Kind::Null | Kind::Scalar => Vec::new(),
    }
}

fn recurse<'a>(value: Match<'a>, results: &mut Vec<Match<'a>>) {
    let below = children(value);
    if !below.is_empty() {
        results.push(value);
        for child in below {
            recurse(child, results);
        }
    }
}

fn sliced<'a>(items: Vec<Match<'a>>, slice: Slice) -> Result<Vec<Match<'a>>, Mismatch> {
    let length = i64::try_from(items.len()).map_err(|_| Mismatch)?;
    let from_end = |position: i64| {
        if position < 0 {
            position + length
        } else {
            position
        }
    };
    let start = from_end(slice.start.unwrap_or(0));
    let end = match slice.end {
        // `[-1]` is the last.
        Some(0) if slice.index => length,
        Some(end) => from_end(end),
        None => length,
    };
    if start == end {
        return Ok(Vec::new());
    }
    if start < 0 || start >= length || end < start || end > length {
        return Err(Mismatch);
    }
    let (Ok(start), Ok(end)) = (usize::try_from(start), usize::try_from(end)) else {
        return Err(Mismatch);
    };
    let step = slice
        .step
        .and_then(|step| usize::try_from(step).ok())
        .unwrap_or(1);
    Ok(items[start..end].iter().copied().step_by(step).collect())
}

fn passes(item: Match<'_>, filter: &Filter) -> Result<bool, Mismatch> {
    let Some((operator, right)) = &filter.right else {
        // A path that cannot be walked exists as little as one that leads nowhere.
        return Ok(match &filter.left {
            Operand::Path(steps) => walk(item, steps).is_ok_and(|found| !found.is_empty()),
            _ => true,
        });
    };
    let (Some(left), Some(right)) = (resolve(item, &filter.left)?, resolve(item, right)?) else {
        return Ok(false);
    };
    compare(&left, *operator, &right)
}

/// One value, or none; several cannot be compared.
fn resolve(item: Match<'_>, operand: &Operand) -> Result<Option<Value>, Mismatch> {
    Ok(Some(match operand {
        Operand::Path(steps) => match walk(item, steps)?[..] {
            [] => return Ok(None),
            [value] => serde_json::from_str(value.get()).map_err(|_| Mismatch)?,
            _ => return Err(Mismatch),
        },
        Operand::Text(text) => Value::String(text.clone()),
        Operand::Int(int) => Value::from(*int),
        Operand::Float(float) => Value::from(*float),
        Operand::Bool(bool) => Value::Bool(*bool),
    }))
}

fn compare(left: &Value, operator: Operator, right: &Value) -> Result<bool, Mismatch> {
    let order = match (left, right) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => a.as_f64().partial_cmp(&b.as_f64()),
        },
        (Value::Bool(a), Value::Bool(b))
            if matches!(operator, Operator::Equal | Operator::NotEqual) =>
        {
            Some(a.cmp(b))
        }
        _ => None,
    };
    let order = order.ok_or(Mismatch)?;
    Ok(match operator {
        Operator::Equal => order == Ordering::Equal,
        Operator::NotEqual => order != Ordering::Equal,
        Operator::Less => order == Ordering::Less,
        Operator::LessOrEqual => order != Ordering::Greater,
        Operator::Greater => order == Ordering::Greater,
        Operator::GreaterOrEqual => order != Ordering::Less,
    })
}
