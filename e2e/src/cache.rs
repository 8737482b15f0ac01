//! What is built once and kept in the user's cache folder, whole, by one run at a time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::interrupt;
use crate::progress::say;

/// `$XDG_CACHE_HOME/joinery`, or `~/.cache/joinery`.
pub(crate) fn cache_dir() -> Result<PathBuf> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|base| base.join("joinery"))
        .context("neither XDG_CACHE_HOME nor HOME names a folder for caches")
}

/// A file that is there to be locked, made if need be. What is in it does not count.
pub(crate) fn lock_file(path: &Path) -> Result<File> {
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The right to build a folder, for as long as it is held. Waits for others that build the same.
pub(crate) fn lock(folder: &Path, title: &str) -> Result<File> {
    let path = folder.with_extension("lock");
    let lock = lock_file(&path)?;
    if lock.try_lock().is_err() {
        say(format!(
            "{title}: another run is building it (lock {}), waiting",
            path.display()
        ));
        while lock.try_lock().is_err() {
            interrupt::sleep(Duration::from_millis(200))?;
        }
    }
    Ok(lock)
}

/// Makes a folder beside its place and renames it, so that it is there as a whole or not at all. The lock is held: what lies beside is
/// of a run that was ended.
pub(crate) fn whole(folder: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let beside = folder.with_extension("partial");
    let remove = |path: &Path| {
        if !path.exists() {
            return Ok(());
        }
        fs::remove_dir_all(path).with_context(|| format!("cannot remove {}", path.display()))
    };
    remove(&beside)?;
    fs::create_dir_all(&beside).with_context(|| format!("cannot create {}", beside.display()))?;
    make(&beside)?;
    remove(folder)?;
    fs::rename(&beside, folder).with_context(|| format!("cannot rename {}", beside.display()))
}
