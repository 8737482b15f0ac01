//! How far the store is known to have come: a lower bound that lies outside of the database.
//!
//! What a database's journal does not hold, it does not miss: a lost, emptied or cut one is a smaller
//! store, whole in itself. So `DURABLE` says which revision was on the disk, and how many keys were live
//! at it; a store that comes less far is damaged. It is written when the store is made, restored or
//! closed, after an opening that found more, and once a second while there are commits, beside their
//! path. What is younger than that may be a torn end.

use super::OpenError;
use super::Shared;
use super::layout::{Layout, damaged, read_text};
use super::state::State;
use sha2::{Digest, Sha256};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

const DURABLE: &str = "DURABLE";
const DURABLE_NEW: &str = "DURABLE.new";
/// Between two marks of a running store.
const EVERY: Duration = Duration::from_secs(1);

/// A revision that is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) revision: u64,
    /// How many keys are live at it.
    pub(super) live: u64,
}

impl Mark {
    pub(super) fn of(state: &State) -> Self {
        Self {
            revision: state.revision,
            live: state.live.len() as u64,
        }
    }

    /// Reads the one that each store has.
    pub(super) fn read(layout: &Layout) -> Result<Self, OpenError> {
        let text = read_text(layout.dir(), DURABLE)?
            .ok_or_else(|| damaged(layout.dir(), "its DURABLE file is missing"))?;
        let mut lines = text.lines();
        let mut number = || lines.next()?.parse().ok();
        number()
            .zip(number())
            .map(|(revision, live)| Self { revision, live })
            .filter(|mark| mark.text(layout) == text)
            .ok_or_else(|| damaged(layout.dir(), "its DURABLE file is not whole"))
    }

    pub(super) fn write(self, layout: &Layout) -> io::Result<()> {
        layout.write(DURABLE, DURABLE_NEW, &self.text(layout))
    }

    fn text(self, layout: &Layout) -> String {
        let Self { revision, live } = self;
        let sum = Sha256::new()
            .chain_update(layout.identity.as_bytes())
            .chain_update(revision.to_be_bytes())
            .chain_update(live.to_be_bytes())
            .finalize();
        let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{revision}\n{live}\n{sum}\n")
    }

    /// Whether a store that was read comes as far; if not, what is wrong.
    pub(super) fn check(self, state: &State) -> Result<(), String> {
        if state.revision < self.revision {
            return Err(format!(
                "the journal ends at revision {}, but {} was durable",
                state.revision, self.revision
            ));
        }
        // What has fallen out of the history cannot be undone, so it cannot be compared.
        if self.revision < state.floor {
            return Ok(());
        }
        let (mut live, mut created) = (state.live.len() as u64, 0);
        for change in state
            .since(self.revision)
            .flat_map(|commit| commit.changes.iter())
        {
            live += u64::from(change.new.is_none());
            created += u64::from(change.old.is_none());
        }
        let live = live.saturating_sub(created);
        if live == self.live {
            return Ok(());
        }
        Err(format!(
            "it holds {live} keys at revision {} where it should hold {}",
            self.revision, self.live
        ))
    }
}

/// Marks what is published, while it lives.
pub(super) struct Marker {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Marker {
    /// Begins; the store is marked already as it is now.
    pub(super) fn start(layout: Arc<Layout>, shared: Arc<Shared>) -> io::Result<Self> {
        let mut marked = Mark::of(&shared.state());
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("store-mark".to_owned())
            .spawn(move || {
                loop {
                    let last = stopped.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout);
                    let mark = Mark::of(&shared.state());
                    if mark != marked {
                        match mark.write(&layout) {
                            Ok(()) => marked = mark,
                            // It is a lower bound: the one of before is true as well.
                            Err(error) => {
                                tracing::warn!(%error, "cannot write how far the store has come");
                            }
                        }
                    }
                    if last {
                        return;
                    }
                }
            })?;
        Ok(Self { stop, thread })
    }

    /// Marks what there is at the end.
    pub(super) fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("what marks how far the store has come has panicked");
        }
    }
}
