//! What a value consists of.

use std::collections::BTreeSet;

use serde_json::Value;

use super::item_element;
use crate::element::PathElement;
use crate::set::FieldSet;
use crate::types::{Kind, ListType, TypeId, Types};

/// The paths of all leaves, list items and members that the type does not name.
pub(crate) fn field_set(types: &Types, value: &Value) -> FieldSet {
    let mut walk = Collect {
        types,
        path: Vec::new(),
        set: FieldSet::default(),
    };
    walk.value(Some(types.root()), value);
    walk.set
}

struct Collect<'a> {
    types: &'a Types,
    path: Vec<PathElement>,
    set: FieldSet,
}

impl Collect<'_> {
    fn value(&mut self, type_: Option<TypeId>, value: &Value) {
        match self.types.resolve(type_).deduce(Some(value)).kind() {
            Some(Kind::Map(map)) if !map.atomic => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    let empty = value.is_null() || value.as_object().is_some_and(|m| m.is_empty());
                    let leaf = empty || !map.fields.contains_key(name);
                    self.descend(PathElement::field(name), map.type_of(name), value, leaf);
                }
            }
            Some(Kind::List(list)) if !list.atomic => self.list(list, value),
            Some(_) => self.set.insert(&self.path),
            None => {}
        }
    }

    /// Equal items are one member, which stands for all of them: what is in them is nobody's.
    fn list(&mut self, list: &ListType, value: &Value) {
        let items = value.as_array().into_iter().flatten();
        // What has no element can be no member.
        let items =
            items.filter_map(|item| Some((item_element(self.types, list, item).ok()?, item)));
        let items: Vec<_> = items.collect();
        let (mut seen, mut repeated) = (BTreeSet::new(), BTreeSet::new());
        for (element, _) in &items {
            if !seen.insert(element) {
                repeated.insert(element);
            }
        }
        for (element, item) in &items {
            if repeated.contains(element) {
                self.path.push(element.clone());
                self.set.insert(&self.path);
                self.path.pop();
            } else {
                self.descend(element.clone(), Some(list.element), item, true);
            }
        }
    }

    fn descend(&mut self, element: PathElement, type_: Option<TypeId>, value: &Value, leaf: bool) {
        self.path.push(element);
        self.value(type_, value);
        if leaf {
            self.set.insert(&self.path);
        }
        self.path.pop();
    }
}
