use crate::{Composed, Failure, Input, Plugin};

/// A join: keys + query + combine. Pure functions of the settings and the arguments.
pub trait View: Plugin {
    /// The join keys of one object. A parent and a child are related when they share a key; no key: related to
    /// nothing. A panic here leaves the object out and is reported.
    fn keys(&self, relation: &str, side: Side, object: &[u8]) -> Vec<String>;

    /// What to ask upstream for many parents' keys at once. It may select too much, never too little.
    fn query(&self, relation: &str, keys: &[String]) -> Selection;

    /// The view's object for one primary and all that is related to it; none: there is no such object.
    ///
    /// # Errors
    /// Becomes the answer to a get of the object; a list leaves it out with a warning.
    fn combine(&self, resource: &str, group: &Group) -> Result<Option<Composed>, Failure>;
}

/// Which end of a relation an object stands at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// An object of the parent relation, or the primary.
    Parent,
    /// An object of the relation's own source.
    Child,
}

/// What to read of a relation's source, within the source's own selectors.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    /// All of it.
    All,
    /// One list with these selectors.
    Selector {
        /// Empty for all.
        label_selector: String,
        /// Empty for all.
        field_selector: String,
    },
    /// These objects, each by namespace (none: cluster-scoped) and name.
    Names(Vec<crate::ObjectKey>),
}

/// A primary and all that is related to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// JSON, with the fields that its source `reads`, apiVersion, kind, and of the metadata at least namespace, name,
    /// uid and resourceVersion.
    pub primary: Vec<u8>,
    /// One per relation, in the order described.
    pub branches: Vec<Branch>,
}

impl Group {
    /// The primary, for a hole.
    pub fn primary_input(&self) -> Input {
        Input(0)
    }

    /// The object at `position` of the branch at `branch`, for a hole.
    pub fn input(&self, branch: usize, position: usize) -> Input {
        let before: usize = self
            .branches
            .iter()
            .take(branch)
            .map(|b| b.objects.len())
            .sum();
        // The canonical ABI has 32-bit lengths, so that more objects than this cannot arrive.
        Input((1 + before + position) as u32)
    }
}

/// The children of one relation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Branch {
    /// JSON, by namespace, then name.
    pub objects: Vec<Vec<u8>>,
    /// For each object the positions of its parents in the parent relation's branch; empty if those are the primary.
    pub parents: Vec<Vec<u32>>,
    /// Related objects left out because of the relation's limit.
    pub omitted: u64,
}
