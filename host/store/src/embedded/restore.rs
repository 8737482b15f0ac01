//! From a backup to a store.
//!
//! A store that goes back in time must not go back in revisions: a client that has seen revision 1,000
//! would take what is written now at 1,000 for what it knows. So all objects of a backup are put anew,
//! at revisions above any that a store with this past can have reached since, and the history begins
//! there. Whoever asks for an older revision is told that it is compacted, and lists.

use super::OpenError;
use super::backup::{Backup, BackupError, Reader};
use super::layout::Layout;
use super::log::Log;
use super::mark::Mark;
use super::state::Commit;
use super::write_error::WriteError;
use crate::{Change, Versioned};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// More revisions than a store can make in a millisecond, by far: it makes some tens of thousands a
/// second. Counted from when the backup was taken, so that a second restore of it, too, is above
/// what clients have seen of the first.
const REVISIONS_PER_MILLISECOND: u64 = 100;
/// On top of that, for clocks that differ.
const LEAP: u64 = 1_000_000_000;
/// Positions of sources in the versions of views are below this.
const END_OF_REVISIONS: u64 = 1 << 63;

/// A restored store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// The backup that was read.
    pub backup: Backup,
    /// The store's revision, and the oldest that can be read.
    pub revision: u64,
}

/// Why a backup was not restored. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// There is something in the folder.
    #[error("{} is not empty: it holds {found}; move it away first", dir.display())]
    NotEmpty {
        /// The folder.
        dir: PathBuf,
        /// The name of something in it.
        found: String,
    },
    /// The backup cannot be read.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// Its revision leaves no room for a higher one.
    #[error("the backup's revision, {0}, is too high")]
    Revision(u64),
    /// The new store cannot be made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The new store cannot be written.
    #[error("cannot write the store in {}", dir.display())]
    Write {
        /// Its folder.
        dir: PathBuf,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
}

/// Makes a store of a backup, in `dir`, which must be missing or empty. It is there whole or not at
/// all: it grows in `dir` with `.restoring` at its end.
///
/// # Errors
/// [`RestoreError`].
pub fn restore(input: impl Read, dir: impl AsRef<Path>) -> Result<Restored, RestoreError> {
    let dir = dir.as_ref();
    refuse_files(dir)?;
    let mut reader = Reader::open(input)?;
    let base = above(reader.backup, now()).ok_or(RestoreError::Revision(reader.backup.revision))?;

    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(".restoring");
    let growing = dir.with_file_name(name);
    let layout = begin(&growing)?;
    let write_error = |source| RestoreError::Write {
        dir: dir.to_owned(),
        source,
    };
    let outcome = fill(&layout, base, &mut reader).and_then(|revision| {
        layout.finish_creation(Mark {
            revision,
            live: reader.backup.entries,
        })?;
        Ok(revision)
    });
    // The lock goes before the folder gets its name: a host may wait for neither.
    drop(layout);
    let finished = outcome.and_then(|revision| {
        refuse_files(dir)?;
        fs::rename(&growing, dir).map_err(write_error)?;
        Ok(Restored {
            backup: reader.backup,
            revision,
        })
    });
    if finished.is_err()
        && let Err(error) = fs::remove_dir_all(&growing)
    {
        tracing::warn!(%error, dir = %growing.display(), "cannot remove what was restored");
    }
    finished
}

/// An empty store that nobody else has open, in the place of what an interrupted restore left.
fn begin(growing: &Path) -> Result<Layout, OpenError> {
    let layout = Layout::open(growing)?;
    if layout.is_new {
        return Ok(layout);
    }
    fs::remove_dir_all(growing).map_err(|source| OpenError::Io {
        path: growing.to_owned(),
        source,
    })?;
    drop(layout);
    Layout::open(growing)
}

/// Writes all entries, block by block at one revision each; the last of these.
fn fill(layout: &Layout, base: u64, reader: &mut Reader<impl Read>) -> Result<u64, RestoreError> {
    let failed = |error: WriteError| RestoreError::Write {
        dir: layout.dir().to_owned(),
        source: io::Error::other(error),
    };
    let mut log = Log::create(layout, base, true)?;
    let mut revision = base;
    while let Some(entries) = reader.next_block()? {
        revision += 1;
        let changes = entries
            .into_iter()
            .map(|(key, entry)| Change {
                revision,
                key,
                old: None,
                new: Some(Versioned {
                    value: entry.value,
                    revision,
                }),
            })
            .collect();
        let commit = Commit {
            revision,
            time: now(),
            changes,
        };
        log.write(&[Arc::new(commit)], None).map_err(failed)?;
    }
    // The history begins where all is there.
    log.write(&[], Some((revision, &[]))).map_err(failed)?;
    Ok(revision)
}

fn refuse_files(dir: &Path) -> Result<(), RestoreError> {
    let io = |source| OpenError::Io {
        path: dir.to_owned(),
        source,
    };
    let mut entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io(error).into()),
    };
    match entries.next() {
        None => Ok(()),
        Some(entry) => Err(RestoreError::NotEmpty {
            dir: dir.to_owned(),
            found: entry
                .map_err(io)?
                .file_name()
                .to_string_lossy()
                .into_owned(),
        }),
    }
}

/// A revision above all that a store with this past can have reached by now.
fn above(backup: Backup, now: u64) -> Option<u64> {
    let since = now.saturating_sub(backup.time);
    let leap = since
        .checked_mul(REVISIONS_PER_MILLISECOND)?
        .checked_add(LEAP)?;
    backup
        .revision
        .checked_add(leap)
        .filter(|revision| *revision < END_OF_REVISIONS)
}

/// Milliseconds since 1970.
fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_restore_is_above_whatever_followed_the_first() {
        let backup = Backup {
            revision: 5000,
            entries: 1,
            time: 1_000_000,
        };
        let first = above(backup, 1_060_000).unwrap();
        assert!(first > 5000);
        // A minute at 50,000 transactions a second.
        let reached = first + 60 * 50_000;
        assert!(above(backup, 1_120_000).unwrap() > reached);
        // The clock of who restores is behind.
        assert!(above(backup, 0).unwrap() > 5000);
        let huge = Backup {
            revision: END_OF_REVISIONS - 5,
            ..backup
        };
        assert_eq!(above(huge, 0), None);
    }
}
