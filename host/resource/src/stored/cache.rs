//! All objects of one stored resource in memory, and what changed lately: the watch cache.
//!
//! Reads and watches are answered from here. One task follows the store's watch and applies its changes in the order of
//! revisions; a write waits until its revision has been applied before it is answered, and a read of the latest until
//! the store's newest revision has. So both see what was written before them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use joinery_object::{Bounds, Change, Follower, History, ObjectKey, Objects, ResourceVersion};
use joinery_store::{At, Key, KeyRange, ListOptions, Store, StoreError, Versioned};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::envelope;
use super::feed;

/// How long snapshots are kept that continue tokens name, as long as a history is.
const KEEP_SNAPSHOTS: Duration = Duration::from_secs(300);
/// How many of them are kept. They share what they have in common; without one the store is asked.
const MAX_SNAPSHOTS: usize = 64;
/// Between two notices to watchers that nothing of this resource changed: for bookmarks, which are rarer.
const NOTICE_PERIOD: Duration = Duration::from_secs(1);

/// The objects at one revision.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    /// All of them.
    pub(super) objects: Objects,
    /// The store's revision.
    pub(super) revision: u64,
}

/// Why there is no snapshot.
#[derive(Debug)]
pub(super) enum ReadError {
    /// The revision lies in the future, also after a short wait.
    Future {
        /// The newest revision.
        current: u64,
    },
    /// The store does not remember that far back.
    Compacted,
    /// The cache trails the store, or the store fails.
    Unavailable(String),
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Compacted { .. } => Self::Compacted,
            StoreError::Future { current, .. } => Self::Future { current },
            other => Self::Unavailable(other.to_string()),
        }
    }
}

/// The watch cache of one resource.
pub(super) struct Cache {
    pub(super) shared: Arc<Shared>,
    feeder: JoinHandle<()>,
}

/// What readers and the feeding task share.
pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    pub(super) range: KeyRange,
    /// Held while objects and history change together.
    pub(super) state: Mutex<State>,
    pub(super) history: Arc<History>,
    revision: watch::Sender<u64>,
}

pub(super) struct State {
    pub(super) objects: Objects,
    /// All changes up to here have been applied.
    pub(super) revision: u64,
    /// The last of them that was one of this resource.
    changed: u64,
    /// What continue tokens name.
    snapshots: BTreeMap<u64, (Objects, Instant)>,
    noticed: Instant,
}

impl Cache {
    /// Reads all objects and follows the store from there.
    pub(super) async fn open(store: Arc<dyn Store>, range: KeyRange) -> Result<Self, StoreError> {
        let page = store.list(&range, ListOptions::default()).await?;
        let objects = parse(&Objects::new(), &page.entries);
        let version = ResourceVersion::single(page.revision);
        let shared = Arc::new(Shared {
            store,
            range,
            state: Mutex::new(State {
                objects,
                revision: page.revision,
                changed: page.revision,
                snapshots: BTreeMap::new(),
                noticed: Instant::now(),
            }),
            history: Arc::new(History::new(version, Bounds::default())),
            revision: watch::channel(page.revision).0,
        });
        let feeder = tokio::spawn(feed::run(shared.clone(), page.revision));
        Ok(Self { shared, feeder })
    }

    /// What is known now, which may be older than the store.
    pub(super) fn current(&self) -> Snapshot {
        let state = self.shared.state.lock();
        Snapshot {
            objects: state.objects.clone(),
            revision: state.revision,
        }
    }

    /// What is known now and a follower for all that comes after it.
    pub(super) fn current_and_follower(&self) -> (Snapshot, Follower) {
        let state = self.shared.state.lock();
        let snapshot = Snapshot {
            objects: state.objects.clone(),
            revision: state.revision,
        };
        (snapshot, self.shared.history.follow())
    }

    /// Waits until what was written before this call is here.
    pub(super) async fn catch_up(&self) -> Result<(), ReadError> {
        /// The feeding task is a moment behind; longer means that something is wrong.
        const PATIENCE: Duration = Duration::from_secs(10);
        let newest = self.shared.store.revision().await?;
        if self.reached(newest, PATIENCE).await {
            return Ok(());
        }
        let message = format!("the watch cache has not reached revision {newest} of the store");
        Err(ReadError::Unavailable(message))
    }

    /// Waits until this revision is here.
    ///
    /// Returns whether it came within `patience`.
    pub(super) async fn reached(&self, revision: u64, patience: Duration) -> bool {
        let mut wake = self.shared.revision.subscribe();
        let reached = wake.wait_for(|current| *current >= revision);
        matches!(tokio::time::timeout(patience, reached).await, Ok(Ok(_)))
    }

    /// Waits for a revision that a client names, but not long.
    pub(super) async fn not_older_than(&self, revision: u64) -> Result<(), ReadError> {
        /// As kube-apiserver's watch cache (blockTimeout).
        const PATIENCE: Duration = Duration::from_secs(3);
        if self.reached(revision, PATIENCE).await {
            return Ok(());
        }
        Err(ReadError::Future {
            current: *self.shared.revision.borrow(),
        })
    }

    /// The objects as they were at just this revision.
    pub(super) async fn at(&self, revision: u64) -> Result<Snapshot, ReadError> {
        self.not_older_than(revision).await?;
        let current = {
            let state = self.shared.state.lock();
            if state.changed <= revision {
                let objects = state.objects.clone();
                return Ok(Snapshot { objects, revision });
            }
            if let Some((objects, _)) = state.snapshots.get(&revision) {
                let objects = objects.clone();
                return Ok(Snapshot { objects, revision });
            }
            state.objects.clone()
        };
        let options = ListOptions {
            at: At::Revision(revision),
            ..ListOptions::default()
        };
        let page = self.shared.store.list(&self.shared.range, options).await?;
        let objects = parse(&current, &page.entries);
        Ok(Snapshot { objects, revision })
    }

    /// Remembers a snapshot for the next page of a list.
    pub(super) fn keep(&self, snapshot: Snapshot) {
        let now = Instant::now();
        let mut state = self.shared.state.lock();
        state
            .snapshots
            .retain(|_, (_, kept)| now.duration_since(*kept) < KEEP_SNAPSHOTS);
        while state.snapshots.len() >= MAX_SNAPSHOTS {
            state.snapshots.pop_first();
        }
        state
            .snapshots
            .insert(snapshot.revision, (snapshot.objects, now));
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.feeder.abort();
        // Who watches would wait for ever: the resource may come again with another cache.
        self.shared.history.end();
    }
}

impl Shared {
    /// Applies all changes up to this revision.
    pub(super) fn apply(&self, changes: Vec<Arc<Change>>, revision: u64) {
        let mut state = self.state.lock();
        for change in &changes {
            let Some(key) = change.key() else { continue };
            match change.new_object() {
                Some(new) => state.objects.insert(key.clone(), new.clone()),
                None => state.objects.remove(key),
            };
            state.changed = change.position().position(0);
        }
        state.revision = revision;
        if !changes.is_empty() || state.noticed.elapsed() >= NOTICE_PERIOD {
            state.noticed = Instant::now();
            self.history
                .append(changes, ResourceVersion::single(revision));
        }
        drop(state);
        self.revision.send_replace(revision);
    }

    /// What the cache holds for a key of the store.
    pub(super) fn cached(&self, key: &Key) -> Option<Arc<joinery_object::Object>> {
        self.state.lock().objects.get(&object_key(key)).cloned()
    }
}

/// The place in its resource that a key of the store stands for.
pub(super) fn object_key(key: &Key) -> ObjectKey {
    let namespace = Some(key.namespace()).filter(|namespace| !namespace.is_empty());
    ObjectKey::new(namespace, key.name())
}

/// Objects of the store; those that are known at the same revision are not read again.
fn parse(known: &Objects, entries: &[(Key, Versioned)]) -> Objects {
    entries
        .iter()
        .filter_map(|(key, stored)| {
            let object_key = object_key(key);
            let object = known
                .get(&object_key)
                .filter(|object| object.resource_version().position(0) == stored.revision)
                .cloned()
                .or_else(|| read(key, stored))?;
            Some((object_key, object))
        })
        .collect()
}

/// Reads a stored object; one that cannot be read is left out, and said to be so.
pub(super) fn read(key: &Key, stored: &Versioned) -> Option<Arc<joinery_object::Object>> {
    match envelope::object(stored) {
        Ok(object) => Some(Arc::new(object)),
        Err(error) => {
            tracing::error!(%key, revision = stored.revision, %error, "a stored object cannot be read");
            None
        }
    }
}
