//! What upstream still remembers of the time before a cache began.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use joinery_object::{EventType, Object, ObjectKey};
use tokio::time::{Instant, timeout};

use crate::cache::SourceCache;
use crate::feed::{ANSWER, within};
use crate::upstream::{UpstreamError, UpstreamEvent};

/// Upstream tells what it remembers at once. Where nothing came for so long, and nothing is known to be missing, there is
/// no more: Events get no bookmarks that would say so.
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
        let opening = within(ANSWER, self.upstream().watch(gvr, &query, after));
        let asked = Instant::now();
        let before = self.upstream().keys_at(gvr, &query, after);
        let (mut events, before) = futures::future::try_join(opening, before).await?;
        // One that takes long to list takes long to tell.
        let quiet = QUIET.max(asked.elapsed()).min(SLOW);
        let mut expected = Expected::new(self, &before, after).ok_or_else(silent)?;
        let mut changes = Vec::new();
        loop {
            let complete = expected.is_empty();
            let patience = if complete { quiet } else { SLOW };
            let event = match timeout(patience, events.next()).await {
                Ok(Some(event)) => event?,
                Err(_) if complete => break,
                // Too slow, or a stream that ended in the middle.
                _ => return Err(silent()),
            };
            let position = match event {
                UpstreamEvent::Bookmark(position) => position,
                UpstreamEvent::Change(kind, object) => {
                    let position = object.resource_version().position(0);
                    if position <= to {
                        expected.came(kind, object.key(), position);
                        changes.push((kind, object));
                    }
                    position
                }
            };
            if position >= to {
                break;
            }
            if changes.len() > MOST {
                let why = format!("more than {MOST} changes since {after}");
                return Err(UpstreamError::Expired(why));
            }
        }
        Ok(changes)
    }
}

/// What upstream must still tell, unless it tells of something later: silence means nothing before that.
struct Expected {
    seen: u64,
    /// Of what is there now. It may have changed before too, and that is told earlier.
    last_changed: u64,
    /// They were there, and are gone.
    gone: HashSet<ObjectKey>,
}

impl Expected {
    /// From the keys that there were `before`. None while the source holds nothing to compare them with.
    fn new(source: &SourceCache, before: &[ObjectKey], after: u64) -> Option<Self> {
        let now = source.objects()?;
        let changed = now
            .values()
            .map(|object| object.resource_version().position(0))
            .filter(|position| *position > after);
        let gone = before.iter().filter(|key| !now.contains_key(*key));
        Some(Self {
            seen: after,
            last_changed: changed.max().unwrap_or(after),
            gone: gone.cloned().collect(),
        })
    }

    fn came(&mut self, kind: EventType, key: &ObjectKey, position: u64) {
        self.seen = position;
        if kind == EventType::Deleted {
            self.gone.remove(key);
        }
    }

    fn is_empty(&self) -> bool {
        self.seen >= self.last_changed && self.gone.is_empty()
    }
}
