//! Follows the store's watch and applies what it tells to a watch cache.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use joinery_object::{Change, ResourceVersion};
use joinery_store::{ListOptions, StoreError, WatchEvent};

use super::cache::{Shared, object_key, read};

/// So many changes are applied in one step at most.
const BATCH: usize = 1024;
/// Before the store is asked again after it failed.
const RETRY: Duration = Duration::from_secs(1);

/// Runs until the store is closed.
pub(super) async fn run(shared: Arc<Shared>, mut after: u64) {
    loop {
        let error = match follow(&shared, &mut after).await {
            Ok(()) => return,
            Err(error) => error,
        };
        match error {
            StoreError::Closed => return,
            StoreError::Compacted { .. } | StoreError::Future { .. } => {
                tracing::warn!(range = %shared.range, %error, "the watch cache lists anew");
            }
            StoreError::Storage(_) => {
                tracing::error!(range = %shared.range, %error, "the watch cache cannot follow the store");
                tokio::time::sleep(RETRY).await;
            }
        }
        match relist(&shared).await {
            Ok(revision) => after = revision,
            Err(StoreError::Closed) => return,
            Err(error) => {
                tracing::error!(range = %shared.range, %error, "the watch cache cannot list");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// Applies changes as they come. The changes of one revision are applied in one step, so that no list shows a part of a
/// transaction.
async fn follow(shared: &Shared, after: &mut u64) -> Result<(), StoreError> {
    let watch = shared.store.watch(shared.range.clone(), *after).await?;
    let mut chunks = watch.ready_chunks(BATCH);
    let mut pending: Vec<joinery_store::Change> = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let mut complete = *after;
        for event in chunk {
            match event? {
                WatchEvent::Change(change) => {
                    complete = complete.max(change.revision.saturating_sub(1));
                    pending.push(change);
                }
                WatchEvent::Progress { revision } => complete = complete.max(revision),
            }
        }
        if complete > *after {
            let end = pending.partition_point(|change| change.revision <= complete);
            let changes = pending
                .drain(..end)
                .filter_map(|change| read_change(shared, &change))
                .collect();
            shared.apply(changes, complete);
            *after = complete;
        }
    }
    Ok(())
}

/// What the store says changed, as objects; none if neither side is one.
pub(super) fn read_change(shared: &Shared, change: &joinery_store::Change) -> Option<Arc<Change>> {
    let old = change.old.as_ref().and_then(|old| {
        shared
            .cached(&change.key)
            .filter(|cached| cached.resource_version().position(0) == old.revision)
            .or_else(|| read(&change.key, old))
    });
    let new = change.new.as_ref().and_then(|new| read(&change.key, new));
    if old.is_none() && new.is_none() {
        return None;
    }
    Some(Arc::new(Change::new(
        ResourceVersion::single(change.revision),
        &[change.revision],
        old,
        new,
    )))
}

/// Compares the store with what is known and applies the difference, so that watchers go on without a gap.
async fn relist(shared: &Shared) -> Result<u64, StoreError> {
    let page = shared
        .store
        .list(&shared.range, ListOptions::default())
        .await?;
    let known = shared.state.lock().objects.clone();
    let mut gone: BTreeSet<_> = known.keys().cloned().collect();
    let mut changes = Vec::new();
    for (key, stored) in &page.entries {
        let object_key = object_key(key);
        gone.remove(&object_key);
        let old = known.get(&object_key);
        if old.is_some_and(|old| old.resource_version().position(0) == stored.revision) {
            continue;
        }
        if let Some(new) = read(key, stored) {
            changes.push((stored.revision, old.cloned(), Some(new)));
        }
    }
    for key in gone {
        changes.push((page.revision, known.get(&key).cloned(), None));
    }
    changes.sort_by_key(|(revision, ..)| *revision);
    let changes = changes
        .into_iter()
        .map(|(revision, old, new)| {
            let version = ResourceVersion::single(revision);
            Arc::new(Change::new(version, &[revision], old, new))
        })
        .collect();
    shared.apply(changes, page.revision);
    Ok(page.revision)
}
