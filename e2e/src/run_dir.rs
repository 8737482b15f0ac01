//! Where one run keeps its files: `.joinery/NAME` of the checkout, or `.joinery/NAME-2`, `-3`… while other runs hold the earlier ones.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const AT_ONCE: usize = 100;

/// A folder that belongs to this run for as long as the value lives. What an earlier run left in it is removed at the start, not at the
/// end: logs can be read after a failure, and nothing piles up.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    _lock: File,
}

impl RunDir {
    /// Takes the first folder of that name that no other run holds, emptied.
    ///
    /// # Errors
    /// When the folder cannot be created, emptied or locked.
    pub fn take(checkout: &Path, name: &str) -> Result<RunDir> {
        let parent = checkout.join(".joinery");
        fs::create_dir_all(&parent)
            .with_context(|| format!("cannot create {}", parent.display()))?;
        for number in 1..=AT_ONCE {
            let name = if number == 1 {
                name.to_owned()
            } else {
                format!("{name}-{number}")
            };
            let lock_path = parent.join(format!(".{name}.lock"));
            let lock = crate::cache::lock_file(&lock_path)?;
            if lock.try_lock().is_err() {
                continue;
            }
            let path = parent.join(&name);
            if path.exists() {
                fs::remove_dir_all(&path)
                    .with_context(|| format!("cannot empty {}", path.display()))?;
            }
            let run_dir = RunDir { path, _lock: lock };
            for folder in ["logs", "bin", "plugins", "data", "pki"] {
                run_dir.create(folder)?;
            }
            return Ok(run_dir);
        }
        bail!("{AT_ONCE} runs named {name} are going on already")
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where each process' output goes.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.path.join("logs")
    }

    /// Creates a folder below, and gives its path.
    pub(crate) fn create(&self, folder: &str) -> Result<PathBuf> {
        let path = self.path.join(folder);
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    }

    /// Writes a file below, readable by its owner alone (most are keys), and gives its path.
    pub(crate) fn write(&self, file: &str, contents: &str) -> Result<PathBuf> {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let path = self.path.join(file);
        let mut opened = File::options()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        opened
            .write_all(contents.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::RunDir;

    #[test]
    fn two_runs_of_one_name_get_folders_of_their_own_and_the_first_is_reused_empty() {
        let checkout = std::env::temp_dir().join(format!("joinery-rundir-{}", std::process::id()));
        let first = RunDir::take(&checkout, "x").unwrap();
        let second = RunDir::take(&checkout, "x").unwrap();
        assert_ne!(first.path(), second.path());
        first.write("left", "over").unwrap();
        let path = first.path().to_owned();
        drop(first);
        let third = RunDir::take(&checkout, "x").unwrap();
        assert_eq!(third.path(), path);
        assert!(!path.join("left").exists());
        std::fs::remove_dir_all(&checkout).unwrap();
    }
}
