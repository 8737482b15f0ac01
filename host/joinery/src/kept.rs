//! The plugins with stored resources as they were last accepted, in the data folder beside their objects.
//!
//! That a plugin is not taken away from under its objects, and that a version which would drop or change their resource is
//! refused, must also hold for what happens while the host is down: then only this says what served before.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use joinery_plugin::{HostSettings, PluginFile};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::identity::write_private;

/// The first line of a file is at most so long, in bytes: settings have at most 1 MiB where they come from.
const MAX_HEADER: u64 = 8 << 20;
const EXTENSION: &str = "plugin";

/// The first line of a file, as JSON. The component follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Header {
    /// SHA-256 of the component, in hex.
    digest: String,
    settings: HostSettings,
    signature: Option<String>,
}

impl Header {
    fn of(plugin: &PluginFile) -> Self {
        Self {
            digest: plugin.digest.clone(),
            settings: plugin.settings.clone(),
            signature: plugin.signature.clone(),
        }
    }
}

/// The folder.
#[derive(Clone)]
pub(crate) struct Kept {
    folder: PathBuf,
    known: Arc<Mutex<BTreeMap<String, Header>>>,
}

impl Kept {
    /// Opens the folder, made if it is missing.
    ///
    /// # Errors
    /// When it cannot be made or read, or others may write into it.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let failed = || format!("cannot use the folder {}", folder.display());
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .with_context(failed)?;
        private(folder).with_context(failed)?;
        let mut known = BTreeMap::new();
        for entry in fs::read_dir(folder).with_context(failed)? {
            let path = entry.with_context(failed)?.path();
            if path.extension().is_none_or(|e| e != EXTENSION) {
                continue;
            }
            let Some(name) = path.file_stem().and_then(|stem| stem.to_str()) else {
                continue;
            };
            match open(&path) {
                Ok((header, _)) => {
                    known.insert(name.to_owned(), header);
                }
                Err(error) => warn!(plugin = name, "what was kept of it is of no use: {error:#}"),
            }
        }
        Ok(Self {
            folder: folder.to_owned(),
            known: Arc::new(Mutex::new(known)),
        })
    }

    /// Of which plugins there is something.
    pub(crate) fn names(&self) -> Vec<String> {
        self.known.lock().keys().cloned().collect()
    }

    /// Whether there is something of the plugin that is not this.
    pub(crate) fn has_other(&self, name: &str, plugin: Option<&PluginFile>) -> bool {
        let known = self.known.lock();
        let kept = known.get(name);
        kept.is_some_and(|kept| plugin.is_none_or(|plugin| *kept != Header::of(plugin)))
    }

    /// Reads what is kept of a plugin.
    ///
    /// # Errors
    /// When it cannot be read or is damaged.
    pub(crate) async fn read(&self, name: &str) -> Result<PluginFile> {
        let (path, name) = (self.path(name), name.to_owned());
        let read = move || {
            let (header, mut file) = open(&path)?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            let mut plugin = PluginFile::new(&name, bytes.into(), header.settings);
            ensure!(
                plugin.digest == header.digest,
                "{} is damaged",
                path.display()
            );
            plugin.signature = header.signature;
            Ok(plugin)
        };
        tokio::task::spawn_blocking(read).await?
    }

    /// Keeps a plugin in the place of what was kept of it.
    pub(crate) async fn keep(&self, plugin: PluginFile) {
        let (path, header) = (self.path(&plugin.name), Header::of(&plugin));
        if self.known.lock().get(&plugin.name) == Some(&header) {
            return;
        }
        let (name, kept) = (plugin.name.clone(), header.clone());
        let write = move || -> Result<()> {
            let mut content = serde_json::to_vec(&header)?;
            content.push(b'\n');
            content.extend_from_slice(&plugin.bytes);
            write_private(&path, &content)?;
            sync(&path)
        };
        match tokio::task::spawn_blocking(write).await {
            Ok(Ok(())) => {
                self.known.lock().insert(name, kept);
            }
            Ok(Err(error)) => not_kept(&name, &error),
            Err(error) => not_kept(&name, &error.into()),
        }
    }

    /// Lets go of what was kept of a plugin.
    pub(crate) async fn forget(&self, name: &str) {
        if self.known.lock().remove(name).is_none() {
            return;
        }
        let path = self.path(name);
        let remove = move || -> Result<()> {
            fs::remove_file(&path)?;
            sync(&path)
        };
        match tokio::task::spawn_blocking(remove).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(plugin = name, "what was kept of it stays: {error:#}"),
            Err(error) => warn!(plugin = name, "what was kept of it stays: {error}"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.{EXTENSION}"))
    }
}

fn not_kept(plugin: &str, error: &anyhow::Error) {
    warn!(
        plugin,
        "it serves, but cannot be kept for the next start of the host: {error:#}"
    );
}

/// So that a crash of the machine does not undo it.
fn sync(path: &Path) -> Result<()> {
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

fn private(path: &Path) -> Result<()> {
    if fs::symlink_metadata(path)?.mode() & 0o022 != 0 {
        bail!("others may write {}", path.display());
    }
    Ok(())
}

/// Reads the first line; what follows is the component.
fn open(path: &Path) -> Result<(Header, BufReader<File>)> {
    let failed = || path.display().to_string();
    private(path)?;
    let mut file = BufReader::new(File::open(path).with_context(failed)?);
    let mut line = String::new();
    file.by_ref()
        .take(MAX_HEADER)
        .read_line(&mut line)
        .with_context(failed)?;
    let header = serde_json::from_str(&line).with_context(failed)?;
    Ok((header, file))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn plugin(name: &str, code: &'static [u8]) -> PluginFile {
        let settings = "removal: warn\nmode: live\nsettings: {group: a.b, n: [1, 2.5, null]}\n";
        let settings = HostSettings::parse(settings).unwrap();
        let mut plugin = PluginFile::new(name, code.into(), settings);
        plugin.signature = Some("c2ln".to_owned());
        plugin
    }

    #[tokio::test]
    async fn what_is_kept_is_found_again_as_it_was_and_only_its_owner_reads_it() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("accepted");
        let kept = Kept::open(&folder).unwrap();
        let (old, new) = (plugin("a", b"old\ncode\n"), plugin("a", b"new"));
        kept.keep(old.clone()).await;
        kept.keep(new.clone()).await;
        kept.keep(plugin("b", b"gone")).await;
        kept.forget("b").await;

        let again = Kept::open(&folder).unwrap();
        assert_eq!(again.names(), ["a"]);
        let read = again.read("a").await.unwrap();
        assert_eq!((&read, &read.bytes[..]), (&new, &b"new"[..]));
        assert!(!again.has_other("a", Some(&new)) && again.has_other("a", Some(&old)));
        assert!(again.has_other("a", None) && !again.has_other("b", None));
        assert!(again.read("b").await.is_err());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            (mode(&folder), mode(&folder.join("a.plugin"))),
            (0o700, 0o600)
        );
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn what_is_damaged_or_open_to_others_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::open(folder.path()).unwrap();
        for name in ["cut", "garbage", "open"] {
            kept.keep(plugin(name, b"some code")).await;
        }
        let path = |name: &str| folder.path().join(format!("{name}.plugin"));
        let whole = fs::read(path("cut")).unwrap();
        fs::write(path("cut"), &whole[..whole.len() - 1]).unwrap();
        fs::write(path("garbage"), b"garbage").unwrap();
        fs::set_permissions(path("open"), fs::Permissions::from_mode(0o666)).unwrap();
        let again = Kept::open(folder.path()).unwrap();
        assert_eq!(again.names(), ["cut"]);
        let error = again.read("cut").await.unwrap_err().to_string();
        assert!(error.ends_with("cut.plugin is damaged"), "{error}");
    }
}
