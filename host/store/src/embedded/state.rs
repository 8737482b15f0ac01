//! The store in memory: what is live, and the history since the floor.
//!
//! Both are persistent maps, so a clone is a snapshot that costs a few pointers. Nothing here
//! knows of threads or disks.

use crate::{
    At, Change, Committed, Guard, GuardFailure, Key, KeyRange, Op, StoreError, TxnError, Versioned,
};
use bytes::Bytes;
use imbl::{OrdMap, Vector};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is live at one revision.
pub(super) type Live = OrdMap<Key, Versioned>;

/// What a key and its bookkeeping weigh in the history beside its value, in bytes.
const CHANGE_OVERHEAD: usize = 128;

/// One transaction of the history.
#[derive(Debug)]
pub(super) struct Commit {
    pub(super) revision: u64,
    /// When, in milliseconds since 1970; never less than the commit before.
    pub(super) time: u64,
    pub(super) changes: Arc<[Change]>,
}

impl Commit {
    /// What history holds on to for this commit, in bytes.
    pub(super) fn weight(&self) -> usize {
        self.changes
            .iter()
            .map(|change| {
                let value = change.new.as_ref().map_or(0, |new| new.value.len());
                CHANGE_OVERHEAD + change.key.encoded().len() + value
            })
            .sum()
    }
}

/// The store at its newest revision, with the way back to the floor.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) revision: u64,
    pub(super) floor: u64,
    pub(super) live: Live,
    /// One commit for each of `floor + 1 ..= revision`.
    pub(super) history: Vector<Arc<Commit>>,
    /// The weight of the history in bytes.
    pub(super) weight: usize,
}

impl State {
    /// A store as it was found on disk: live at the newest revision, history since the floor.
    pub(super) fn recovered(floor: u64, live: Live, history: Vector<Arc<Commit>>) -> Self {
        Self {
            revision: floor + history.len() as u64,
            floor,
            live,
            weight: history.iter().map(|commit| commit.weight()).sum(),
            history,
        }
    }

    /// Whether the revision can be read.
    pub(super) fn readable(&self, requested: u64) -> Result<u64, StoreError> {
        if requested < self.floor {
            return Err(StoreError::Compacted {
                requested,
                floor: self.floor,
            });
        }
        if requested > self.revision {
            return Err(StoreError::Future {
                requested,
                current: self.revision,
            });
        }
        Ok(requested)
    }

    /// The revision that a list reads.
    pub(super) fn resolve(&self, at: At) -> Result<u64, StoreError> {
        match at {
            At::Latest => Ok(self.revision),
            At::Revision(requested) => self.readable(requested),
        }
    }

    /// The commits with a revision above `after`, which is readable, in order.
    pub(super) fn since(&self, after: u64) -> impl Iterator<Item = &Arc<Commit>> {
        // Indexed, for skipping over an iterator would walk the whole history.
        let first = usize::try_from(after - self.floor).unwrap_or(usize::MAX);
        (first..self.history.len()).filter_map(|index| self.history.get(index))
    }

    /// The first guard that does not hold is the error.
    pub(super) fn check(&self, guards: &[Guard]) -> Result<(), TxnError> {
        for (index, guard) in guards.iter().enumerate() {
            match guard {
                Guard::KeyAtRevision { key, revision } => {
                    let current = self.live.get(key);
                    if current.map(|c| c.revision) != *revision {
                        return Err(TxnError::GuardFailed(GuardFailure::Key {
                            index,
                            key: key.clone(),
                            expected: *revision,
                            current: current.cloned(),
                        }));
                    }
                }
                Guard::RangeUnchangedSince { range, revision } => {
                    self.check_range(index, range, *revision, |_| true)?;
                }
                Guard::QueryUnchangedSince {
                    range,
                    revision,
                    query,
                } => self.check_range(index, range, *revision, |change| query.concerns(change))?,
            }
        }
        Ok(())
    }

    fn check_range(
        &self,
        index: usize,
        range: &KeyRange,
        since: u64,
        concerns: impl Fn(&Change) -> bool,
    ) -> Result<(), TxnError> {
        let since = self.readable(since)?;
        let changed = self
            .since(since)
            .flat_map(|commit| commit.changes.iter())
            .find(|change| range.contains(&change.key) && concerns(change));
        let Some(change) = changed else {
            return Ok(());
        };
        Err(TxnError::GuardFailed(GuardFailure::Range {
            index,
            range: range.clone(),
            since,
            key: change.key.clone(),
            revision: change.revision,
            current: self.live.get(&change.key).cloned(),
        }))
    }

    /// Applies the ops at `time`; whether anything changed shows in the changes.
    pub(super) fn apply(&mut self, ops: Vec<Op>, time: u64) -> Committed {
        let revision = self.revision + 1;
        let changes: Arc<[Change]> = self
            .outcome(ops)
            .into_iter()
            .filter_map(|(key, new)| {
                let old = self.live.get(&key).cloned();
                let new = new.map(|value| Versioned { value, revision });
                (old.is_some() || new.is_some()).then_some(Change {
                    revision,
                    key,
                    old,
                    new,
                })
            })
            .collect();
        if changes.is_empty() {
            return Committed {
                revision: self.revision,
                changes,
            };
        }
        for change in changes.iter() {
            match &change.new {
                Some(new) => self.live.insert(change.key.clone(), new.clone()),
                None => self.live.remove(&change.key),
            };
        }
        let commit = Commit {
            revision,
            time,
            changes: changes.clone(),
        };
        self.revision = revision;
        self.weight += commit.weight();
        self.history.push_back(Arc::new(commit));
        Committed { revision, changes }
    }

    /// What each key that the ops touch holds after them.
    fn outcome(&self, ops: Vec<Op>) -> BTreeMap<Key, Option<Bytes>> {
        let mut touched = BTreeMap::new();
        for op in ops {
            match op {
                Op::Put { key, value } => {
                    touched.insert(key, Some(value));
                }
                Op::Delete { key } => {
                    touched.insert(key, None);
                }
                Op::DeleteRange { range } => {
                    for (_, value) in touched.range_mut::<str, _>(range.bounds()) {
                        *value = None;
                    }
                    for (key, _) in self.live.range::<_, str>(range.bounds()) {
                        touched.insert(key.clone(), None);
                    }
                }
            }
        }
        touched
    }

    /// Makes `floor`, a readable revision, the oldest one; the commits that fall out of history.
    pub(super) fn compact(&mut self, floor: u64) -> Vec<Arc<Commit>> {
        let mut dropped = Vec::new();
        while self.floor < floor
            && let Some(commit) = self.history.pop_front()
        {
            self.floor = commit.revision;
            self.weight -= commit.weight();
            dropped.push(commit);
        }
        dropped
    }

    /// Takes `live` as of revision `from` back to revision `to`; both are readable.
    pub(super) fn rewind(&self, mut live: Live, from: u64, to: u64) -> Live {
        let undo: Vec<&Arc<Commit>> = self
            .since(to)
            .take_while(|commit| commit.revision <= from)
            .collect();
        for change in undo
            .into_iter()
            .rev()
            .flat_map(|commit| commit.changes.iter())
        {
            match &change.old {
                Some(old) => live.insert(change.key.clone(), old.clone()),
                None => live.remove(&change.key),
            };
        }
        live
    }
}

/// The entries of the range after `start_after`, as many as the limit, and how many there are in all.
pub(super) fn list(
    live: &Live,
    range: &KeyRange,
    limit: Option<usize>,
    start_after: Option<&Key>,
) -> (Vec<(Key, Versioned)>, usize) {
    let Some(bounds) = range.bounds_after(start_after) else {
        return (Vec::new(), 0);
    };
    let mut rest = live.range::<_, str>(bounds);
    let entries: Vec<(Key, Versioned)> = rest
        .by_ref()
        .take(limit.unwrap_or(usize::MAX))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let count = entries.len() + rest.count();
    (entries, count)
}
