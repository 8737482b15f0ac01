//! Changes that the watch cache has forgotten, or never knew because it is younger, but the store still has.
//!
//! So a client that watches through a restart misses nothing and need not list again.

use std::sync::Arc;

use futures::StreamExt;
use joinery_object::{Change, Follower, ResourceVersion, TooOld};
use joinery_store::{StoreError, WatchEvent};

use super::cache::{Cache, ReadError, Shared};
use super::feed::read_change;

/// Changes, and what follows them.
pub(super) type Since = (Vec<Arc<Change>>, Follower, ResourceVersion);

/// What a watcher who has seen `version` lacks, a follower for what comes after, and the version reached with both.
///
/// # Errors
/// When the store has forgotten it too.
pub(super) async fn since(cache: &Cache, version: &ResourceVersion) -> Result<Since, ReadError> {
    /// The history may lose changes while older ones are fetched.
    const TRIES: usize = 5;
    let shared = &cache.shared;
    for _ in 0..TRIES {
        let too_old = match missed(shared, version) {
            Ok(since) => return Ok(since),
            Err(too_old) => too_old,
        };
        let older = fetch(shared, version.position(0), too_old.floor.position(0)).await?;
        if let Some(since) = put_in_front(shared, version, older, &too_old.floor) {
            return Ok(since);
        }
    }
    Err(ReadError::Compacted)
}

/// Adds changes to the history, if it still begins where they end.
fn put_in_front(
    shared: &Shared,
    version: &ResourceVersion,
    older: Vec<Arc<Change>>,
    floor: &ResourceVersion,
) -> Option<Since> {
    // While this is held nothing is appended, so what is put in front is not dropped at once.
    let _state = shared.state.lock();
    if shared.history.floor() != *floor {
        return None;
    }
    shared.history.prepend(older, version.clone());
    missed(shared, version).ok()
}

fn missed(shared: &Shared, version: &ResourceVersion) -> Result<Since, TooOld> {
    let (changes, follower) = shared.history.since(version)?;
    let reached = changes
        .last()
        .map_or_else(|| version.clone(), |last| last.position().clone());
    Ok((changes, follower, reached))
}

/// The changes of the store after `after`, up to `to`, which it has reached.
async fn fetch(shared: &Shared, after: u64, to: u64) -> Result<Vec<Arc<Change>>, StoreError> {
    let mut watch = shared.store.watch(shared.range.clone(), after).await?;
    let mut changes = Vec::new();
    while let Some(event) = watch.next().await {
        match event? {
            WatchEvent::Change(change) if change.revision <= to => {
                changes.extend(read_change(shared, &change));
            }
            WatchEvent::Progress { revision } if revision < to => {}
            WatchEvent::Change(_) | WatchEvent::Progress { .. } => return Ok(changes),
        }
    }
    Err(StoreError::Closed)
}
