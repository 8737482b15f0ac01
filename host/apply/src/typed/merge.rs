//! What an object becomes when a configuration is applied to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::error::{TypedError, Walk, scalar_error};
use super::{item_element, list_of, map_of, names};
use crate::element::PathElement;
use crate::types::{Kind, ListType, MapType, TypeId, Types};

/// Merges the right value into the left one. Nothing of the left is lost but what the right has too.
///
/// Lists of type `set` and `map` come out in the order of the right for what both have.
///
/// # Errors
/// What does not conform to the type in a way that keeps the values from being merged.
pub(crate) fn merge(types: &Types, left: &Value, right: &Value) -> Result<Value, TypedError> {
    let mut walk = Walk::default();
    let out = Merge { types }.value(&mut walk, Some(types.root()), Some(left), Some(right));
    walk.finish(out.unwrap_or_default())
}

struct Merge<'a> {
    types: &'a Types,
}

impl Merge<'_> {
    fn value(
        &self,
        walk: &mut Walk,
        type_: Option<TypeId>,
        left: Option<&Value>,
        right: Option<&Value>,
    ) -> Option<Value> {
        let atom = self.types.resolve(type_);
        let (of_left, of_right) = (atom.deduce(left), atom.deduce(right));
        if right.is_none() {
            return self.kind(walk, of_left.kind(), left, right);
        }
        if left.is_some() && !of_left.same(of_right) {
            // Only what is wrong counts of this.
            self.kind(walk, of_left.kind(), left, right);
        }
        self.kind(walk, of_right.kind(), left, right)
    }

    fn kind(
        &self,
        walk: &mut Walk,
        kind: Option<Kind<'_>>,
        left: Option<&Value>,
        right: Option<&Value>,
    ) -> Option<Value> {
        match kind {
            Some(Kind::Map(map)) => self.map(walk, map, left, right),
            Some(Kind::Scalar(scalar)) => {
                let errors = (scalar_error(scalar, left), scalar_error(scalar, right));
                if let (Some(of_left), Some(of_right)) = errors {
                    walk.error(format!("lhs: {of_left}"));
                    walk.error(format!("rhs: {of_right}"));
                    return None;
                }
                leaf(left, right)
            }
            Some(Kind::List(list)) => self.list(walk, list, left, right),
            None => {
                walk.no_type();
                None
            }
        }
    }

    fn map(
        &self,
        walk: &mut Walk,
        map: &MapType,
        left: Option<&Value>,
        right: Option<&Value>,
    ) -> Option<Value> {
        let (l, r) = (map_of(left), map_of(right));
        let names = names(l, r);
        // Empty and null are told apart as leaves.
        if map.atomic || names.is_empty() {
            return leaf(left, right);
        }
        let mut out = Map::new();
        for name in names {
            let (l, r) = (l.and_then(|l| l.get(name)), r.and_then(|r| r.get(name)));
            let merged = walk.descend(PathElement::field(name), |walk| {
                self.value(walk, map.type_of(name), l, r)
            });
            out.extend(merged.map(|value| (name.clone(), value)));
        }
        (!out.is_empty()).then_some(Value::Object(out))
    }

    fn list(
        &self,
        walk: &mut Walk,
        list: &ListType,
        left: Option<&Value>,
        right: Option<&Value>,
    ) -> Option<Value> {
        let l = list_of(left).map_or(&[][..], Vec::as_slice);
        let r = list_of(right).map_or(&[][..], Vec::as_slice);
        if list.atomic || (l.is_empty() && r.is_empty()) {
            return leaf(left, right);
        }
        let errors = walk.count();
        let r = self.index(walk, list, r, false);
        let l = self.index(walk, list, l, true);
        if walk.count() > errors {
            return None;
        }
        let out = self.items(walk, list, &l, &r);
        (!out.is_empty()).then_some(Value::Array(out))
    }

    fn index<'v>(
        &self,
        walk: &mut Walk,
        list: &ListType,
        items: &'v [Value],
        duplicates: bool,
    ) -> Indexed<'v> {
        let mut indexed = Indexed::default();
        for (index, item) in items.iter().enumerate() {
            let element = match item_element(self.types, list, item) {
                Ok(element) => element,
                Err(text) => {
                    walk.error(format!("element {index}: {text}"));
                    continue;
                }
            };
            if !indexed.by_element.contains_key(&element) {
                indexed.by_element.insert(element.clone(), item);
            } else if duplicates {
                // The applied item is merged with none of several equal ones: it replaces them.
                indexed.by_element.insert(element.clone(), &Value::Null);
            } else {
                walk.error(format!("duplicate entries for key {element}"));
                continue;
            }
            indexed.in_order.push((element, item));
        }
        indexed
    }

    /// Takes the items of both in turn: those of the left alone keep their place among those that both have, which
    /// follow the order of the right.
    fn items(
        &self,
        walk: &mut Walk,
        list: &ListType,
        left: &Indexed<'_>,
        right: &Indexed<'_>,
    ) -> Vec<Value> {
        let mut out = Vec::with_capacity(left.in_order.len().max(right.in_order.len()));
        let mut merged: BTreeSet<&PathElement> = BTreeSet::new();
        let shared = right.in_order.iter().map(|(element, _)| element);
        let mut shared: VecDeque<_> = shared
            .filter(|element| left.by_element.contains_key(element))
            .collect();
        let mut next_shared = shared.pop_front();
        let (mut li, mut ri) = (0, 0);
        loop {
            let (from_left, from_right) = (left.in_order.get(li), right.in_order.get(ri));
            match (from_left, from_right) {
                (None, None) => return out,
                (Some((element, _)), Some((other, _))) if element == other => {
                    merged.insert(element);
                    let (l, r) = (left.get(element), right.get(element));
                    out.extend(self.item(walk, list, element, l, r));
                    li += 1;
                    ri += 1;
                    next_shared = shared.pop_front();
                    continue;
                }
                (Some((element, _)), Some(_))
                    if right.by_element.contains_key(element)
                        && next_shared.is_some_and(|next| next != element) =>
                {
                    // Both have it, but it is not the one whose turn it is.
                    li += 1;
                    continue;
                }
                _ => {}
            }
            if let Some((element, item)) = from_left {
                if !right.by_element.contains_key(element) {
                    out.extend(self.item(walk, list, element, Some(item), None));
                    li += 1;
                    continue;
                }
                if merged.contains(element) {
                    li += 1;
                }
            }
            if let Some((element, _)) = from_right {
                merged.insert(element);
                let (l, r) = (left.get(element), right.get(element));
                out.extend(self.item(walk, list, element, l, r));
                ri += 1;
                if next_shared == Some(element) {
                    next_shared = shared.pop_front();
                }
            }
        }
    }

    fn item(
        &self,
        walk: &mut Walk,
        list: &ListType,
        element: &PathElement,
        left: Option<&Value>,
        right: Option<&Value>,
    ) -> Option<Value> {
        // Upstream drops what is wrong with an item.
        let errors = walk.count();
        let out = walk.descend(element.clone(), |walk| {
            self.value(walk, Some(list.element), left, right)
        });
        walk.forget(errors);
        out
    }
}

/// The items of a list by what tells them apart.
#[derive(Default)]
struct Indexed<'v> {
    in_order: Vec<(PathElement, &'v Value)>,
    by_element: BTreeMap<PathElement, &'v Value>,
}

impl<'v> Indexed<'v> {
    fn get(&self, element: &PathElement) -> Option<&'v Value> {
        self.by_element.get(element).copied()
    }
}

fn leaf(left: Option<&Value>, right: Option<&Value>) -> Option<Value> {
    right.or(left).cloned()
}

#[cfg(test)]
mod tests {
    use joinery_schema::StructuralSchema;
    use serde_json::json;

    use super::*;

    fn merged(left: Value, right: Value) -> Value {
        let schema = StructuralSchema::from_value(json!({"type": "object", "properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "atomic": {"type": "array", "items": {"type": "string"}},
            "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {"type": "object", "required": ["port"], "properties": {
                    "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"},
                    "name": {"type": "string"}, "to": {"type": "string"}}}},
        }}));
        merge(&Types::new(Some(&schema.unwrap())), &left, &right).unwrap()
    }

    #[test]
    fn sets_keep_what_is_there_and_follow_the_applied_order() {
        assert_eq!(
            merged(
                json!({"set": ["a", "b", "c", "d"]}),
                json!({"set": ["c", "x", "a"]})
            ),
            json!({"set": ["b", "c", "d", "x", "a"]})
        );
    }

    #[test]
    fn items_of_lists_of_type_map_merge_by_their_keys_and_defaults_of_keys() {
        assert_eq!(
            merged(
                json!({"list": [{"port": 80, "protocol": "TCP", "name": "a"}, {"port": 80, "protocol": "UDP"}]}),
                json!({"list": [{"port": 80, "to": "b"}]})
            ),
            json!({"list": [
                {"port": 80, "protocol": "TCP", "name": "a", "to": "b"}, {"port": 80, "protocol": "UDP"}]})
        );
    }

    #[test]
    fn atomic_lists_are_replaced() {
        assert_eq!(
            merged(json!({"atomic": ["a", "b"]}), json!({"atomic": ["c"]})),
            json!({"atomic": ["c"]})
        );
    }

    #[test]
    fn a_null_replaces_a_scalar_but_neither_a_list_nor_an_object() {
        assert_eq!(
            merged(
                json!({"set": ["a"], "atomic": ["b"], "kind": "K"}),
                json!({"set": null, "atomic": null, "kind": null})
            ),
            json!({"set": ["a"], "atomic": null, "kind": null})
        );
    }
}
