//! What a view's logic is, seen from the engine: keys, query and combine.
//!
//! The trait follows the `join` interface of the plugin contract (wit/v0.1/plugin.wit). A plugin implements it through
//! wasmtime; tests implement it natively.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use joinery_object::{GroupVersionResource, ObjectKey, Status};

/// An upstream resource that a view reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSpec {
    /// The plugin's name for it, unique in the plugin.
    pub name: String,
    /// What is read.
    pub gvr: GroupVersionResource,
    /// Narrowest label selector that holds for all that is ever wanted; empty for all.
    pub label_selector: String,
    /// Narrowest field selector; empty for all.
    pub field_selector: String,
    /// JSON pointers of what the guest reads; empty for whole objects.
    pub reads: Vec<String>,
    /// The view works, with no such objects, while the resource does not exist upstream.
    pub optional: bool,
}

/// Where the children of a relation may live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// In the namespace of their parent.
    SameNamespace,
    /// Anywhere. Needs the operator's grant.
    AnyNamespace,
}

/// How the objects of one source relate to those of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Unique in the plugin.
    pub name: String,
    /// Index into [`ViewSpec::sources`]: where the children come from.
    pub source: usize,
    /// Index of the relation whose objects are the parents, before this one; none: the primary.
    pub parent: Option<usize>,
    /// Where children may live.
    pub reach: Reach,
    /// At most so many children per primary: those created last.
    pub limit: u32,
}

/// One view: a tree of relations over sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewSpec {
    /// The view's resource, as the plugin calls it in `combine`.
    pub resource: GroupVersionResource,
    /// The kind of its objects, which the engine checks on what comes out.
    pub kind: String,
    /// What is read, the primary first, each once.
    pub sources: Vec<SourceSpec>,
    /// Parents before children.
    pub relations: Vec<Relation>,
}

/// Which end of a relation an object is asked its keys for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The object is a parent.
    Parent,
    /// The object is a child.
    Child,
}

/// What to ask upstream for a batch of parents' keys. May select too much, never too little.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All that the source's own selectors allow.
    All,
    /// Further selectors, both of which must hold besides the source's own.
    Selector {
        /// Empty for none.
        label_selector: String,
        /// Empty for none.
        field_selector: String,
    },
    /// Objects by name.
    Names(Vec<ObjectKey>),
}

/// A primary with its related objects, as `combine` gets it.
#[derive(Clone, Debug)]
pub struct Group {
    /// What the guest reads of the primary, metadata.resourceVersion included.
    pub primary: Bytes,
    /// One per relation, in the order of [`ViewSpec::relations`].
    pub branches: Vec<Branch>,
}

/// The related objects of one relation.
#[derive(Clone, Debug, Default)]
pub struct Branch {
    /// What the guest reads of each, by namespace, then name.
    pub objects: Vec<Bytes>,
    /// For each object the positions of its parents in the parent relation's branch; empty if those are the primary.
    pub parents: Vec<Vec<u32>>,
    /// Related objects left out because of the relation's limit or of [`Join::related_bytes`].
    pub omitted: u64,
}

/// A JSON object with holes, to be filled with inputs by reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composed {
    /// The text between the holes.
    pub text: Bytes,
    /// By rising offset: `(byte offset in text, input)`, where input 0 is the primary and 1… are the branches'
    /// objects, counted through.
    pub inserts: Vec<(u32, u32)>,
}

/// A call that gave no answer at all. The engine halves the batch to find the object that is to blame.
#[derive(Clone, Debug, thiserror::Error)]
pub enum JoinError {
    /// A trap, a time-out or a broken limit: the objects of the call may be the cause.
    #[error("{0}")]
    Trapped(String),
    /// Too many calls at once, or the host is stopping: the objects are not the cause, a later call may succeed.
    #[error("{0}")]
    Busy(String),
}

/// The logic of one view: pure functions of settings and arguments.
#[async_trait]
pub trait Join: Send + Sync + 'static {
    /// Sources and relations.
    fn spec(&self) -> &ViewSpec;

    /// At most so many bytes of related objects are given to [`Self::combine`] with one primary, counted as the guest
    /// reads them; of what is too much, those created last are kept. Without it whoever may write a source could make
    /// a group that no guest has memory for.
    fn related_bytes(&self) -> usize {
        usize::MAX
    }

    /// The join keys of each object, in order. A parent and a child are related when they share a key.
    async fn keys(
        &self,
        relation: usize,
        side: Side,
        objects: Vec<Bytes>,
    ) -> Result<Vec<Vec<String>>, JoinError>;

    /// What to ask upstream for these parents' keys.
    async fn query(&self, relation: usize, keys: Vec<String>) -> Result<Selection, JoinError>;

    /// One result per group, in order; none where the view has no such object.
    async fn combine(&self, groups: Vec<Group>) -> Result<Vec<CombineResult>, JoinError>;
}

/// What became of one group. The error is the guest's own refusal of this object.
pub type CombineResult = Result<Option<Composed>, Status>;

/// A shared join.
pub type SharedJoin = Arc<dyn Join>;
