//! What can go wrong between a caller and the store.
//!
//! None of this knows HTTP: `Compacted` becomes 410, `Future` 504 and a failed guard 409 above.

use crate::{Key, KeyRange, Versioned};
use std::error::Error;
use std::sync::Arc;

/// Why the store could not answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The history up to `floor` is gone.
    #[error("revision {requested} is compacted: the oldest that can be read is {floor}")]
    Compacted {
        /// The revision that was asked for.
        requested: u64,
        /// The oldest revision that lists can be read at and watches can begin after.
        floor: u64,
    },
    /// The store has not reached this revision.
    #[error("revision {requested} lies in the future: the store is at {current}")]
    Future {
        /// The revision that was asked for.
        requested: u64,
        /// The newest revision.
        current: u64,
    },
    /// The store was closed. Whether a transaction that was under way took place is unknown.
    #[error("the store is closed")]
    Closed,
    /// The disk failed, or is full. Whether the transaction took place is unknown. The embedded engine
    /// takes others once the disk has room again; after any other failure when it is opened anew.
    #[error("the store cannot write: {0}")]
    Storage(#[source] Arc<dyn Error + Send + Sync>),
}

/// Why a transaction was not committed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TxnError {
    /// A guard did not hold: nothing was changed.
    #[error(transparent)]
    GuardFailed(#[from] GuardFailure),
    /// The store could not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The first guard that did not hold, and what stood against it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuardFailure {
    /// The key is not at its revision.
    #[error("{key} is {}, not {}", state(.current.as_ref().map(|c| c.revision)), state(*.expected))]
    Key {
        /// Position in the list of guards.
        index: usize,
        /// The guarded key.
        key: Key,
        /// The revision that was expected; none: that the key is absent.
        expected: Option<u64>,
        /// What the key holds.
        current: Option<Versioned>,
    },
    /// Something in the range was put or deleted.
    #[error("{range} was changed since revision {since}: {key} is {}", state(.current.as_ref().map(|c| c.revision)))]
    Range {
        /// Position in the list of guards.
        index: usize,
        /// The guarded range.
        range: KeyRange,
        /// The revision since which nothing should have changed.
        since: u64,
        /// A key of the range that was put or deleted since.
        key: Key,
        /// The revision of that change.
        revision: u64,
        /// What the key holds.
        current: Option<Versioned>,
    },
}

fn state(revision: Option<u64>) -> String {
    match revision {
        Some(revision) => format!("at revision {revision}"),
        None => "absent".to_owned(),
    }
}
