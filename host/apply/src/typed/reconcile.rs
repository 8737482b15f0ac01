//! Sets of paths from before the schema changed.

use crate::element::PathElement;
use crate::set::FieldSet;
use crate::types::{Kind, TypeId, Types};

/// A set in which whoever owned a part of what is atomic now owns the whole. None: nothing is to be changed.
///
/// What has become granular is left as it is: its owner owns it as a whole until the next write.
pub(crate) fn reconcile(types: &Types, set: &FieldSet) -> Option<FieldSet> {
    let mut walk = Reconcile {
        types,
        path: Vec::new(),
        atomic: FieldSet::default(),
    };
    walk.value(Some(types.root()), Some(set), false);
    let atomic = walk.atomic;
    (!atomic.is_empty()).then(|| set.recursive_difference(&atomic).union(&atomic))
}

struct Reconcile<'a> {
    types: &'a Types,
    path: Vec<PathElement>,
    /// What is atomic and was not.
    atomic: FieldSet,
}

impl<'a> Reconcile<'a> {
    /// `below`: the members below the path. `whole`: the path is a member and has none below it.
    fn value(&mut self, type_: Option<TypeId>, below: Option<&FieldSet>, whole: bool) {
        let types: &'a Types = self.types;
        let atom = types.resolve(type_);
        match atom.deduce(None).kind() {
            Some(Kind::Map(map)) => {
                if types.is_deduced(map) {
                    return;
                }
                if !whole && map.atomic {
                    if below.is_some_and(|below| !below.is_empty()) {
                        self.atomic.insert(&self.path);
                    }
                    return;
                }
                for (element, node) in below.into_iter().flat_map(|below| &below.nodes) {
                    let type_ = match element {
                        PathElement::Field(name) => map.type_of(name),
                        _ => map.element,
                    };
                    // Fields that are not in the schema are left alone.
                    if type_.is_some() {
                        self.descend(element, type_, node);
                    }
                }
            }
            Some(Kind::List(list)) => {
                if !whole && list.atomic {
                    self.atomic.insert(&self.path);
                    return;
                }
                for (element, node) in below.into_iter().flat_map(|below| &below.nodes) {
                    self.descend(element, Some(list.element), node);
                }
            }
            Some(Kind::Scalar(_)) | None => {}
        }
    }

    fn descend(&mut self, element: &PathElement, type_: Option<TypeId>, node: &crate::set::Node) {
        let below = Some(&node.children).filter(|children| !children.is_empty());
        self.path.push(element.clone());
        self.value(type_, below, node.member && below.is_none());
        self.path.pop();
    }
}
