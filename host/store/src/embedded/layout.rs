//! The folder: its lock, its format marker, and how it is made.
//!
//! ```text
//! LOCK     held while a process has the store open; names the process
//! FORMAT   the format's version and the store's identity; says "creating" until the store is whole
//! DURABLE  a revision that the database reaches at least, see [`mark`](super::mark)
//! REPLAY   while the journals are replayed: the revision that they reach at least
//! scratch/ a copy of db/ while the store is read without being opened
//! db/      the fjall database
//! ```

use super::OpenError;
use super::mark::Mark;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// The version of everything below the folder. A store of another version is refused.
pub(super) const FORMAT_VERSION: u32 = 1;
const LOCK: &str = "LOCK";
const FORMAT: &str = "FORMAT";
const FORMAT_NEW: &str = "FORMAT.new";
const REPLAY: &str = "REPLAY";
const REPLAY_NEW: &str = "REPLAY.new";
const SCRATCH: &str = "scratch";
const DATABASE: &str = "db";
const ROOM: &str = "ROOM";
/// So much must be free before a write is tried again.
const ROOM_BYTES: usize = 1 << 20;

/// A folder that this process, and no other, has open.
#[derive(Debug)]
pub(super) struct Layout {
    dir: PathBuf,
    /// Random; marks this store's commits in the database's files, where values of clients, who
    /// do not know it, cannot pose as one.
    pub(super) identity: Uuid,
    /// Whether the database is yet to be created.
    pub(super) is_new: bool,
    /// Released by the kernel when the process ends, however it ends.
    lock: File,
}

impl Layout {
    /// Locks the folder, which is made if it is missing, and reads its marker.
    pub(super) fn open(dir: &Path) -> Result<Self, OpenError> {
        let io = |source| OpenError::Io {
            path: dir.to_owned(),
            source,
        };
        // Objects may hold secrets: only the owner may read them.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(io)?;
        refuse_foreign_files(dir)?;
        let lock = lock(dir)?;
        let (identity, ready) = match read_text(dir, FORMAT)? {
            Some(text) => parse_format(dir, &text)?,
            None => (Uuid::new_v4(), false),
        };
        let layout = Self {
            dir: dir.to_owned(),
            identity,
            is_new: !ready,
            lock,
        };
        if !ready {
            layout.write_format("creating").map_err(io)?;
            // What an interrupted creation left never held anything that was acknowledged.
            if layout.database().exists() {
                fs::remove_dir_all(layout.database()).map_err(io)?;
            }
        } else if !layout.database().is_dir() {
            return Err(damaged(dir, "its db folder is missing"));
        }
        Ok(layout)
    }

    /// Locks the folder of a store that is there and whole, to read it.
    pub(super) fn existing(dir: &Path) -> Result<Self, OpenError> {
        let missing = |detail: &'static str| OpenError::Missing {
            dir: dir.to_owned(),
            detail,
        };
        if !dir.is_dir() {
            return Err(missing("there is no such folder"));
        }
        refuse_foreign_files(dir)?;
        if read_text(dir, FORMAT)?.is_none() {
            return Err(missing("the folder is empty"));
        }
        let lock = lock(dir)?;
        let (identity, ready) = match read_text(dir, FORMAT)? {
            Some(text) => parse_format(dir, &text)?,
            None => return Err(missing("the folder is empty")),
        };
        if !ready {
            return Err(missing("its creation was interrupted, so it holds nothing"));
        }
        let layout = Self {
            dir: dir.to_owned(),
            identity,
            is_new: false,
            lock,
        };
        if !layout.database().is_dir() {
            return Err(damaged(dir, "its db folder is missing"));
        }
        Ok(layout)
    }

    /// The folder of the store.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// A copy of the database, for a replay changes what it reads. Removed with what is returned.
    pub(super) fn copy_database(&self) -> Result<Scratch, OpenError> {
        let path = self.dir.join(SCRATCH);
        let io = |source| OpenError::Io {
            path: path.clone(),
            source,
        };
        // What an interrupted reading left.
        if path.exists() {
            fs::remove_dir_all(&path).map_err(io)?;
        }
        let scratch = Scratch(path.clone());
        copy_folder(&self.database(), &path).map_err(io)?;
        Ok(scratch)
    }

    /// The revision that journals were seen to reach by a replay that did not come to its end.
    pub(super) fn replay(&self) -> Result<u64, OpenError> {
        match read_text(&self.dir, REPLAY)? {
            None => Ok(0),
            Some(text) => text
                .trim()
                .parse()
                .map_err(|_| damaged(&self.dir, "its REPLAY file is no number")),
        }
    }

    /// Remembers what the journals reach before they are replayed: fjall cuts them off at the first
    /// entry that it cannot read, so that a second look would find nothing amiss.
    pub(super) fn begin_replay(&self, revision: u64) -> Result<(), OpenError> {
        self.write(REPLAY, REPLAY_NEW, &format!("{revision}\n"))
            .map_err(|source| OpenError::Io {
                path: self.dir.join(REPLAY),
                source,
            })
    }

    /// The replay brought back all that the journals reach.
    pub(super) fn end_replay(&self) -> Result<(), OpenError> {
        let path = self.dir.join(REPLAY);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                Err(OpenError::Io { path, source })
            }
            _ => Ok(()),
        }
    }

    /// The folder of the database.
    pub(super) fn database(&self) -> PathBuf {
        self.dir.join(DATABASE)
    }

    /// Marks the store as whole, with what it holds.
    pub(super) fn finish_creation(&self, mark: Mark) -> Result<(), OpenError> {
        let io = |source| OpenError::Io {
            path: self.dir.clone(),
            source,
        };
        mark.write(self).map_err(io)?;
        self.write_format("ready").map_err(io)?;
        // The folder itself may be new as well: its name is on disk once its parent is.
        let parent = fs::canonicalize(&self.dir).map_err(io)?;
        match parent.parent() {
            Some(parent) => File::open(parent)
                .and_then(|dir| dir.sync_all())
                .map_err(io),
            None => Ok(()),
        }
    }

    /// Tries whether the disk takes something.
    pub(super) fn try_room(&self) -> std::io::Result<()> {
        let path = self.dir.join(ROOM);
        let written = File::create(&path).and_then(|mut file| {
            file.write_all(&vec![1; ROOM_BYTES])?;
            file.sync_all()
        });
        fs::remove_file(&path)?;
        written
    }

    fn write_format(&self, state: &str) -> std::io::Result<()> {
        let text = format!(
            "joinery-store {FORMAT_VERSION}\n{}\n{state}\n",
            self.identity
        );
        self.write(FORMAT, FORMAT_NEW, &text)
    }

    /// Writes a file, whole or not at all.
    pub(super) fn write(&self, name: &str, new: &str, text: &str) -> std::io::Result<()> {
        let new = self.dir.join(new);
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(new, self.dir.join(name))?;
        File::open(&self.dir)?.sync_all()
    }
}

/// A folder that is removed when dropped.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, dir = %self.0.display(), "cannot remove a copy");
        }
    }
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    DirBuilder::new().mode(0o700).create(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

impl Drop for Layout {
    fn drop(&mut self) {
        // Closing the file is not enough: a child process that is just being started has a copy
        // of it until its exec, and with the copy the lock.
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, dir = %self.dir.display(), "cannot unlock the store");
        }
    }
}

pub(super) fn damaged(dir: &Path, detail: &str) -> OpenError {
    OpenError::Damaged {
        dir: dir.to_owned(),
        detail: detail.to_owned(),
    }
}

/// The text of a file; none if it is not there.
pub(super) fn read_text(dir: &Path, name: &str) -> Result<Option<String>, OpenError> {
    let path = dir.join(name);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            Err(damaged(dir, &format!("its {name} file is not text")))
        }
        Err(source) => Err(OpenError::Io { path, source }),
    }
}

/// A folder of other files, or one that lost its marker, must not be taken for an empty one.
fn refuse_foreign_files(dir: &Path) -> Result<(), OpenError> {
    let io = |source| OpenError::Io {
        path: dir.to_owned(),
        source,
    };
    for entry in fs::read_dir(dir).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        let own = name == LOCK || name == FORMAT || name == FORMAT_NEW;
        // Looked for after the listing, for another process may be creating the store: the marker
        // comes before the rest.
        if !own && !dir.join(FORMAT).exists() {
            return Err(OpenError::NotAStore {
                dir: dir.to_owned(),
                found: name.to_string_lossy().into_owned(),
            });
        }
    }
    Ok(())
}

fn lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join(LOCK);
    let io = |source| OpenError::Io {
        path: path.clone(),
        source,
    };
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(io)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // Only for the message; the lock alone decides.
            if file.read_to_string(&mut holder).is_err() || holder.trim().is_empty() {
                "unknown".clone_into(&mut holder);
            }
            return Err(OpenError::InUse {
                dir: dir.to_owned(),
                process: holder.trim().to_owned(),
            });
        }
        Err(TryLockError::Error(error)) => return Err(io(error)),
    }
    file.set_len(0).map_err(io)?;
    writeln!(file, "{}", std::process::id()).map_err(io)?;
    Ok(file)
}

/// The identity in a marker, and whether the store is whole.
fn parse_format(dir: &Path, text: &str) -> Result<(Uuid, bool), OpenError> {
    let mut lines = text.lines();
    let version = lines
        .next()
        .and_then(|line| line.strip_prefix("joinery-store "))
        .ok_or_else(|| damaged(dir, "its FORMAT file does not begin with joinery-store"))?;
    if version.parse() != Ok(FORMAT_VERSION) {
        return Err(OpenError::Format {
            dir: dir.to_owned(),
            found: version.to_owned(),
            supported: FORMAT_VERSION,
        });
    }
    let identity = lines.next().and_then(|line| Uuid::parse_str(line).ok());
    match (identity, lines.next()) {
        (Some(identity), Some("ready")) => Ok((identity, true)),
        (Some(identity), Some("creating")) => Ok((identity, false)),
        _ => Err(damaged(dir, "its FORMAT file is not whole")),
    }
}
