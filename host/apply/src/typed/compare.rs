//! How two values differ.

use std::collections::BTreeMap;

use serde_json::Value;

use super::error::{TypedError, Walk, scalar_error};
use super::{item_element, list_of, map_of, names};
use crate::element::PathElement;
use crate::set::FieldSet;
use crate::types::{Kind, ListType, MapType, TypeId, Types};
use crate::value;

/// How one value differs from another. No path is in two of the sets.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) removed: FieldSet,
    pub(crate) modified: FieldSet,
    pub(crate) added: FieldSet,
}

/// How the right value differs from the left.
///
/// # Errors
/// What does not conform to the type in a way that keeps the values from being compared.
pub(crate) fn compare(
    types: &Types,
    left: &Value,
    right: &Value,
) -> Result<Comparison, TypedError> {
    let mut walk = Walk::default();
    let mut compare = Compare {
        types,
        out: Comparison::default(),
    };
    compare.value(&mut walk, Some(types.root()), Some(left), Some(right));
    walk.finish(compare.out)
}

struct Compare<'a> {
    types: &'a Types,
    out: Comparison,
}

impl<'a> Compare<'a> {
    fn value(
        &mut self,
        walk: &mut Walk,
        type_: Option<TypeId>,
        left: Option<&Value>,
        right: Option<&Value>,
    ) {
        let types: &'a Types = self.types;
        let atom = types.resolve(type_);
        let (of_left, of_right) = (atom.deduce(left), atom.deduce(right));
        let was_leaf = if right.is_none() {
            self.kind(walk, of_left.kind(), left, right)
        } else {
            if left.is_some() && !of_left.same(of_right) {
                self.kind(walk, of_left.kind(), left, right);
            }
            self.kind(walk, of_right.kind(), left, right)
        };
        if !was_leaf {
            if left.is_none() {
                self.out.added.insert(&walk.path);
            } else if right.is_none() {
                self.out.removed.insert(&walk.path);
            }
        }
    }

    /// Returns whether the values were compared as a whole.
    fn kind(
        &mut self,
        walk: &mut Walk,
        kind: Option<Kind<'_>>,
        left: Option<&Value>,
        right: Option<&Value>,
    ) -> bool {
        match kind {
            Some(Kind::Map(map)) => self.map(walk, map, left, right),
            Some(Kind::Scalar(scalar)) => {
                let errors = (scalar_error(scalar, left), scalar_error(scalar, right));
                if let (Some(of_left), Some(of_right)) = errors {
                    walk.error(format!("lhs: {of_left}"));
                    walk.error(format!("rhs: {of_right}"));
                    return false;
                }
                self.leaf(walk, left, right)
            }
            Some(Kind::List(list)) => self.list(walk, list, left, right),
            None => {
                walk.no_type();
                false
            }
        }
    }

    fn leaf(&mut self, walk: &Walk, left: Option<&Value>, right: Option<&Value>) -> bool {
        match (left, right) {
            (None, _) => self.out.added.insert(&walk.path),
            (_, None) => self.out.removed.insert(&walk.path),
            (Some(left), Some(right)) if !value::equal(left, right) => {
                self.out.modified.insert(&walk.path);
            }
            _ => {}
        }
        true
    }

    fn map(
        &mut self,
        walk: &mut Walk,
        map: &MapType,
        left: Option<&Value>,
        right: Option<&Value>,
    ) -> bool {
        let (l, r) = (map_of(left), map_of(right));
        let names = names(l, r);
        // Empty and null are told apart as leaves.
        if map.atomic || names.is_empty() {
            return self.leaf(walk, left, right);
        }
        for name in names {
            let (l, r) = (l.and_then(|l| l.get(name)), r.and_then(|r| r.get(name)));
            walk.descend(PathElement::field(name), |walk| {
                self.value(walk, map.type_of(name), l, r);
            });
        }
        false
    }

    fn list(
        &mut self,
        walk: &mut Walk,
        list: &ListType,
        left: Option<&Value>,
        right: Option<&Value>,
    ) -> bool {
        let l = list_of(left).map_or(&[][..], Vec::as_slice);
        let r = list_of(right).map_or(&[][..], Vec::as_slice);
        if list.atomic || (l.is_empty() && r.is_empty()) {
            return self.leaf(walk, left, right);
        }
        let mut items: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for (side, values) in [l, r].into_iter().enumerate() {
            for (index, value) in values.iter().enumerate() {
                match item_element(self.types, list, value) {
                    Ok(element) => {
                        let (l, r) = items.entry(element).or_default();
                        if side == 0 { l } else { r }.push(value);
                    }
                    Err(text) => walk.error(format!("element {index}: {text}")),
                }
            }
        }
        for (element, (l, r)) in items {
            self.items(walk, list, element, &l, &r);
        }
        false
    }

    /// The items of one element. Equal ones are as atomic: what is in them has no owners.
    fn items(
        &mut self,
        walk: &mut Walk,
        list: &ListType,
        element: PathElement,
        left: &[&Value],
        right: &[&Value],
    ) {
        let (first_left, first_right) = (left.first().copied(), right.first().copied());
        walk.descend(element, |walk| match (left, right) {
            ([] | [_], [] | [_]) => {
                self.value(walk, Some(list.element), first_left, first_right);
            }
            ([_, _, ..], [_, _, ..]) => {
                let mut pairs = left.iter().zip(right);
                if left.len() != right.len() || !pairs.all(|(l, r)| value::equal(l, r)) {
                    self.out.modified.insert(&walk.path);
                }
            }
            ([_, _, ..], _) => {
                if first_right.is_some() {
                    self.value(walk, Some(list.element), None, first_right);
                }
                self.out.removed.insert(&walk.path);
            }
            (_, _) => {
                if first_left.is_some() {
                    self.value(walk, Some(list.element), first_left, None);
                }
                self.out.added.insert(&walk.path);
            }
        });
    }
}
