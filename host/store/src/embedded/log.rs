//! The store on disk: versions of keys and the commits that made them, in fjall.
//!
//! One keyspace holds it all, for a journal is kept until every keyspace has written out what it
//! has of it, and a small one beside a large one takes long to. By their first byte:
//!
//! - `v`, key, NUL, revision (8 bytes, big-endian), kind (0 deleted, 1 put) → value.
//!   A key's versions lie together, oldest first.
//! - `c`, identity (16 bytes), first revision, last revision, time (8 bytes each, big-endian) →
//!   nothing: one record for each batch of transactions.
//! - `f` → the floor (8 bytes, big-endian).
//!
//! Everything is read once, when the store is opened: the rest of the engine lives in memory.
//!
//! fjall ends its replay of a journal at the first entry that it cannot read, which is right for
//! the torn end that a power cut leaves and wrong for damage in the middle: what follows would be
//! dropped in silence. A batch is written after the one before is durable, so only the last one
//! may be torn. Commit records of later batches in the journal's raw bytes therefore prove damage.

use super::OpenError;
use super::layout::{Layout, damaged};
use super::mark::Mark;
use super::state::{Commit, Live, State};
use super::write_error::WriteError;
use crate::{Change, FIRST_REVISION, Key, Versioned};
use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

const VERSION: u8 = b'v';
const BATCH: u8 = b'c';
const FLOOR: [u8; 1] = [b'f'];
const DELETED: u8 = 0;
const PUT: u8 = 1;
/// The length of what follows the key in a version: NUL, revision, kind.
const SUFFIX: usize = 1 + 8 + 1;
/// How large the memory table grows before it is written out: it bounds how much
/// of the journal is replayed when the store is opened.
const MEMTABLE_BYTES: u64 = 16 << 20;
/// fjall's cache of blocks. Blocks are read at opening only.
const CACHE_BYTES: u64 = 4 << 20;

/// The record of one batch of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BatchRecord {
    first: u64,
    last: u64,
    /// Milliseconds since 1970.
    time: u64,
}

impl BatchRecord {
    fn encode(self, identity: &[u8; 16]) -> Vec<u8> {
        let mut key = batch_prefix(identity);
        for number in [self.first, self.last, self.time] {
            key.extend_from_slice(&number.to_be_bytes());
        }
        key
    }

    /// Decodes what follows the identity; none if it is too short.
    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            first: number(bytes.get(..8)?)?,
            last: number(bytes.get(8..16)?)?,
            time: number(bytes.get(16..24)?)?,
        })
    }
}

/// What the keys of batch records begin with.
fn batch_prefix(identity: &[u8; 16]) -> Vec<u8> {
    let mut prefix = vec![BATCH];
    prefix.extend_from_slice(identity);
    prefix
}

fn number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

/// The open database. Dropping it closes it.
pub(super) struct Log {
    entries: Keyspace,
    database: Database,
    identity: [u8; 16],
    durability: PersistMode,
    batches: VecDeque<BatchRecord>,
}

impl Log {
    /// Opens or creates the database and reads all of it.
    pub(super) fn open(layout: &Layout, fsync: bool) -> Result<(Self, State), OpenError> {
        if layout.is_new {
            let (log, state) = Self::replay(layout, &layout.database(), fsync, 0)?;
            layout.finish_creation(Mark::of(&state))?;
            return Ok((log, state));
        }
        let mark = Mark::read(layout)?;
        let end = journal_end(layout)?;
        if end > 0 {
            layout.begin_replay(end)?;
        }
        let (log, state) = Self::replay(layout, &layout.database(), fsync, end)?;
        mark.check(&state)
            .map_err(|detail| damaged(layout.dir(), &detail))?;
        layout.end_replay()?;
        if fsync && mark != Mark::of(&state) {
            log.sync(layout)?;
            Mark::of(&state).write(layout).unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot write how far the store has come");
            });
        }
        Ok((log, state))
    }

    /// Reads all of a store that nobody has open, and leaves its files as they are.
    pub(super) fn read(layout: &Layout) -> Result<State, OpenError> {
        let mark = Mark::read(layout)?;
        let end = journal_end(layout)?;
        let copy = layout.copy_database()?;
        let (_, state) = Self::replay(layout, copy.path(), false, end)?;
        mark.check(&state)
            .map_err(|detail| damaged(layout.dir(), &detail))?;
        Ok(state)
    }

    /// Creates the database with a history that begins, and at first ends, at this revision.
    pub(super) fn create(layout: &Layout, floor: u64, fsync: bool) -> Result<Self, OpenError> {
        let create = || {
            let log = Self::open_database(&layout.database(), *layout.identity.as_bytes(), fsync)?;
            let mut batch = log.database.batch().durability(Some(log.durability));
            batch.insert(&log.entries, FLOOR, floor.to_be_bytes());
            batch.commit()?;
            Ok(log)
        };
        create().map_err(|fault: Fault| fault.at(layout.dir()))
    }

    /// Reads the database in `dir`, whose journals go on to `journal_end` at least.
    fn replay(
        layout: &Layout,
        dir: &Path,
        fsync: bool,
        journal_end: u64,
    ) -> Result<(Self, State), OpenError> {
        let identity = *layout.identity.as_bytes();
        // A damaged file makes fjall panic in places.
        let (log, state) = super::quiet::catch(|| {
            let mut log = Self::open_database(dir, identity, fsync)?;
            let state = log.load()?;
            Ok((log, state))
        })
        .unwrap_or_else(|| Err(Fault::Damaged("reading it failed with a panic".to_owned())))
        .map_err(|fault| fault.at(layout.dir()))?;
        if journal_end > state.revision + 1 {
            let detail = format!(
                "the journal cannot be read past revision {} but goes on to {journal_end} at least",
                state.revision
            );
            return Err(damaged(layout.dir(), &detail));
        }
        Ok((log, state))
    }

    fn open_database(dir: &Path, identity: [u8; 16], fsync: bool) -> Result<Self, Fault> {
        let database = Database::builder(dir).cache_size(CACHE_BYTES).open()?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
        Ok(Self {
            entries: database.keyspace("entries", options)?,
            database,
            identity,
            durability: if fsync {
                PersistMode::SyncData
            } else {
                PersistMode::Buffer
            },
            batches: VecDeque::new(),
        })
    }

    /// Writes commits, and what compaction up to the new floor drops, in one durable step.
    pub(super) fn write(
        &mut self,
        commits: &[Arc<Commit>],
        compaction: Option<(u64, &[Arc<Commit>])>,
    ) -> Result<(), WriteError> {
        let mut batch = self.database.batch().durability(Some(self.durability));
        for commit in commits {
            for change in commit.changes.iter() {
                let (kind, value) = match &change.new {
                    Some(new) => (PUT, &*new.value),
                    None => (DELETED, &[][..]),
                };
                batch.insert(
                    &self.entries,
                    version_key(&change.key, commit.revision, kind),
                    value,
                );
            }
        }
        if let (Some(first), Some(last)) = (commits.first(), commits.last()) {
            let record = BatchRecord {
                first: first.revision,
                last: last.revision,
                time: last.time,
            };
            batch.insert(&self.entries, record.encode(&self.identity), &[][..]);
            self.batches.push_back(record);
        }
        if let Some((floor, dropped)) = compaction {
            for change in dropped.iter().flat_map(|commit| commit.changes.iter()) {
                if let Some(old) = &change.old {
                    batch.remove(&self.entries, version_key(&change.key, old.revision, PUT));
                }
                if change.new.is_none() {
                    batch.remove(
                        &self.entries,
                        version_key(&change.key, change.revision, DELETED),
                    );
                }
            }
            while let Some(record) = self.batches.pop_front_if(|record| record.last <= floor) {
                batch.remove(&self.entries, record.encode(&self.identity));
            }
            batch.insert(&self.entries, FLOOR, floor.to_be_bytes());
        }
        batch.commit().map_err(WriteError::new)
    }

    /// What was replayed may have been on its way to the disk only: it is shown from now on.
    fn sync(&self, layout: &Layout) -> Result<(), OpenError> {
        let synced = self.database.persist(PersistMode::SyncAll);
        synced.map_err(|error| Fault::from(error).at(layout.dir()))
    }

    fn load(&mut self) -> Result<State, Fault> {
        let floor = match self.entries.get(FLOOR)? {
            Some(bytes) => {
                number(&bytes).ok_or_else(|| Fault::damaged("the floor is no number"))?
            }
            None => FIRST_REVISION,
        };
        self.batches = self.load_batches(floor)?;
        let revision = self.batches.back().map_or(floor, |last| last.last);
        let (live, mut changes) = self.load_versions(floor, revision)?;
        let mut batches = self.batches.iter().peekable();
        let history = (floor + 1..=revision)
            .map(|revision| {
                while batches.next_if(|batch| batch.last < revision).is_some() {}
                let changes = changes.remove(&revision).ok_or_else(|| {
                    Fault::Damaged(format!("the changes of revision {revision} are missing"))
                })?;
                Ok(Arc::new(Commit {
                    revision,
                    time: batches.peek().map_or(0, |batch| batch.time),
                    changes: changes.into(),
                }))
            })
            .collect::<Result<_, Fault>>()?;
        Ok(State::recovered(floor, live, history))
    }

    /// The batch records, which must cover all revisions above the floor without a gap.
    fn load_batches(&self, floor: u64) -> Result<VecDeque<BatchRecord>, Fault> {
        let mut batches: VecDeque<BatchRecord> = VecDeque::new();
        let prefix = batch_prefix(&self.identity);
        for guard in self.entries.prefix(&prefix) {
            let key = guard.key()?;
            let record = key
                .get(prefix.len()..)
                .and_then(BatchRecord::decode)
                .filter(|record| record.first <= record.last)
                .ok_or_else(|| Fault::damaged("a commit record is malformed"))?;
            let follows = match batches.back() {
                Some(before) => record.first == before.last + 1,
                None => record.first <= floor + 1 && record.last > floor,
            };
            if !follows {
                return Err(Fault::Damaged(format!(
                    "the commits before revision {} are missing",
                    record.first
                )));
            }
            batches.push_back(record);
        }
        Ok(batches)
    }

    /// What is live at `revision`, and the changes of each revision above the floor.
    fn load_versions(
        &self,
        floor: u64,
        revision: u64,
    ) -> Result<(Live, BTreeMap<u64, Vec<Change>>), Fault> {
        let mut live = Live::new();
        let mut changes: BTreeMap<u64, Vec<Change>> = BTreeMap::new();
        let mut current: Option<(Key, Option<Versioned>)> = None;
        for guard in self.entries.prefix([VERSION]) {
            let (encoded, value) = guard.into_inner()?;
            let (key, at, new) = decode_version(&encoded, &value)?;
            if at > revision {
                return Err(Fault::Damaged(format!(
                    "{key} has revision {at}, above the newest, {revision}"
                )));
            }
            let old = match current.take() {
                Some((before, old)) if before == key => old,
                Some((before, last)) => {
                    if let Some(last) = last {
                        live.insert(before, last);
                    }
                    None
                }
                None => None,
            };
            if at > floor {
                changes.entry(at).or_default().push(Change {
                    revision: at,
                    key: key.clone(),
                    old,
                    new: new.clone(),
                });
            }
            current = Some((key, new));
        }
        if let Some((key, Some(last))) = current {
            live.insert(key, last);
        }
        Ok((live, changes))
    }
}

/// Why the database cannot be read, before it is known where.
enum Fault {
    Damaged(String),
    Engine(fjall::Error),
}

impl Fault {
    fn damaged(detail: &str) -> Self {
        Self::Damaged(detail.to_owned())
    }

    fn at(self, dir: &Path) -> OpenError {
        use fjall::Error::{Io, Storage};
        let dir = dir.to_owned();
        match self {
            Self::Damaged(detail) => OpenError::Damaged { dir, detail },
            Self::Engine(Io(source) | Storage(fjall::LsmError::Io(source))) => {
                // What the engine looks for in its own folder is there, and whole, or lost.
                if matches!(
                    source.kind(),
                    ErrorKind::AlreadyExists
                        | ErrorKind::InvalidData
                        | ErrorKind::InvalidInput
                        | ErrorKind::IsADirectory
                        | ErrorKind::NotADirectory
                        | ErrorKind::NotFound
                        | ErrorKind::UnexpectedEof
                ) {
                    let detail =
                        format!("a file of its db folder is missing or not whole ({source})");
                    return OpenError::Damaged { dir, detail };
                }
                OpenError::Io { path: dir, source }
            }
            Self::Engine(error) => OpenError::Damaged {
                dir,
                detail: error.to_string(),
            },
        }
    }
}

impl From<fjall::Error> for Fault {
    fn from(error: fjall::Error) -> Self {
        Self::Engine(error)
    }
}

fn version_key(key: &Key, revision: u64, kind: u8) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(1 + key.encoded().len() + SUFFIX);
    encoded.push(VERSION);
    encoded.extend_from_slice(key.encoded().as_bytes());
    encoded.push(0);
    encoded.extend_from_slice(&revision.to_be_bytes());
    encoded.push(kind);
    encoded
}

fn decode_version(encoded: &[u8], value: &[u8]) -> Result<(Key, u64, Option<Versioned>), Fault> {
    let malformed = || Fault::damaged("the key of a version is malformed");
    let at = encoded.len().checked_sub(SUFFIX).ok_or_else(malformed)?;
    let (key, suffix) = encoded.split_at(at);
    let key = key
        .strip_prefix(&[VERSION])
        .and_then(|key| std::str::from_utf8(key).ok())
        .and_then(|key| Key::from_encoded(key).ok())
        .ok_or_else(malformed)?;
    let [0, revision @ .., kind @ (DELETED | PUT)] = suffix else {
        return Err(malformed());
    };
    let revision = number(revision).ok_or_else(malformed)?;
    let new = (*kind == PUT).then(|| Versioned {
        value: Bytes::copy_from_slice(value),
        revision,
    });
    Ok((key, revision, new))
}

/// The highest first revision of all batches that the journals held when they were last whole; 0 without any.
fn journal_end(layout: &Layout) -> Result<u64, OpenError> {
    let dir = layout.database();
    let io = |source| OpenError::Io {
        path: dir.clone(),
        source,
    };
    let identity = layout.identity.as_bytes();
    let mut last = layout.replay()?;
    for entry in std::fs::read_dir(&dir).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            let bytes = std::fs::read(&path).map_err(io)?;
            last = last.max(last_batch(&bytes, identity));
        }
    }
    Ok(last)
}

fn last_batch(bytes: &[u8], identity: &[u8; 16]) -> u64 {
    let mut last = 0;
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == identity[0]) {
        rest = &rest[at..];
        if let Some(record) = rest.strip_prefix(identity).and_then(BatchRecord::decode) {
            last = last.max(record.first);
        }
        rest = &rest[1..];
    }
    last
}
