//! The engine that needs nothing but a folder.
//!
//! All that is live and the history are in memory, in persistent maps, and on disk, in fjall. A
//! read takes the published state and never waits for a write; the [`writer`] thread makes the
//! next one. So the store's size is bound by memory: values and keys of what is live, plus the
//! history within [`Options`].

mod backup;
mod check;
mod layout;
mod log;
mod mark;
mod quiet;
mod restore;
mod socket;
mod state;
mod watch;
mod write_error;
mod writer;

pub use backup::{Backup, BackupError, verify};
pub use check::{Report, check, read_backup};
pub use restore::{RestoreError, Restored, restore};
pub use socket::{BackupServer, OnlineError, online_backup};

use crate::{
    Committed, Guard, Key, KeyRange, ListOptions, Op, Page, Store, StoreError, TxnError, Versioned,
    WatchStream,
};
use async_trait::async_trait;
use layout::Layout;
use log::Log;
use mark::Marker;
use parking_lot::{Mutex, RwLock};
use state::{Live, State};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use writer::{Command, Failure, Writer};

/// How many older revisions are kept ready for the next pages of a list.
const KEPT_SNAPSHOTS: usize = 16;

/// How an embedded store behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Whether a transaction is on the disk before it is answered (default). Without it a killed
    /// process loses nothing, but a power cut may lose, or damage, the end.
    pub fsync: bool,
    /// How many transactions the history holds (default 100,000). Each of the three bounds may
    /// be exceeded by a tenth.
    pub history_count: usize,
    /// How old the history becomes (default 10 minutes).
    pub history_age: Duration,
    /// How many bytes the history holds, keys and values (default 128 MiB).
    pub history_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            fsync: true,
            history_count: 100_000,
            history_age: Duration::from_secs(600),
            history_bytes: 128 << 20,
        }
    }
}

/// Why a folder cannot be opened as a store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("the store in {} is in use by another process ({process})", dir.display())]
    InUse {
        /// The store's folder.
        dir: PathBuf,
        /// The id of that process, or `unknown`.
        process: String,
    },
    /// There is no store to read.
    #[error("there is no store in {}: {detail}", dir.display())]
    Missing {
        /// The folder.
        dir: PathBuf,
        /// What is there instead.
        detail: &'static str,
    },
    /// The folder holds something else.
    #[error("{} is no store: it has no FORMAT file but holds {found}; give an empty or a new folder", dir.display())]
    NotAStore {
        /// The folder.
        dir: PathBuf,
        /// A name in it that does not belong to a store.
        found: String,
    },
    /// It was written by a version of Joinery with another format.
    #[error("the store in {} has format {found}; this version of Joinery reads format {supported}", dir.display())]
    Format {
        /// The store's folder.
        dir: PathBuf,
        /// The format that was found.
        found: String,
        /// The one format that can be read.
        supported: u32,
    },
    /// Files were changed, cut or lost.
    #[error("the store in {} is damaged: {detail}; move it away and restore a backup (joinery store restore), or begin anew without its objects", dir.display())]
    Damaged {
        /// The folder with the damaged files.
        dir: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// The operating system refused.
    #[error("cannot open the store in {}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What it said.
        #[source]
        source: std::io::Error,
    },
}

/// What readers and the writer share.
struct Shared {
    state: RwLock<Arc<State>>,
    /// What was live at older revisions that lists have read.
    snapshots: Mutex<BTreeMap<u64, Live>>,
    published: tokio::sync::watch::Receiver<u64>,
    /// Why nothing can be written, while nothing can.
    failure: RwLock<Option<Failure>>,
}

impl Shared {
    fn state(&self) -> Arc<State> {
        self.state.read().clone()
    }

    fn publish(&self, state: State) {
        let floor = state.floor;
        *self.state.write() = Arc::new(state);
        self.snapshots
            .lock()
            .retain(|revision, _| *revision >= floor);
    }

    /// What was live at a readable revision.
    fn live_at(&self, state: &State, revision: u64) -> Live {
        if revision == state.revision {
            return state.live.clone();
        }
        let nearest = self
            .snapshots
            .lock()
            .range(revision..state.revision)
            .next()
            .map(|(at, live)| (*at, live.clone()));
        let (from, live) = nearest.unwrap_or_else(|| (state.revision, state.live.clone()));
        state.rewind(live, from, revision)
    }

    /// Keeps a snapshot for the next page.
    fn keep(&self, revision: u64, live: Live) {
        let mut snapshots = self.snapshots.lock();
        snapshots.insert(revision, live);
        while snapshots.len() > KEPT_SNAPSHOTS {
            snapshots.pop_first();
        }
    }
}

/// A store in a folder of this machine, for one process.
///
/// Dropping it closes it: what was acknowledged is on disk, watches end, the folder is released.
pub struct Embedded {
    dir: PathBuf,
    shared: Arc<Shared>,
    /// None once the store is being closed.
    commands: Option<mpsc::Sender<Command>>,
    writer: Option<JoinHandle<()>>,
    /// Removed after the writer has ended.
    _temporary: Option<tempfile::TempDir>,
}

impl Embedded {
    /// Opens the store in `dir`, which is created if it is missing. Blocks while everything is
    /// read.
    ///
    /// # Errors
    /// [`OpenError`]: in use, no store, another format, damaged, or not accessible.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        let io = |source| OpenError::Io {
            path: dir.as_ref().to_owned(),
            source,
        };
        let mut layout = Layout::open(dir.as_ref())?;
        let (log, state) = Log::open(&layout, options.fsync)?;
        layout.is_new = false;
        let layout = Arc::new(layout);
        let (commands, queue) = mpsc::channel();
        let (published, receiver) = tokio::sync::watch::channel(state.revision);
        let shared = Arc::new(Shared {
            state: RwLock::new(Arc::new(state.clone())),
            snapshots: Mutex::default(),
            published: receiver,
            failure: RwLock::default(),
        });
        // Without fsync nothing is known to be on the disk.
        let marker = if options.fsync {
            Some(Marker::start(layout.clone(), shared.clone()).map_err(io)?)
        } else {
            None
        };
        let writer = Writer {
            commands: queue,
            layout: layout.clone(),
            log: Some(log),
            state,
            shared: shared.clone(),
            published,
            options,
            tried: Instant::now(),
        };
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || {
                writer.run();
                if let Some(marker) = marker {
                    marker.stop();
                }
                // The folder is released after the database is closed.
                drop(layout);
            })
            .map_err(io)?;
        Ok(Self {
            dir: dir.as_ref().to_owned(),
            shared,
            commands: Some(commands),
            writer: Some(thread),
            _temporary: None,
        })
    }

    /// A new store, without fsync, in a temporary folder that is removed with it: for tests.
    ///
    /// # Errors
    /// As for [`Embedded::open`].
    pub fn temporary() -> Result<Self, OpenError> {
        let dir = tempfile::Builder::new()
            .prefix("joinery-store-")
            .tempdir()
            .map_err(|source| OpenError::Io {
                path: std::env::temp_dir(),
                source,
            })?;
        let options = Options {
            fsync: false,
            ..Options::default()
        };
        let mut store = Self::open(dir.path(), options)?;
        store._temporary = Some(dir);
        Ok(store)
    }

    /// Whether the store takes writes.
    ///
    /// # Errors
    /// [`StoreError::Storage`] while it does not.
    pub fn writable(&self) -> Result<(), StoreError> {
        match &*self.shared.failure.read() {
            Some(failure) => Err(failure.error.clone()),
            None => Ok(()),
        }
    }

    /// Whether the store takes writes, or will by itself once the disk has room.
    ///
    /// # Errors
    /// [`StoreError::Storage`] when it must be opened anew.
    pub fn recoverable(&self) -> Result<(), StoreError> {
        match &*self.shared.failure.read() {
            Some(failure) if !failure.passing => Err(failure.error.clone()),
            _ => Ok(()),
        }
    }

    /// Sends a command to the writer and waits for the outcome.
    async fn ask<T, E: From<StoreError>>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, E>>) -> Command,
    ) -> Result<T, E> {
        let (reply, outcome) = oneshot::channel();
        self.commands
            .as_ref()
            .and_then(|commands| commands.send(command(reply)).ok())
            .ok_or(StoreError::Closed)?;
        outcome
            .await
            .unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the store's writer has panicked");
        }
    }
}

#[async_trait]
impl Store for Embedded {
    async fn revision(&self) -> Result<u64, StoreError> {
        Ok(self.shared.state().revision)
    }

    async fn get(&self, key: &Key) -> Result<Option<Versioned>, StoreError> {
        Ok(self.shared.state().live.get(key).cloned())
    }

    async fn list(&self, range: &KeyRange, options: ListOptions) -> Result<Page, StoreError> {
        let state = self.shared.state();
        let revision = state.resolve(options.at)?;
        let live = self.shared.live_at(&state, revision);
        let (entries, count) =
            state::list(&live, range, options.limit, options.start_after.as_ref());
        if count > entries.len() {
            self.shared.keep(revision, live);
        }
        Ok(Page {
            revision,
            entries,
            count,
        })
    }

    async fn txn(&self, ops: Vec<Op>, guards: Vec<Guard>) -> Result<Committed, TxnError> {
        self.ask(|reply| Command::Txn { ops, guards, reply }).await
    }

    async fn watch(&self, range: KeyRange, after: u64) -> Result<WatchStream, StoreError> {
        let after = self.shared.state().readable(after)?;
        Ok(watch::stream(self.shared.clone(), range, after))
    }

    async fn compact(&self, revision: u64) -> Result<(), StoreError> {
        self.ask(|reply| Command::Compact { revision, reply }).await
    }
}
