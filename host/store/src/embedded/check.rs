//! Reading a store that nobody has open, without changing a byte of it.

use super::OpenError;
use super::backup::{self, Backup};
use super::layout::{FORMAT_VERSION, Layout};
use super::log::Log;
use super::state::State;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

/// What a store that is whole holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The version of its format.
    pub format: u32,
    /// The newest revision.
    pub revision: u64,
    /// The oldest revision that can be read.
    pub floor: u64,
    /// How many keys are live of each group and resource.
    pub resources: BTreeMap<(String, String), u64>,
}

/// Reads everything in a store: its format, the checksums of all blocks and journal entries, and that
/// the history has each revision once and in order.
///
/// What is read is a copy inside the folder, for reading a journal changes it; so there must be room
/// for one.
///
/// # Errors
/// [`OpenError`]: missing, in use, no store, another format, damaged, or not accessible.
pub fn check(dir: impl AsRef<Path>) -> Result<Report, OpenError> {
    let state = read(dir.as_ref())?;
    let mut resources = BTreeMap::new();
    for (key, _) in &state.live {
        let resource = (key.group().to_owned(), key.resource().to_owned());
        *resources.entry(resource).or_default() += 1;
    }
    Ok(Report {
        format: FORMAT_VERSION,
        revision: state.revision,
        floor: state.floor,
        resources,
    })
}

/// Takes a backup of a store that nobody has open. The store is checked and left as it is, as by [`check`].
///
/// # Errors
/// As for [`check`]; within, what writing failed with.
pub fn read_backup(
    dir: impl AsRef<Path>,
    out: impl Write,
) -> Result<io::Result<Backup>, OpenError> {
    Ok(backup::write(&read(dir.as_ref())?, out))
}

fn read(dir: &Path) -> Result<State, OpenError> {
    Log::read(&Layout::existing(dir)?)
}
