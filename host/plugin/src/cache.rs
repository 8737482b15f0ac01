//! Compiled plugins on disk. They are machine code that the host will run, so nobody else may write there.

use std::fs::{self, DirBuilder, File, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::{TempDir, TempPath};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::error::SetupError;

/// Artefacts that are kept; the least recently used go.
const KEPT: usize = 64;

/// The folder.
pub(crate) struct Cache {
    dir: PathBuf,
    /// What an engine must have in common with the one that compiled.
    compatibility: u64,
    /// Set when the folder lives only as long as this.
    _own: Option<TempDir>,
}

impl Cache {
    /// Opens the folder, or one of its own when there is none.
    pub(crate) fn open(dir: Option<&Path>, engine: &Engine) -> Result<Self, SetupError> {
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        let compatibility = hasher.finish();
        let Some(dir) = dir else {
            let own =
                TempDir::with_prefix("joinery-compiled-").map_err(|error| SetupError::Cache {
                    path: std::env::temp_dir(),
                    message: error.to_string(),
                })?;
            return Ok(Self {
                dir: own.path().to_owned(),
                compatibility,
                _own: Some(own),
            });
        };
        let fail = |message: String| SetupError::Cache {
            path: dir.to_owned(),
            message,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|error| fail(error.to_string()))?;
        let meta = fs::symlink_metadata(dir).map_err(|error| fail(error.to_string()))?;
        if !meta.is_dir() {
            return Err(fail(
                "it is no folder (nor may it be a link to one)".to_owned(),
            ));
        }
        let user = rustix::process::geteuid().as_raw();
        if meta.uid() != user {
            return Err(fail(format!(
                "it belongs to user {}, not to {user}, who runs this",
                meta.uid()
            )));
        }
        if meta.mode() & 0o022 != 0 {
            return Err(fail(
                "others may write into it: empty it and set its mode to 0700".to_owned(),
            ));
        }
        fs::set_permissions(dir, Permissions::from_mode(0o700))
            .map_err(|error| fail(error.to_string()))?;
        Ok(Self {
            dir: dir.to_owned(),
            compatibility,
            _own: None,
        })
    }

    fn path(&self, digest: &str) -> PathBuf {
        self.dir
            .join(format!("{digest}-{:016x}.cwasm", self.compatibility))
    }

    /// The compiled form of the component with this SHA-256, if it is there and can be used.
    #[expect(
        unsafe_code,
        reason = "machine code from a file can only be run on trust"
    )]
    pub(crate) fn load(&self, engine: &Engine, digest: &str) -> Option<Component> {
        let path = self.path(digest);
        let meta = fs::symlink_metadata(&path).ok()?;
        let ours = meta.is_file()
            && meta.uid() == rustix::process::geteuid().as_raw()
            && meta.mode() & 0o022 == 0;
        if !ours {
            tracing::warn!(path = %path.display(), "compiled plugin is not used: others may have written it");
            _ = fs::remove_file(&path);
            return None;
        }
        // A damaged file could be loaded without a word: wasmtime checks its header, not the machine code.
        if fs::read_to_string(sum_of(&path)).ok() != checksum(&path).ok() {
            tracing::warn!(path = %path.display(), "compiled plugin is damaged, it is compiled again");
            _ = fs::remove_file(&path);
            return None;
        }
        // SAFETY: the file was made by this program's compiler from the component with this digest: it lies in a folder
        // that belongs to the user who runs this and that nobody else may enter, belongs to that user itself, and came
        // there whole, by a rename. wasmtime refuses what another version or configuration of it has made.
        match unsafe { Component::deserialize_file(engine, &path) } {
            Ok(component) => {
                // Its time tells when it was last used; only tidying up goes by it.
                _ = File::options()
                    .write(true)
                    .open(&path)
                    .and_then(|f| f.set_modified(SystemTime::now()));
                Some(component)
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), "compiled plugin is not used: {error:#}");
                _ = fs::remove_file(&path);
                None
            }
        }
    }

    /// A place for a file in the making, gone when it is dropped.
    pub(crate) fn temporary(&self) -> std::io::Result<TempPath> {
        Ok(tempfile::Builder::new()
            .prefix(".making-")
            .tempfile_in(&self.dir)?
            .into_temp_path())
    }

    /// Takes in a file that is whole.
    pub(crate) fn keep(&self, made: TempPath, digest: &str) -> std::io::Result<()> {
        let path = self.path(digest);
        let sum = self.temporary()?;
        fs::write(&sum, checksum(&made)?)?;
        // First the sum: without it the file is not used.
        sum.persist(sum_of(&path)).map_err(|error| error.error)?;
        made.persist(&path).map_err(|error| error.error)?;
        self.tidy();
        Ok(())
    }

    fn tidy(&self) {
        let Ok(entries) = fs::read_dir(&self.dir) else {
            return;
        };
        let mut files: Vec<(SystemTime, PathBuf)> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let path = entry.path();
                let compiled = path.extension().is_some_and(|e| e == "cwasm");
                compiled.then_some((entry.metadata().ok()?.modified().ok()?, path))
            })
            .collect();
        files.sort_unstable();
        let surplus = files.len().saturating_sub(KEPT);
        for (_, path) in &files[..surplus] {
            _ = fs::remove_file(path);
            _ = fs::remove_file(sum_of(path));
        }
    }
}

/// Where the checksum of a compiled plugin lies.
fn sum_of(path: &Path) -> PathBuf {
    path.with_extension("sha256")
}

/// SHA-256 of a file, in hex.
fn checksum(path: &Path) -> std::io::Result<String> {
    Ok(crate::runtime::digest(&fs::read(path)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_damaged_anywhere_is_not_used() {
        let engine = crate::engine::running().unwrap();
        let cache = Cache::open(None, &engine).unwrap();
        let component = wat::parse_str("(component)").unwrap();
        let compiled = engine.precompile_component(&component).unwrap();
        for at in [0, compiled.len() / 2, compiled.len() - 1] {
            let made = cache.temporary().unwrap();
            fs::write(&made, &compiled).unwrap();
            cache.keep(made, "digest").unwrap();
            assert!(cache.load(&engine, "digest").is_some());
            let mut damaged = compiled.clone();
            damaged[at] ^= 1;
            fs::write(cache.path("digest"), &damaged).unwrap();
            assert!(cache.load(&engine, "digest").is_none(), "byte {at}");
            assert!(!cache.path("digest").exists());
        }
    }
}
