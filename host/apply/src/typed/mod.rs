//! Values seen through their types: what they consist of, how they differ, how they merge.
//!
//! Follows k8s.io/structured-merge-diff/typed, also where that is surprising: managed fields are shared with clients
//! that compute on them with that library, so only the same answers will do.

mod compare;
mod error;
mod field_set;
mod merge;
mod reconcile;
mod remove;
mod validate;

pub(crate) use compare::{Comparison, compare};
pub(crate) use error::TypedError;
pub(crate) use field_set::field_set;
pub(crate) use merge::merge;
pub(crate) use reconcile::reconcile;
pub(crate) use remove::{extract_items, remove_items};
pub(crate) use validate::{Duplicates, validate};

use serde_json::{Map, Value};

use crate::element::PathElement;
use crate::types::{ListType, Types};

/// What tells an item of a list apart from the others.
///
/// # Errors
/// Says why the item has nothing of the kind.
fn item_element(types: &Types, list: &ListType, item: &Value) -> Result<PathElement, String> {
    if list.atomic {
        return Err("invalid indexing of non-associative list".to_owned());
    }
    if list.keys.is_empty() {
        return match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Array(_) => {
                Err("not supported: associative list with lists as elements".to_owned())
            }
            Value::Null => Err(
                "associative list without keys has an element that's an explicit null".to_owned(),
            ),
            scalar => Ok(PathElement::Value(scalar.clone())),
        };
    }
    let item = match item {
        Value::Object(item) => item,
        Value::Null => {
            return Err("associative list with keys may not have a null element".to_owned());
        }
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let mut keys = Vec::with_capacity(list.keys.len());
    for name in &list.keys {
        let default = || key_default(types, list, name);
        let value = match item.get(name) {
            Some(value) => Some(value.clone()),
            None => default()?,
        };
        keys.extend(value.map(|value| (name.clone(), value)));
    }
    if keys.is_empty() {
        let names: Vec<_> = list.keys.iter().map(|name| format!("{name:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
             values for any key fields)",
            names.join(" ")
        ));
    }
    keys.sort_by(|(left, _), (right, _)| left.cmp(right));
    Ok(PathElement::Key(keys))
}

fn key_default(types: &Types, list: &ListType, name: &str) -> Result<Option<Value>, String> {
    let Some(map) = &types.resolve(Some(list.element)).map else {
        return Err(format!(
            "couldn't find default value for {name}: associative list may not have non-map types"
        ));
    };
    Ok(map.fields.get(name).and_then(|field| field.default.clone()))
}

fn list_of(value: Option<&Value>) -> Option<&Vec<Value>> {
    value.and_then(Value::as_array)
}

fn map_of(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

/// The names of either, sorted, each once.
fn names<'a>(
    left: Option<&'a Map<String, Value>>,
    right: Option<&'a Map<String, Value>>,
) -> Vec<&'a String> {
    let all = left.into_iter().chain(right).flat_map(Map::keys);
    let mut names: Vec<_> = all.collect();
    names.sort();
    names.dedup();
    names
}
