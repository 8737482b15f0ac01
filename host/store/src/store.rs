//! The contract of every engine.

use crate::{Key, KeyRange, StoreError, TxnError};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use std::fmt;
use std::sync::Arc;

/// The revision of an empty store. It is not 0, for a resourceVersion of `0` means "any".
pub const FIRST_REVISION: u64 = 1;

/// A store of revisioned keys.
///
/// There is one revision for the whole store. Each committed transaction that changes something
/// raises it by one, and every change of the transaction carries that revision. What a call
/// returns, or refuses, is durable: it survives a crash.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The newest revision.
    ///
    /// # Errors
    /// [`StoreError::Closed`] or [`StoreError::Storage`].
    async fn revision(&self) -> Result<u64, StoreError>;

    /// What the key holds now.
    ///
    /// # Errors
    /// [`StoreError::Closed`] or [`StoreError::Storage`].
    async fn get(&self, key: &Key) -> Result<Option<Versioned>, StoreError>;

    /// What the range held at one revision, in the order of keys.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] for a revision below the floor, [`StoreError::Future`] for one
    /// above the newest.
    async fn list(&self, range: &KeyRange, options: ListOptions) -> Result<Page, StoreError>;

    /// Applies all `ops` in one step if all `guards` hold.
    ///
    /// Guards see the store as it was before the ops; of several ops on one key the last counts.
    /// A transaction that changes nothing (no ops, or deletes of what is absent) does not raise
    /// the revision; a put of an equal value does. Dropping the future does not take the
    /// transaction back.
    ///
    /// # Errors
    /// [`TxnError::GuardFailed`] with the first guard that does not hold; [`StoreError::Compacted`]
    /// or [`StoreError::Future`] for a guard of a range whose revision cannot be compared. In all these
    /// cases nothing was changed.
    async fn txn(&self, ops: Vec<Op>, guards: Vec<Guard>) -> Result<Committed, TxnError>;

    /// All changes in the range with a revision above `after`, in order, and then each new one.
    ///
    /// # Errors
    /// As for [`Store::list`].
    async fn watch(&self, range: KeyRange, after: u64) -> Result<WatchStream, StoreError>;

    /// Forgets the history before `revision`, which becomes the floor: lists at it and watches
    /// after it still work. A revision at or below the present floor changes nothing.
    ///
    /// # Errors
    /// [`StoreError::Future`] for a revision above the newest.
    async fn compact(&self, revision: u64) -> Result<(), StoreError>;
}

/// A value and the revision that put it there (its mod revision).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned {
    /// The bytes as they were put.
    pub value: Bytes,
    /// The revision of the transaction that put them.
    pub revision: u64,
}

/// One step of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Creates or replaces. The bytes are kept as they are: a slice of a larger buffer keeps the
    /// whole buffer in memory.
    Put {
        /// Where.
        key: Key,
        /// What.
        value: Bytes,
    },
    /// Deletes one key, if it is there.
    Delete {
        /// Which.
        key: Key,
    },
    /// Deletes every key in the range, those put by earlier ops included.
    DeleteRange {
        /// Which.
        range: KeyRange,
    },
}

/// What must hold for a transaction to be committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guard {
    /// The key was last put at this revision.
    KeyAtRevision {
        /// Which key.
        key: Key,
        /// Its mod revision; none: the key is absent.
        revision: Option<u64>,
    },
    /// Nothing in the range was put or deleted after this revision. With the revision of a list
    /// this makes what was listed part of the transaction: no phantom and no write skew.
    RangeUnchangedSince {
        /// Which keys.
        range: KeyRange,
        /// The revision of the list that the transaction rests on.
        revision: u64,
    },
    /// As [`Guard::RangeUnchangedSince`], for a list that a query selects from: changes of what it selects neither before
    /// nor after do not matter, so that busy neighbours do not make the transaction fail.
    QueryUnchangedSince {
        /// Which keys.
        range: KeyRange,
        /// The revision of the list that the transaction rests on.
        revision: u64,
        /// Which of their changes matter.
        query: Query,
    },
}

/// Tells whether a query selects what a change put or took away.
#[derive(Clone)]
pub struct Query(Arc<dyn Fn(&Versioned) -> bool + Send + Sync>);

impl Query {
    /// Asked while a transaction waits: it must be quick. What it cannot read it had better select.
    pub fn new(selects: impl Fn(&Versioned) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(selects))
    }

    /// Whether the change matters to the query.
    #[must_use]
    pub fn concerns(&self, change: &Change) -> bool {
        let mut sides = change.old.iter().chain(&change.new);
        sides.any(|value| (self.0)(value))
    }
}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Query")
    }
}

/// Queries are equal when they are the same one.
impl PartialEq for Query {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Query {}

/// A transaction that took place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The revision of the transaction; the newest revision if it changed nothing.
    pub revision: u64,
    /// What it changed, in the order of keys.
    pub changes: Arc<[Change]>,
}

/// One key that one transaction changed. `old` and `new` are never both none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The revision of the transaction.
    pub revision: u64,
    /// Which key.
    pub key: Key,
    /// What it held before; none: it was created.
    pub old: Option<Versioned>,
    /// What it holds since; none: it was deleted.
    pub new: Option<Versioned>,
}

/// What a watch yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent {
    /// A change in the range. Changes of one transaction follow each other, in the order of keys.
    Change(Change),
    /// Every change in the range up to this revision has been yielded. Sent when the watch has
    /// begun and each time it has caught up with a higher revision, also when none of the changes
    /// were in the range.
    Progress {
        /// The revision that was reached.
        revision: u64,
    },
}

/// Changes in order. An error is the last item: [`StoreError::Compacted`] when the reader was so
/// slow that history was compacted before it was read. The end without error means that the
/// store was closed.
pub type WatchStream = BoxStream<'static, Result<WatchEvent, StoreError>>;

/// At which revision to list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum At {
    /// The newest.
    #[default]
    Latest,
    /// Exactly this one.
    Revision(u64),
}

/// Which part of a range to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// At which revision. Later pages name the revision of the first.
    pub at: At,
    /// The most entries wanted; none: all. 0 counts only.
    pub limit: Option<usize>,
    /// Leave out this key (which need not exist) and all before it.
    pub start_after: Option<Key>,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The revision at which the range looked so.
    pub revision: u64,
    /// The entries in the order of keys.
    pub entries: Vec<(Key, Versioned)>,
    /// How many keys of the range lie after `start_after`, those on the page included.
    pub count: usize,
}

impl Page {
    /// How many keys of the range follow this page.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.count - self.entries.len()
    }

    /// Whether keys of the range follow this page.
    #[must_use]
    pub fn more(&self) -> bool {
        self.remaining() > 0
    }
}
