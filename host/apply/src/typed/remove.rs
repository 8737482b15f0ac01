//! A value without some of its items, or with only these.

use serde_json::{Map, Value};

use super::item_element;
use crate::element::PathElement;
use crate::set::FieldSet;
use crate::types::{Kind, ListType, MapType, TypeId, Types};

/// The value without these paths. What becomes empty by it is null.
pub(crate) fn remove_items(types: &Types, value: &Value, set: &FieldSet) -> Value {
    let walk = Remove {
        types,
        extract: false,
    };
    walk.value(Some(types.root()), value, set)
}

/// Only these paths of the value.
pub(crate) fn extract_items(types: &Types, value: &Value, set: &FieldSet) -> Value {
    let walk = Remove {
        types,
        extract: true,
    };
    walk.value(Some(types.root()), value, set)
}

struct Remove<'a> {
    types: &'a Types,
    /// Keep the paths of the set, not those that are not in it.
    extract: bool,
}

impl Remove<'_> {
    fn value(&self, type_: Option<TypeId>, value: &Value, set: &FieldSet) -> Value {
        let kind = self.types.resolve(type_).deduce(Some(value)).kind();
        match (kind, value) {
            (Some(Kind::Scalar(_)), value) => value.clone(),
            (Some(Kind::Map(map)), Value::Object(members)) => {
                if members.is_empty() || map.atomic {
                    self.whole(value)
                } else {
                    self.map(map, members, set)
                }
            }
            (Some(Kind::List(list)), Value::Array(items)) => {
                if items.is_empty() || list.atomic {
                    self.whole(value)
                } else {
                    self.list(list, items, set)
                }
            }
            _ => Value::Null,
        }
    }

    /// A part that is owned as a whole and that the set has paths below of, or which is the set's itself.
    fn whole(&self, value: &Value) -> Value {
        if self.extract {
            value.clone()
        } else {
            Value::Null
        }
    }

    fn map(&self, map: &MapType, members: &Map<String, Value>, set: &FieldSet) -> Value {
        let mut out = Map::new();
        for (name, value) in members {
            let element = PathElement::field(name);
            let (has, below) = (is_member(set, &element), set.below(&element));
            let type_ = map.type_of(name);
            let kept = match (self.extract, has, below) {
                // As upstream has it, with the set of the parent: what is below does not matter.
                (true, true, _) => self.value(type_, value, set),
                (false, true, _) | (true, false, None) => continue,
                (_, false, Some(below)) => self.value(type_, value, below),
                (false, false, None) => value.clone(),
            };
            out.insert(name.clone(), kept);
        }
        or_null(out.is_empty(), Value::Object(out))
    }

    fn list(&self, list: &ListType, items: &[Value], set: &FieldSet) -> Value {
        let mut out = Vec::with_capacity(items.len());
        for item in items {
            let element = item_element(self.types, list, item).ok();
            let has = element.as_ref().is_some_and(|e| is_member(set, e));
            let below = element.as_ref().and_then(|e| set.below(e));
            match (self.extract, has, below) {
                (true, _, Some(below)) | (false, false, Some(below)) => {
                    out.push(self.value(Some(list.element), item, below));
                }
                (true, true, None) | (false, false, None) => out.push(item.clone()),
                (false, true, _) | (true, false, None) => {}
            }
        }
        or_null(out.is_empty(), Value::Array(out))
    }
}

fn is_member(set: &FieldSet, element: &PathElement) -> bool {
    set.nodes.get(element).is_some_and(|node| node.member)
}

fn or_null(empty: bool, value: Value) -> Value {
    if empty { Value::Null } else { value }
}
