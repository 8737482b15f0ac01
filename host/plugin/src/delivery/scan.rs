//! One reading of the directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::error::LoadError;
use crate::inspect::MAX_BYTES;
use crate::runtime::digest;
use crate::settings::HostSettings;

/// The largest settings file, in bytes.
const MAX_SETTINGS: u64 = 1 << 20;
/// The largest file of a digest or a signature, in bytes.
const MAX_BESIDE: u64 = 4 << 10;

/// The plugins that there ought to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginSet {
    /// By name: the file's without its extension. One that cannot be read does not hide the others.
    pub plugins: BTreeMap<String, Result<PluginFile, DeliveryError>>,
}

/// One plugin, read and unpacked.
#[derive(Clone, Debug)]
pub struct PluginFile {
    /// Its name.
    pub name: String,
    /// SHA-256 of the component, in hex.
    pub digest: String,
    /// The component.
    pub bytes: Bytes,
    /// From the file beside it; all defaults when there is none.
    pub settings: HostSettings,
    /// Base64 of a signature over `sha256:` and the digest; whether it is good, and whether there must be one, the
    /// [`Runtime`](crate::Runtime) decides.
    pub signature: Option<String>,
}

impl PluginFile {
    /// A component of that name, without a signature.
    pub fn new(name: &str, bytes: Bytes, settings: HostSettings) -> Self {
        Self {
            name: name.to_owned(),
            digest: digest(&bytes),
            bytes,
            settings,
            signature: None,
        }
    }
}

impl PartialEq for PluginFile {
    fn eq(&self, other: &Self) -> bool {
        // The digest stands for the bytes.
        (&self.name, &self.digest, &self.settings, &self.signature)
            == (
                &other.name,
                &other.digest,
                &other.settings,
                &other.signature,
            )
    }
}

/// Why there is no plugin in a file, or no directory to look into.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// The directory cannot be read.
    #[error("plugin directory {path}: {message}", path = .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// A file cannot be read, or has the wrong form.
    #[error("{file}: {message}")]
    File {
        /// Its name in the directory.
        file: String,
        /// What is wrong and what is allowed.
        message: String,
    },
    /// A ConfigMap has the wrong form.
    #[error("ConfigMap {namespace}/{name}: {message}")]
    ConfigMap {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// What is wrong and what is allowed.
        message: String,
    },
}

/// Changes when a file is written or replaced, also by one of the same size at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Fingerprint {
    fn of(meta: &Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// The digest and bytes of a component, or why there are none.
type Component = Result<(String, Bytes), DeliveryError>;

/// Reads the directory, and of its files only what has changed since the last time.
pub(super) struct Scanner {
    dir: PathBuf,
    known: BTreeMap<String, (Fingerprint, Component)>,
}

impl Scanner {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            known: BTreeMap::new(),
        }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// All plugins as they are now. Links are followed: a mounted ConfigMap is full of them.
    pub(super) fn scan(&mut self) -> Result<PluginSet, DeliveryError> {
        let fail = |error: io::Error| DeliveryError::Directory {
            path: self.dir.clone(),
            message: error.to_string(),
        };
        let mut components: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut settings: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut files = BTreeSet::new();
        for entry in fs::read_dir(&self.dir).map_err(fail)? {
            let Ok(file) = entry.map_err(fail)?.file_name().into_string() else {
                continue;
            };
            // `..data` and what it points to belong to the kubelet, `.x.swp` to an editor.
            if file.starts_with('.') {
                continue;
            }
            let of = |ending: &str| file.strip_suffix(ending).map(str::to_owned);
            if let Some(name) = of(".wasm").or_else(|| of(".wasm.zst")) {
                components.entry(name).or_default().push(file.clone());
                files.insert(file);
            } else if let Some(name) = of(".yaml").or_else(|| of(".json")) {
                settings.entry(name).or_default().push(file);
            } else if let Some(name) = of(".yml") {
                tracing::warn!(
                    file,
                    "ignored: settings are read from {name}.yaml or {name}.json"
                );
            }
        }
        self.known.retain(|file, _| files.contains(file));
        let mut set = PluginSet::default();
        for (name, files) in components {
            let settings = settings.remove(&name).unwrap_or_default();
            let plugin = self.plugin(&name, &files, &settings);
            set.plugins.insert(name, plugin);
        }
        for file in settings.into_values().flatten() {
            tracing::warn!(
                file,
                "settings of no plugin: there is no .wasm or .wasm.zst of that name beside them"
            );
        }
        Ok(set)
    }

    fn plugin(
        &mut self,
        name: &str,
        files: &[String],
        settings: &[String],
    ) -> Result<PluginFile, DeliveryError> {
        check_name(name).map_err(|message| fault(&files[0], message))?;
        let file = only(files)?;
        let settings = match settings {
            [] => HostSettings::default(),
            settings => self.settings(only(settings)?)?,
        };
        let (digest, bytes) = self.component(file)?;
        if let Some((file, stated)) = self.beside(name, "sha256")? {
            // As sha256sum writes it, the name of the file follows.
            let stated = stated.split_whitespace().next().unwrap_or_default();
            check_digest(stated, &digest).map_err(|message| fault(&file, message))?;
        }
        let signature = self.beside(name, "sig")?;
        Ok(PluginFile {
            name: name.to_owned(),
            digest,
            bytes,
            settings,
            signature: signature.map(|(_, text)| text.trim().to_owned()),
        })
    }

    /// Name and text of the plugin's small file with this extension, if there is one.
    fn beside(
        &self,
        name: &str,
        extension: &str,
    ) -> Result<Option<(String, String)>, DeliveryError> {
        let file = format!("{name}.{extension}");
        let path = self.dir.join(&file);
        if fs::metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Ok(None);
        }
        let bytes = read(&path, MAX_BESIDE).map_err(|error| fault(&file, error))?;
        let text = String::from_utf8(bytes).map_err(|_| fault(&file, "is no text in UTF-8"))?;
        Ok(Some((file, text)))
    }

    fn settings(&self, file: &str) -> Result<HostSettings, DeliveryError> {
        let bytes = read(&self.dir.join(file), MAX_SETTINGS).map_err(|error| fault(file, error))?;
        let text = String::from_utf8(bytes).map_err(|_| fault(file, "is no text in UTF-8"))?;
        HostSettings::parse(&text).map_err(|error| match error {
            LoadError::Settings(message) => fault(file, message),
            other => fault(file, other),
        })
    }

    fn component(&mut self, file: &str) -> Component {
        let path = self.dir.join(file);
        let before = Fingerprint::of(&fs::metadata(&path).map_err(|error| fault(file, error))?);
        if let Some((fingerprint, component)) = self.known.get(file)
            && *fingerprint == before
        {
            return component.clone();
        }
        let component = read(&path, MAX_BYTES)
            .and_then(|bytes| {
                if file.ends_with(".zst") {
                    unpack(&bytes)
                } else {
                    Ok(bytes)
                }
            })
            .map(|bytes| (digest(&bytes), Bytes::from(bytes)));
        // The system's refusal (no descriptors, an error of the disk) is not the file's fault.
        let passing = matches!(&component, Err(error) if error.raw_os_error().is_some());
        let component = component.map_err(|error| fault(file, error));
        // What may pass, or changed while it was read, is read again, at the latest by the next poll.
        if !passing && fs::metadata(&path).is_ok_and(|after| Fingerprint::of(&after) == before) {
            self.known
                .insert(file.to_owned(), (before, component.clone()));
        }
        component
    }
}

/// Reads a component (`.wasm.zst`, or anything else as it is) and the text of its settings, wherever they lie.
///
/// # Errors
/// [`DeliveryError::File`], as for a file of a directory.
pub fn read_plugin(
    name: &str,
    path: &Path,
    settings: Option<&str>,
) -> Result<PluginFile, DeliveryError> {
    let file = path.display().to_string();
    check_name(name).map_err(|message| fault(&file, message))?;
    let bytes = read(path, MAX_BYTES).map_err(|error| fault(&file, error))?;
    let bytes = if file.ends_with(".zst") {
        unpack(&bytes).map_err(|error| fault(&file, error))?
    } else {
        bytes
    };
    let settings = HostSettings::parse(settings.unwrap_or_default())
        .map_err(|error| fault(&format!("settings of {name}"), error))?;
    Ok(PluginFile::new(name, bytes.into(), settings))
}

/// What a plugin may be called.
pub(super) fn check_name(name: &str) -> Result<(), &'static str> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 63 || !name.chars().all(legal) {
        return Err("a plugin's name has 1 to 63 letters, digits, '-', '_' and '.'");
    }
    Ok(())
}

/// Compares the digest that is stated, with or without `sha256:` before it, to that of the bytes.
pub(super) fn check_digest(stated: &str, found: &str) -> Result<(), String> {
    let hex = stated.strip_prefix("sha256:").unwrap_or(stated);
    if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(format!(
            "{stated:?} is no digest: sha256: and 64 hex digits are"
        ));
    }
    if !hex.eq_ignore_ascii_case(found) {
        return Err(format!(
            "says {stated}, but the component has sha256:{found}: they do not belong together"
        ));
    }
    Ok(())
}

fn fault(file: &str, message: impl ToString) -> DeliveryError {
    DeliveryError::File {
        file: file.to_owned(),
        message: message.to_string(),
    }
}

fn only(files: &[String]) -> Result<&str, DeliveryError> {
    match files {
        [file] => Ok(file),
        several => Err(fault(
            &several.join(", "),
            "one plugin may have only one of them",
        )),
    }
}

fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // Before it is opened: to open a FIFO is to wait for who writes into it.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("is no file"));
    }
    bounded(File::open(path)?, limit)
}

/// Unpacks zstd, up to the bound of components.
pub(super) fn unpack(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let decoder = zstd::stream::read::Decoder::with_buffer(bytes)?;
    bounded(decoder, MAX_BYTES).map_err(|error| io::Error::other(format!("unpacking: {error}")))
}

fn bounded(reader: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("has more than {limit} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_fifo_is_refused_and_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo.wasm");
        let made = std::process::Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap();
        assert!(made.success());
        assert_eq!(super::read(&path, 1).unwrap_err().to_string(), "is no file");
    }

    use std::os::unix::fs::symlink;

    use super::*;
    use joinery_resource::Mode;

    fn dir(files: &[(&str, &[u8])]) -> (tempfile::TempDir, Scanner) {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        let scanner = Scanner::new(dir.path().to_owned());
        (dir, scanner)
    }

    fn error(set: &PluginSet, name: &str) -> String {
        set.plugins[name].as_ref().unwrap_err().to_string()
    }

    #[test]
    fn plugins_are_files_with_or_without_settings() {
        let packed = zstd::encode_all(&b"packed"[..], 0).unwrap();
        let (_dir, mut scanner) = dir(&[
            ("a.wasm", b"plain"),
            ("b.wasm.zst", &packed),
            ("b.yaml", b"mode: live\n"),
            ("README.md", b"-"),
            (".c.wasm.swp", b"-"),
        ]);
        let set = scanner.scan().unwrap();
        assert_eq!(set.plugins.keys().collect::<Vec<_>>(), ["a", "b"]);
        let a = set.plugins["a"].as_ref().unwrap();
        assert_eq!(
            (&a.bytes[..], &a.settings),
            (&b"plain"[..], &HostSettings::default())
        );
        let b = set.plugins["b"].as_ref().unwrap();
        assert_eq!(
            (&b.bytes[..], b.settings.mode),
            (&b"packed"[..], Mode::Live)
        );
        assert_eq!(b.digest, digest(b"packed"));
    }

    #[test]
    fn a_bad_plugin_does_not_hide_the_good_ones() {
        let (dir, mut scanner) = dir(&[
            ("good.wasm", b"x"),
            ("twice.wasm", b"x"),
            ("twice.wasm.zst", b"x"),
            ("broken.wasm.zst", b"not zstd"),
            ("settings.wasm", b"x"),
            ("settings.json", b"{\"mode\":\"fast\"}"),
            ("two settings.wasm", b"x"),
        ]);
        fs::create_dir(dir.path().join("folder.wasm")).unwrap();
        symlink("nowhere", dir.path().join("dangling.wasm")).unwrap();
        let set = scanner.scan().unwrap();
        assert!(set.plugins["good"].is_ok());
        assert_eq!(
            error(&set, "twice"),
            "twice.wasm, twice.wasm.zst: one plugin may have only one of them"
        );
        assert!(error(&set, "broken").starts_with("broken.wasm.zst: unpacking"));
        assert!(error(&set, "settings").starts_with("settings.json: "));
        assert!(error(&set, "two settings").contains("a plugin's name has"));
        assert_eq!(error(&set, "folder"), "folder.wasm: is no file");
        assert!(error(&set, "dangling").starts_with("dangling.wasm: No such file"));
    }

    #[test]
    fn a_digest_beside_a_plugin_is_checked_and_a_signature_is_taken_along() {
        let good = format!("{}  good.wasm\n", digest(b"x"));
        let bad = format!("sha256:{}", digest(b"y"));
        let (dir, mut scanner) = dir(&[
            ("good.wasm", b"x"),
            ("good.sha256", good.as_bytes()),
            ("good.sig", b"c2ln\n"),
            ("bad.wasm", b"x"),
            ("bad.sha256", bad.as_bytes()),
            ("odd.wasm", b"x"),
            ("odd.sha256", b"?"),
        ]);
        let set = scanner.scan().unwrap();
        let good = set.plugins["good"].as_ref().unwrap();
        assert_eq!(good.signature.as_deref(), Some("c2ln"));
        assert!(error(&set, "bad").starts_with("bad.sha256: says sha256:"));
        assert!(error(&set, "odd").starts_with("odd.sha256: \"?\" is no digest"));
        fs::write(dir.path().join("good.sig"), "bmV3").unwrap();
        assert_ne!(scanner.scan().unwrap(), set, "a signature is seen alone");
    }

    #[test]
    fn what_unpacks_to_too_much_is_not_unpacked() {
        let bomb = zstd::encode_all(io::repeat(0).take(1 << 26), 1).unwrap();
        let (_dir, mut scanner) = dir(&[("bomb.wasm.zst", &bomb)]);
        assert!(error(&scanner.scan().unwrap(), "bomb").ends_with("has more than 33554432 bytes"));
    }

    #[test]
    fn the_swap_of_a_mounted_config_map_is_seen() {
        let (dir, mut scanner) = dir(&[]);
        for (version, text) in [("..1", "one"), ("..2", "two")] {
            fs::create_dir(dir.path().join(version)).unwrap();
            fs::write(dir.path().join(version).join("a.wasm"), text).unwrap();
        }
        symlink("..1", dir.path().join("..data")).unwrap();
        symlink("..data/a.wasm", dir.path().join("a.wasm")).unwrap();
        assert_eq!(
            &scanner.scan().unwrap().plugins["a"].as_ref().unwrap().bytes[..],
            b"one"
        );
        symlink("..2", dir.path().join("..tmp")).unwrap();
        fs::rename(dir.path().join("..tmp"), dir.path().join("..data")).unwrap();
        let set = scanner.scan().unwrap();
        assert_eq!(set.plugins.len(), 1);
        assert_eq!(&set.plugins["a"].as_ref().unwrap().bytes[..], b"two");
    }

    #[test]
    fn a_missing_directory_is_named() {
        let error = Scanner::new("/no/such/place".into())
            .scan()
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("plugin directory /no/such/place: No such file"),
            "{error}"
        );
    }
}
