//! Watches: each reader walks the shared history at its own pace.
//!
//! There is no queue for a slow reader to fill: what it has not read is in the history, and when
//! compaction overtakes it, it is told so.

use super::Shared;
use super::state::Commit;
use crate::{KeyRange, StoreError, WatchEvent, WatchStream};
use futures::StreamExt;
use std::sync::Arc;
use tokio::sync::watch;

/// Where one watch stands.
struct Reader {
    shared: Arc<Shared>,
    published: watch::Receiver<u64>,
    range: KeyRange,
    /// The revision up to which commits were taken from the history.
    taken: u64,
    /// The commit being yielded and the position of its next change.
    current: Option<(Arc<Commit>, usize)>,
    /// The last revision of which progress was told.
    announced: Option<u64>,
    /// Set after an error: it is the last item.
    ended: bool,
}

/// The stream of all changes after the revision, which is readable.
pub(super) fn stream(shared: Arc<Shared>, range: KeyRange, after: u64) -> WatchStream {
    let reader = Reader {
        published: shared.published.clone(),
        shared,
        range,
        taken: after,
        current: None,
        announced: None,
        ended: false,
    };
    futures::stream::unfold(reader, |mut reader| async {
        let item = reader.next().await?;
        Some((item, reader))
    })
    .boxed()
}

impl Reader {
    async fn next(&mut self) -> Option<Result<WatchEvent, StoreError>> {
        if self.ended {
            return None;
        }
        loop {
            if let Some(event) = self.rest_of_current() {
                return Some(Ok(event));
            }
            // Before the state is read: what is published after that wakes the reader again.
            self.published.mark_unchanged();
            let state = self.shared.state();
            if let Err(error) = state.readable(self.taken) {
                self.ended = true;
                return Some(Err(error));
            }
            let next = state.since(self.taken).find(|commit| {
                commit
                    .changes
                    .iter()
                    .any(|change| self.range.contains(&change.key))
            });
            if let Some(commit) = next {
                self.taken = commit.revision;
                self.current = Some((commit.clone(), 0));
                continue;
            }
            self.taken = state.revision;
            if self.announced != Some(self.taken) {
                self.announced = Some(self.taken);
                return Some(Ok(WatchEvent::Progress {
                    revision: self.taken,
                }));
            }
            drop(state);
            // Fails when the writer is gone: the store was closed, and all is read.
            self.published.changed().await.ok()?;
        }
    }

    fn rest_of_current(&mut self) -> Option<WatchEvent> {
        let (commit, position) = self.current.as_mut()?;
        while let Some(change) = commit.changes.get(*position) {
            *position += 1;
            if self.range.contains(&change.key) {
                return Some(WatchEvent::Change(change.clone()));
            }
        }
        self.current = None;
        None
    }
}
