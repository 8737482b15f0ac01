//! Sets of paths.

use std::collections::BTreeMap;

use crate::element::{Path, PathElement};
use crate::types::{TypeId, Types};

/// A set of paths, kept as a tree. The empty path is never a member: nobody owns an object as a whole.
///
/// Follows `fieldpath.Set` of k8s.io/structured-merge-diff. A path may be a member whether or not paths below it are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Each is a member or has members below it.
    pub(crate) nodes: BTreeMap<PathElement, Node>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) member: bool,
    pub(crate) children: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl FieldSet {
    /// Whether it has no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds a path.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        if let Some(node) = self.nodes.get_mut(first) {
            node.add(rest);
        } else {
            let mut node = Node::default();
            node.add(rest);
            self.nodes.insert(first.clone(), node);
        }
    }

    /// Whether this path is a member.
    #[must_use]
    pub fn contains(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.nodes.get(last).is_some_and(|node| node.member),
            [first, rest @ ..] => self.below(first).is_some_and(|below| below.contains(rest)),
        }
    }

    /// The members below an element, without it.
    #[must_use]
    pub fn below(&self, element: &PathElement) -> Option<&FieldSet> {
        let children = &self.nodes.get(element)?.children;
        (!children.is_empty()).then_some(children)
    }

    /// The paths of either.
    #[must_use]
    pub fn union(&self, other: &FieldSet) -> FieldSet {
        let mut out = self.clone();
        out.extend(other);
        out
    }

    /// Adds the paths of another.
    pub fn extend(&mut self, other: &FieldSet) {
        for (element, node) in &other.nodes {
            if let Some(mine) = self.nodes.get_mut(element) {
                mine.member |= node.member;
                mine.children.extend(&node.children);
            } else {
                self.nodes.insert(element.clone(), node.clone());
            }
        }
    }

    /// The paths of both.
    #[must_use]
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        self.map(|element, node| {
            let Some(theirs) = other.nodes.get(element) else {
                return Node::default();
            };
            Node {
                member: node.member && theirs.member,
                children: node.children.intersection(&theirs.children),
            }
        })
    }

    /// The paths that the other has not. Paths below the other's stay.
    #[must_use]
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        self.map(|element, node| match other.nodes.get(element) {
            Some(theirs) => Node {
                member: node.member && !theirs.member,
                children: node.children.difference(&theirs.children),
            },
            None => node.clone(),
        })
    }

    /// The paths that the other has not, without those below the other's.
    #[must_use]
    pub fn recursive_difference(&self, other: &FieldSet) -> FieldSet {
        self.map(|element, node| match other.nodes.get(element) {
            Some(theirs) if theirs.member => Node::default(),
            Some(theirs) => Node {
                member: node.member,
                children: node.children.recursive_difference(&theirs.children),
            },
            None => node.clone(),
        })
    }

    /// The paths with none below them.
    #[must_use]
    pub fn leaves(&self) -> FieldSet {
        self.map(|_, node| Node {
            member: node.member && node.children.is_empty(),
            children: node.children.leaves(),
        })
    }

    /// Only this field and what is below it.
    #[must_use]
    pub(crate) fn only(&self, field: &str) -> FieldSet {
        let element = PathElement::field(field);
        let node = self.nodes.get(&element).cloned();
        FieldSet {
            nodes: node.map(|node| (element, node)).into_iter().collect(),
        }
    }

    /// With each field that a type names and that has members below it as a member too: whoever owns a part of it
    /// has it.
    pub(crate) fn with_named_fields(&self, types: &Types, of: Option<TypeId>) -> FieldSet {
        let atom = types.resolve(of);
        self.map(|element, node| {
            let mut member = node.member;
            let below = match element {
                PathElement::Field(name) => atom.map.as_ref().and_then(|map| {
                    member |= map.fields.contains_key(name) && !node.children.is_empty();
                    map.type_of(name)
                }),
                PathElement::Key(_) => atom.list.as_ref().map(|list| list.element),
                PathElement::Value(_) | PathElement::Index(_) => None,
            };
            Node {
                member,
                children: node.children.with_named_fields(types, below),
            }
        })
    }

    /// Its members: at each level first the members of that level, then those below them.
    #[must_use]
    pub fn paths(&self) -> Vec<Path> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, out: &mut Vec<Path>) {
        for (element, node) in &self.nodes {
            if node.member {
                let mut path = prefix.clone();
                path.push(element.clone());
                out.push(Path(path));
            }
        }
        for (element, node) in &self.nodes {
            prefix.push(element.clone());
            node.children.collect(prefix, out);
            prefix.pop();
        }
    }

    fn map(&self, each: impl Fn(&PathElement, &Node) -> Node) -> FieldSet {
        let nodes = self.nodes.iter();
        FieldSet {
            nodes: nodes
                .map(|(element, node)| (element, each(element, node)))
                .filter(|(_, node)| !node.is_empty())
                .map(|(element, node)| (element.clone(), node))
                .collect(),
        }
    }
}

impl Node {
    fn add(&mut self, rest: &[PathElement]) {
        if rest.is_empty() {
            self.member = true;
        } else {
            self.children.insert(rest);
        }
    }
}

impl FromIterator<Path> for FieldSet {
    fn from_iter<I: IntoIterator<Item = Path>>(paths: I) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(path.elements());
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(paths: &[&str]) -> FieldSet {
        let path = |path: &&str| Path::fields(&path.split('.').collect::<Vec<_>>());
        paths.iter().map(path).collect()
    }

    fn shown(set: &FieldSet) -> Vec<String> {
        set.paths().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_parent_and_its_children_are_members_of_their_own() {
        let set = set(&["a", "a.b", "c.d"]);
        assert_eq!(shown(&set), [".a", ".a.b", ".c.d"]);
        assert!(!set.contains(Path::fields(&["c"]).elements()));
        assert!(set.contains(Path::fields(&["c", "d"]).elements()));
        assert!(!set.contains(&[]));
    }

    #[test]
    fn union_intersection_and_difference_look_at_paths_not_at_subtrees() {
        let (left, right) = (set(&["a", "a.b", "c.d"]), set(&["a", "c", "c.e"]));
        assert_eq!(
            shown(&left.union(&right)),
            [".a", ".c", ".a.b", ".c.d", ".c.e"]
        );
        assert_eq!(shown(&left.intersection(&right)), [".a"]);
        assert_eq!(shown(&left.difference(&right)), [".a.b", ".c.d"]);
    }

    #[test]
    fn the_recursive_difference_takes_away_what_is_below_too() {
        let left = set(&["a", "a.b", "a.b.c", "d.e"]);
        assert_eq!(
            shown(&left.recursive_difference(&set(&["a.b"]))),
            [".a", ".d.e"]
        );
        assert_eq!(shown(&left.recursive_difference(&set(&["a"]))), [".d.e"]);
    }

    #[test]
    fn leaves_have_nothing_below_them() {
        let set = set(&["a", "a.b", "c"]);
        assert_eq!(shown(&set.leaves()), [".c", ".a.b"]);
    }

    #[test]
    fn what_becomes_empty_is_gone() {
        let one = set(&["a.b.c"]);
        assert!(one.difference(&one).is_empty());
        assert_eq!(one.difference(&one), FieldSet::default());
    }
}
