//! Path elements: one step from a value to a value in it.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Map, Number, Value};

use crate::{go, value};

/// One step of a path, as `fieldsV1` and KEP-555 have it.
///
/// Fields come before keys, keys before values, values before indexes: the order in which `fieldsV1` lists them.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// `f:`: the member of an object by its name.
    Field(String),
    /// `k:`: the item of a list of type `map` by its keys, which are sorted by name.
    Key(Vec<(String, Value)>),
    /// `v:`: the item of a list of type `set`.
    Value(Value),
    /// `i:`: the item of a list by its position.
    Index(i64),
}

/// From a value to a value in it. Displays as in conflicts, e.g. `.spec.ports[port=80].name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub(crate) Vec<PathElement>);

impl Path {
    /// The path of nested fields.
    #[must_use]
    pub fn fields(names: &[&str]) -> Self {
        Self(names.iter().copied().map(PathElement::field).collect())
    }

    /// Its steps, from the root.
    #[must_use]
    pub fn elements(&self) -> &[PathElement] {
        &self.0
    }
}

impl PathElement {
    /// A field of this name.
    #[must_use]
    pub fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    /// Reads what [`PathElement::encode`] writes. None: of a kind that a later version may know, which is ignored.
    ///
    /// Numbers are read as floats, as upstream does; they are equal to the ints of the same amount.
    ///
    /// # Errors
    /// Says what cannot be read.
    pub fn decode(text: &str) -> Result<Option<Self>, String> {
        let Some((kind, rest)) = text.split_at_checked(2) else {
            return Err("key must be 2 characters long".to_owned());
        };
        let parsed = || {
            serde_json::from_str::<Value>(rest)
                .map(with_floats)
                .map_err(|error| format!("{text}: {error}"))
        };
        Ok(Some(match kind {
            "f:" => Self::field(rest),
            "v:" => Self::Value(parsed()?),
            "k:" => match parsed()? {
                // serde_json keeps members sorted.
                Value::Object(members) => Self::Key(members.into_iter().collect()),
                _ => return Err(format!("{text}: expected an object of keys")),
            },
            "i:" => Self::Index(rest.parse().map_err(|error| format!("{text}: {error}"))?),
            _ if kind.ends_with(':') => return Ok(None),
            _ => return Err(format!("missing colon: {text}")),
        }))
    }

    /// The element as a member's name in `fieldsV1`, e.g. `f:spec` or `k:{"name":"a"}`.
    #[must_use]
    pub fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => {
                let mut out = "k:{".to_owned();
                for (index, (name, value)) in keys.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    go::write_string(&mut out, name, false);
                    out.push(':');
                    out.push_str(&go::json(value));
                }
                out.push('}');
                out
            }
            Self::Value(value) => format!("v:{}", go::json(value)),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

/// With all numbers as floats.
fn with_floats(value: Value) -> Value {
    match value {
        Value::Number(number) => {
            let float = number.as_f64().and_then(Number::from_f64);
            Value::Number(float.unwrap_or(number))
        }
        Value::Array(items) => Value::Array(items.into_iter().map(with_floats).collect()),
        Value::Object(members) => {
            let members = members.into_iter();
            Value::Object(Map::from_iter(
                members.map(|(name, value)| (name, with_floats(value))),
            ))
        }
        other => other,
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => {
                let mut fields = left
                    .iter()
                    .zip(right)
                    .map(|((ln, lv), (rn, rv))| ln.cmp(rn).then_with(|| value::compare(lv, rv)));
                fields
                    .find(|order| order.is_ne())
                    .unwrap_or_else(|| left.len().cmp(&right.len()))
            }
            (Self::Value(left), Self::Value(right)) => value::compare(left, right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                let key =
                    |(name, value): &(String, Value)| format!("{name}={}", go::display(value));
                let keys: Vec<_> = keys.iter().map(key).collect();
                write!(f, "[{}]", keys.join(","))
            }
            Self::Value(value) => write!(f, "[={}]", go::display(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_reads_back_as_it_was_written() {
        for text in [
            "f:spec",
            "f:",
            "f:a:b",
            r#"k:{"name":"a","port":80}"#,
            r#"k:{"name":"\u003cb\u003e"}"#,
            "v:1.5",
            r#"v:"x""#,
            "v:true",
            "i:3",
        ] {
            let element = PathElement::decode(text).unwrap().unwrap();
            assert_eq!(element.encode(), text);
        }
        let loose = PathElement::decode(r#"k:{ "port":443, "name":"a"}"#);
        assert_eq!(
            loose.unwrap().unwrap().encode(),
            r#"k:{"name":"a","port":443}"#
        );
    }

    #[test]
    fn an_unknown_kind_is_ignored_and_garbage_refused() {
        assert_eq!(PathElement::decode("r:x"), Ok(None));
        for text in ["f", "spec", "v:", "v:x", "k:1", "i:x", "é"] {
            assert!(PathElement::decode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_number_read_from_a_path_equals_the_int_in_an_object() {
        let read = PathElement::decode("v:80").unwrap().unwrap();
        assert_eq!(read, PathElement::Value(80.into()));
    }

    #[test]
    fn paths_show_as_in_conflicts() {
        let mut path = Path::fields(&["spec", "ports"]);
        path.0.push(PathElement::Key(vec![
            ("port".to_owned(), 80.into()),
            ("protocol".to_owned(), "TCP".into()),
        ]));
        path.0.push(PathElement::Value("x".into()));
        path.0.push(PathElement::Index(0));
        assert_eq!(
            path.to_string(),
            r#".spec.ports[port=80,protocol="TCP"][="x"][0]"#
        );
    }
}
