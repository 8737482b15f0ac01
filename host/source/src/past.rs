//! What upstream still remembers of the time before a cache began.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use joinery_object::{EventType, Object};
use tokio::time::timeout;

use crate::cache::SourceCache;
use crate::upstream::{UpstreamError, UpstreamEvent};

/// Upstream tells what it remembers at once. Where nothing came for so long, there is no more: Events get no bookmarks
/// that would say so.
const QUIET: Duration = Duration::from_secs(2);
/// So long is waited for what must come.
const SLOW: Duration = Duration::from_secs(10);
/// With more changes than this it is cheaper for a client to list again.
const MOST: usize = 50_000;

impl SourceCache {
    /// The changes of the source after one position and up to another, which it has reached, from upstream's memory.
    ///
    /// # Errors
    /// [`UpstreamError::Expired`] when upstream has forgotten them, or they are too many.
    pub async fn past(
        &self,
        after: u64,
        to: u64,
    ) -> Result<Vec<(EventType, Arc<Object>)>, UpstreamError> {
        let (gvr, query) = (&self.spec().gvr, self.spec().query());
        let silent = || UpstreamError::Unreachable("upstream gave no answer".to_owned());
        let opening = self.upstream().watch(gvr, &query, after);
        let mut events = timeout(SLOW, opening).await.map_err(|_| silent())??;
        // Objects that changed in between and not since must be among the changes: where upstream is slow, they are
        // waited for.
        let expected = self.last_between(after, to);
        let mut seen = after;
        let mut changes = Vec::new();
        loop {
            let patience = if seen < expected { SLOW } else { QUIET };
            let event = match timeout(patience, events.next()).await {
                Ok(Some(event)) => event?,
                Err(_) if seen >= expected => break,
                // Too slow, or a stream that ended in the middle.
                _ => return Err(silent()),
            };
            let position = match event {
                UpstreamEvent::Bookmark(position) => position,
                UpstreamEvent::Change(kind, object) => {
                    let position = object.resource_version().position(0);
                    if position <= to {
                        changes.push((kind, object));
                    }
                    position
                }
            };
            if position >= to {
                break;
            }
            seen = position;
            if changes.len() > MOST {
                let why = format!("more than {MOST} changes since {after}");
                return Err(UpstreamError::Expired(why));
            }
        }
        Ok(changes)
    }
}
