//! A backup: all that a store holds at one revision, in one file.
//!
//! ```text
//! joinery-backup 1 LF
//! block*
//! ```
//!
//! A block is its kind (1 byte), the length of its content (4 bytes), the content, and the SHA-256 of
//! everything in the file before this digest (32 bytes), so that a block that was changed, moved, left
//! out or cut off is noticed where it stands. Numbers are big-endian.
//!
//! | kind | content |
//! | --- | --- |
//! | `h`, the first | revision (8), number of entries (8), milliseconds since 1970 (8) |
//! | `e` | entries in the order of keys: length of the key (4), key, mod revision (8), length of the value (4), value |
//! | `z`, the last | nothing |
//!
//! History is not in it: it would be of no use, see [`restore`](super::restore::restore).

use super::state::State;
use crate::{FIRST_REVISION, Key, Versioned};
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::io::{self, ErrorKind, Read, Write};
use std::time::{SystemTime, UNIX_EPOCH};

const FORMAT_VERSION: u32 = 1;
const MAGIC: &str = "joinery-backup ";
const HEADER: u8 = b'h';
const ENTRIES: u8 = b'e';
const END: u8 = b'z';
/// Entries gather in a block until it has so many bytes.
const BLOCK_BYTES: usize = 1 << 20;
/// No block is longer: what is damaged must not make us ask for all memory there is.
const MAX_BLOCK_BYTES: usize = 1 << 30;
/// The digits of a version, at most, and the line's end.
const MAX_VERSION_LEN: usize = 20;

/// What a backup says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backup {
    /// The revision of the store that it was taken at.
    pub revision: u64,
    /// How many keys it holds.
    pub entries: u64,
    /// When it was taken, in milliseconds since 1970.
    pub time: u64,
}

/// Why a backup cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The file is of another kind.
    #[error("it is no backup of a Joinery store: it does not begin with {:?}", MAGIC.trim_end())]
    NotABackup,
    /// It was written by a version of Joinery with another format.
    #[error("the backup has format {found}; this version of Joinery reads format {supported}")]
    Format {
        /// The format that was found.
        found: String,
        /// The one format that can be read.
        supported: u32,
    },
    /// It was changed or cut off.
    #[error("the backup is damaged at byte {at}: {detail}; use another one")]
    Damaged {
        /// Where the block with the damage begins.
        at: u64,
        /// What is wrong.
        detail: String,
    },
    /// The operating system refused.
    #[error("the backup cannot be read")]
    Io(#[source] io::Error),
}

/// Reads a backup to its end and checks all of it.
///
/// # Errors
/// [`BackupError`]: no backup, another format, damaged, or not readable.
pub fn verify(input: impl Read) -> Result<Backup, BackupError> {
    let mut reader = Reader::open(input)?;
    while reader.next_block()?.is_some() {}
    Ok(reader.backup)
}

/// Writes what is live.
pub(super) fn write(state: &State, out: impl Write) -> io::Result<Backup> {
    let time = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        });
    let backup = Backup {
        revision: state.revision,
        entries: state.live.len() as u64,
        time,
    };
    let mut out = Writer {
        out,
        digest: Sha256::new(),
    };
    out.put(format!("{MAGIC}{FORMAT_VERSION}\n").as_bytes())?;
    let header = [backup.revision, backup.entries, backup.time].map(u64::to_be_bytes);
    out.block(HEADER, &header.concat())?;
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    for (key, entry) in &state.live {
        let key = key.encoded().as_bytes();
        put_bytes(&mut block, key)?;
        block.extend_from_slice(&entry.revision.to_be_bytes());
        put_bytes(&mut block, &entry.value)?;
        if block.len() >= BLOCK_BYTES {
            out.block(ENTRIES, &block)?;
            block.clear();
        }
    }
    if !block.is_empty() {
        out.block(ENTRIES, &block)?;
    }
    out.block(END, &[])?;
    out.out.flush()?;
    Ok(backup)
}

fn put_bytes(block: &mut Vec<u8>, bytes: &[u8]) -> io::Result<()> {
    block.extend_from_slice(&length(bytes)?);
    block.extend_from_slice(bytes);
    Ok(())
}

fn length(bytes: &[u8]) -> io::Result<[u8; 4]> {
    u32::try_from(bytes.len())
        .map(u32::to_be_bytes)
        .map_err(|_| io::Error::new(ErrorKind::InvalidInput, "a value of more than 4 GiB"))
}

struct Writer<W> {
    out: W,
    digest: Sha256,
}

impl<W: Write> Writer<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.digest.update(bytes);
        self.out.write_all(bytes)
    }

    fn block(&mut self, kind: u8, content: &[u8]) -> io::Result<()> {
        self.put(&[kind])?;
        self.put(&length(content)?)?;
        self.put(content)?;
        let digest = self.digest.clone().finalize();
        self.put(&digest)
    }
}

/// Reads a backup block by block; each is checked before it is returned.
pub(super) struct Reader<R> {
    input: R,
    digest: Sha256,
    position: u64,
    /// Where the present block begins.
    block: u64,
    seen: u64,
    last: Option<Key>,
    pub(super) backup: Backup,
}

impl<R: Read> Reader<R> {
    /// Reads up to the entries.
    pub(super) fn open(input: R) -> Result<Self, BackupError> {
        let mut reader = Self {
            input,
            digest: Sha256::new(),
            position: 0,
            block: 0,
            seen: 0,
            last: None,
            backup: Backup {
                revision: 0,
                entries: 0,
                time: 0,
            },
        };
        reader.read_version()?;
        let (kind, content) = reader.read_block()?;
        let numbers: Vec<u64> = content
            .chunks_exact(8)
            .filter_map(|bytes| bytes.try_into().ok().map(u64::from_be_bytes))
            .collect();
        match numbers[..] {
            [revision, entries, time] if kind == HEADER && revision >= FIRST_REVISION => {
                reader.backup = Backup {
                    revision,
                    entries,
                    time,
                };
                Ok(reader)
            }
            _ => Err(reader.damaged("it does not begin with a header")),
        }
    }

    /// The entries of the next block, none at the end of the backup.
    pub(super) fn next_block(&mut self) -> Result<Option<Vec<(Key, Versioned)>>, BackupError> {
        let (kind, content) = self.read_block()?;
        match kind {
            ENTRIES => self.entries(&content).map(Some),
            END if self.seen != self.backup.entries => Err(self.damaged(&format!(
                "it holds {} entries where it should hold {}",
                self.seen, self.backup.entries
            ))),
            END => self.end().map(|()| None),
            _ => Err(self.damaged("a block is of an unknown kind")),
        }
    }

    fn entries(&mut self, content: &[u8]) -> Result<Vec<(Key, Versioned)>, BackupError> {
        let mut entries = Vec::new();
        let mut at = 0;
        while at < content.len() {
            let (key, value) =
                entry(content, &mut at).ok_or_else(|| self.damaged("an entry is malformed"))?;
            if value.revision > self.backup.revision {
                return Err(self.damaged(&format!("{key} is newer than the backup")));
            }
            if self.last.as_ref().is_some_and(|last| *last >= key) {
                return Err(self.damaged(&format!("{key} is out of order")));
            }
            self.last = Some(key.clone());
            self.seen += 1;
            entries.push((key, value));
        }
        Ok(entries)
    }

    /// After the last block comes nothing.
    fn end(&mut self) -> Result<(), BackupError> {
        self.block = self.position;
        match self.input.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.damaged("something follows its end")),
            Err(error) => Err(BackupError::Io(error)),
        }
    }

    fn read_version(&mut self) -> Result<(), BackupError> {
        let mut magic = [0; MAGIC.len()];
        match self.input.read_exact(&mut magic) {
            Ok(()) if magic == *MAGIC.as_bytes() => {}
            Err(error) if error.kind() != ErrorKind::UnexpectedEof => {
                return Err(BackupError::Io(error));
            }
            _ => return Err(BackupError::NotABackup),
        }
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            self.read(&mut byte)?;
            match byte[0] {
                b'\n' => break,
                _ if line.len() == MAX_VERSION_LEN => return Err(BackupError::NotABackup),
                byte => line.push(byte),
            }
        }
        let found = String::from_utf8_lossy(&line).into_owned();
        if found.parse() != Ok(FORMAT_VERSION) {
            return Err(BackupError::Format {
                found,
                supported: FORMAT_VERSION,
            });
        }
        self.digest.update(format!("{MAGIC}{FORMAT_VERSION}\n"));
        self.position = (MAGIC.len() + line.len() + 1) as u64;
        Ok(())
    }

    fn read_block(&mut self) -> Result<(u8, Vec<u8>), BackupError> {
        self.block = self.position;
        let mut head = [0; 5];
        self.read_digested(&mut head)?;
        let [kind, length @ ..] = head;
        let length = u32::from_be_bytes(length) as usize;
        if length > MAX_BLOCK_BYTES {
            return Err(self.damaged("a block is too long"));
        }
        // Grown as it is read: the length may be damaged.
        let mut content = Vec::new();
        let read = (&mut self.input)
            .take(length as u64)
            .read_to_end(&mut content)
            .map_err(BackupError::Io)?;
        if read < length {
            return Err(self.damaged("it ends too early"));
        }
        self.position += length as u64;
        self.digest.update(&content);
        let expected = self.digest.clone().finalize();
        let mut digest = [0; 32];
        self.read_digested(&mut digest)?;
        if digest != *expected {
            return Err(self.damaged("a checksum does not match"));
        }
        Ok((kind, content))
    }

    fn read_digested(&mut self, bytes: &mut [u8]) -> Result<(), BackupError> {
        self.read(bytes)?;
        self.digest.update(&*bytes);
        self.position += bytes.len() as u64;
        Ok(())
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<(), BackupError> {
        match self.input.read_exact(bytes) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err(self.damaged("it ends too early"))
            }
            Err(error) => Err(BackupError::Io(error)),
        }
    }

    fn damaged(&self, detail: &str) -> BackupError {
        BackupError::Damaged {
            at: self.block,
            detail: detail.to_owned(),
        }
    }
}

/// The entry at a position, which is moved behind it.
fn entry(content: &[u8], at: &mut usize) -> Option<(Key, Versioned)> {
    let mut take = |length: usize| {
        let bytes = content.get(*at..at.checked_add(length)?)?;
        *at += length;
        Some(bytes)
    };
    let key_length = u32::from_be_bytes(take(4)?.try_into().ok()?) as usize;
    let key = Key::from_encoded(std::str::from_utf8(take(key_length)?).ok()?).ok()?;
    let revision = u64::from_be_bytes(take(8)?.try_into().ok()?);
    let length = u32::from_be_bytes(take(4)?.try_into().ok()?) as usize;
    // A copy of its own: a slice would keep the whole block in memory.
    let value = Bytes::copy_from_slice(take(length)?);
    Some((key, Versioned { value, revision }))
}
