//! Events that have been there for long enough.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use joinery_store::{At, Guard, Key, KeyRange, ListOptions, Op, Store, StoreError, TxnError};

use super::now;
use crate::stored::StoredResource;
use crate::stored::envelope::Envelope;

/// Objects that are read at once.
const PAGE: usize = 1000;
/// Deletes that are under way at once: the store commits them together.
const CONCURRENT: usize = 64;

/// Removes the objects whose last write is longer ago than `ttl`. Runs for as long as the host does.
pub(super) async fn run(resource: Arc<StoredResource>, ttl: Duration) {
    // An object is gone at most a sixtieth of its time too late, or a minute.
    let period = (ttl / 60).clamp(Duration::from_millis(50), Duration::from_secs(60));
    let gvr = resource.gvr();
    let Ok(range) = KeyRange::resource(&gvr.group, &gvr.resource) else {
        return;
    };
    loop {
        tokio::time::sleep(period).await;
        match sweep(&**resource.store(), &range, ttl).await {
            Ok(0) => {}
            Ok(removed) => tracing::debug!(resource = %gvr, removed, "objects have expired"),
            Err(StoreError::Closed) => return,
            Err(error) => {
                tracing::warn!(resource = %gvr, %error, "expired objects cannot be removed")
            }
        }
    }
}

/// Returns how many were removed.
async fn sweep(store: &dyn Store, range: &KeyRange, ttl: Duration) -> Result<usize, StoreError> {
    let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    let deadline = now().saturating_sub(ttl);
    let mut options = ListOptions {
        limit: Some(PAGE),
        ..ListOptions::default()
    };
    let mut removed = 0;
    loop {
        let page = store.list(range, options.clone()).await?;
        options.at = At::Revision(page.revision);
        options.start_after = page.entries.last().map(|(key, _)| key.clone());
        let more = page.more();
        let expired = page.entries.into_iter().filter(|(_, stored)| {
            Envelope::open(&stored.value).is_ok_and(|(envelope, _)| envelope.written <= deadline)
        });
        let mut deletes = futures::stream::iter(expired)
            .map(|(key, stored)| remove(store, key, stored.revision))
            .buffer_unordered(CONCURRENT);
        while let Some(outcome) = deletes.next().await {
            removed += usize::from(outcome?);
        }
        if !more {
            return Ok(removed);
        }
    }
}

/// Whether it was still at its revision.
async fn remove(store: &dyn Store, key: Key, revision: u64) -> Result<bool, StoreError> {
    let guard = Guard::KeyAtRevision {
        key: key.clone(),
        revision: Some(revision),
    };
    match store.txn(vec![Op::Delete { key }], vec![guard]).await {
        Ok(_) => Ok(true),
        Err(TxnError::GuardFailed(_)) => Ok(false),
        Err(TxnError::Store(error)) => Err(error),
    }
}
