//! Who a standalone host is and who may administer it: made once, kept in the data folder.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

/// Certificates are renewed at a start after so long; they hold for ten times that.
const RENEW_AFTER: Duration = Duration::from_secs(30 * 24 * 3600);

/// The files of a standalone host's identity.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// The certificate of the authority that signed the serving certificate, PEM.
    pub(crate) authority: String,
    /// Where the serving certificate lies.
    pub(crate) certificate: PathBuf,
    /// Where its key lies.
    pub(crate) key: PathBuf,
    /// The administrator's bearer token.
    pub(crate) token: String,
}

/// What is written first, and then renamed.
fn open_temporary(path: &Path) -> Result<(PathBuf, std::fs::File)> {
    let temporary = path.with_extension("new");
    let file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok((temporary, file))
}

/// Whether [`write_private`] could write there.
///
/// # Errors
/// When the folder is missing or not writable, or the path is a folder.
pub(crate) fn check_private(path: &Path) -> Result<()> {
    if path.is_dir() {
        bail!("cannot write {}: it is a folder", path.display());
    }
    let (temporary, _) = open_temporary(path)?;
    std::fs::remove_file(&temporary)
        .with_context(|| format!("cannot remove {}", temporary.display()))
}

/// Writes a file that only its owner reads, whole or not at all.
pub(crate) fn write_private(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    let (temporary, mut file) = open_temporary(path)?;
    file.write_all(content.as_ref())?;
    file.sync_all()?;
    std::fs::rename(&temporary, path).with_context(|| format!("cannot write {}", path.display()))
}

impl Identity {
    /// Reads the identity that a folder holds, or makes one.
    ///
    /// # Errors
    /// When the folder cannot be read or written.
    pub(crate) fn ensure(folder: &Path) -> Result<Self> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let path = |name: &str| folder.join(name);
        let young = std::fs::metadata(path("token"))
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|made| {
                SystemTime::now().duration_since(made).unwrap_or_default() < RENEW_AFTER
            });
        if !young {
            let (authority, certificate, key) = issue().context("cannot make certificates")?;
            write_private(&path("ca.crt"), &authority)?;
            write_private(&path("tls.crt"), &certificate)?;
            write_private(&path("tls.key"), &key)?;
            // Last: its age is that of all.
            write_private(&path("token"), random_token())?;
        }
        let read = |name: &str| {
            std::fs::read_to_string(path(name))
                .with_context(|| format!("cannot read {}", path(name).display()))
        };
        Ok(Self {
            authority: read("ca.crt")?,
            certificate: path("tls.crt"),
            key: path("tls.key"),
            token: read("token")?,
        })
    }

    /// An administrator's kubeconfig for a server at this address.
    pub(crate) fn kubeconfig(&self, url: &str) -> String {
        let config = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "joinery",
            "clusters": [{"name": "joinery", "cluster": {
                "server": url,
                "certificate-authority-data": base64(self.authority.as_bytes()),
            }}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "joinery", "context": {
                "cluster": "joinery", "user": "admin", "namespace": "default",
            }}],
        });
        // JSON is YAML, so kubectl reads it.
        format!("{config:#}\n")
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn random_token() -> String {
    // Two random UUIDs: 244 bits from the system's generator.
    let (a, b) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
    format!("{}{}", a.simple(), b.simple())
}

/// An authority, and a serving certificate for the loopback names that it signed; the authority's key is forgotten.
fn issue() -> Result<(String, String, String), rcgen::Error> {
    let until = SystemTime::now() + RENEW_AFTER * 10;
    let mut authority = CertificateParams::new(Vec::new())?;
    authority
        .distinguished_name
        .push(DnType::CommonName, "joinery-standalone-ca");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority.not_after = until.into();
    let authority_key = KeyPair::generate()?;
    let authority_certificate = authority.self_signed(&authority_key)?;
    let issuer = Issuer::new(authority, authority_key);

    let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let mut serving = CertificateParams::new(names)?;
    serving
        .distinguished_name
        .push(DnType::CommonName, "joinery-standalone");
    serving.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    serving.not_after = until.into();
    let key = KeyPair::generate()?;
    let certificate = serving.signed_by(&key, &issuer)?;
    Ok((
        authority_certificate.pem(),
        certificate.pem(),
        key.serialize_pem(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_identity_is_made_once_and_only_its_owner_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let first = Identity::ensure(&folder.path().join("pki")).unwrap();
        let second = Identity::ensure(&folder.path().join("pki")).unwrap();
        assert_eq!(first.token, second.token);
        assert_eq!(first.authority, second.authority);
        for path in [&first.key, &first.certificate] {
            let mode = std::fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
        }
    }
}
