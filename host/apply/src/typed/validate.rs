//! Whether a value conforms to its type.

use serde_json::{Map, Value};

use super::error::{TypedError, Walk, scalar_error};
use super::item_element;
use crate::element::PathElement;
use crate::go;
use crate::types::{Kind, ListType, MapType, TypeId, Types};

/// Whether lists of type `set` and `map` may have equal items.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duplicates {
    /// As in what is stored: it came before the schema said so, or passed a check that is not this one.
    Allowed,
    /// As in what is applied.
    Refused,
}

/// # Errors
/// What does not conform.
pub(crate) fn validate(
    types: &Types,
    value: &Value,
    duplicates: Duplicates,
) -> Result<(), TypedError> {
    let mut walk = Walk::default();
    Validate { types, duplicates }.value(&mut walk, Some(types.root()), value);
    walk.finish(())
}

struct Validate<'a> {
    types: &'a Types,
    duplicates: Duplicates,
}

impl Validate<'_> {
    fn value(&self, walk: &mut Walk, type_: Option<TypeId>, value: &Value) {
        match self.types.resolve(type_).deduce(Some(value)).kind() {
            Some(Kind::Map(map)) => match value {
                Value::Object(members) => self.map(walk, map, members),
                Value::Null => {}
                other => walk.error(format!("expected map, got {}", go::json(other))),
            },
            Some(Kind::Scalar(scalar)) => {
                if let Some(text) = scalar_error(scalar, Some(value)) {
                    walk.error(text);
                }
            }
            Some(Kind::List(list)) => match value {
                Value::Array(items) => self.list(walk, list, items),
                Value::Null => {}
                other => walk.error(format!("expected list, got {}", go::json(other))),
            },
            None => walk.no_type(),
        }
    }

    fn map(&self, walk: &mut Walk, map: &MapType, members: &Map<String, Value>) {
        for (name, value) in members {
            let type_ = map.type_of(name);
            walk.descend(PathElement::field(name), |walk| {
                if type_.is_some() {
                    self.value(walk, type_, value);
                } else {
                    walk.error("field not declared in schema");
                }
            });
            if type_.is_none() {
                return;
            }
        }
    }

    fn list(&self, walk: &mut Walk, list: &ListType, items: &[Value]) {
        let mut seen = std::collections::BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let element = if list.atomic {
                PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX))
            } else {
                match item_element(self.types, list, item) {
                    Ok(element) => element,
                    Err(text) => {
                        walk.error(format!("element {index}: {text}"));
                        return;
                    }
                }
            };
            if !seen.insert(element.clone()) && self.duplicates == Duplicates::Refused {
                walk.error(format!("duplicate entries for key {element}"));
            }
            walk.descend(element, |walk| self.value(walk, Some(list.element), item));
        }
    }
}
