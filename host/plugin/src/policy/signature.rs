//! Signatures of plugins.
//!
//! Signed is the text `sha256:` and the digest of the component in hex, without a line feed. A key is Ed25519 (RFC 8032)
//! or ECDSA on P-256 with SHA-256 (FIPS 186-5), its signature DER as in RFC 3279; both are what
//! `openssl pkeyutl -sign -rawin` and `cosign sign-blob` make. Public keys are SubjectPublicKeyInfo (RFC 8410 and RFC 5480),
//! private ones PKCS#8, all of them PEM.
//!
//! A signature says that its owner made the component. It does not say under which name, with which settings or until
//! when it may be used: an older version that was signed stays signed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair,
    UnparsedPublicKey, VerificationAlgorithm,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};

/// What a SubjectPublicKeyInfo of an Ed25519 key begins with; 32 bytes follow.
const ED25519_INFO: &[u8] = &[
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
/// What one of an uncompressed point on P-256 begins with; 65 bytes follow, the first of them 4.
const P256_INFO: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// A key that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("key {path}: {message}", path = .path.display())]
pub struct KeyError {
    /// The file, or the folder.
    pub path: PathBuf,
    /// What is wrong and what is allowed.
    pub message: String,
}

/// Why a plugin is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// There is none.
    #[error(
        "it is not signed: sign it with `joinery plugin pack --key`, or put NAME.sig beside it"
    )]
    Missing,
    /// It is no base64.
    #[error("its signature is not base64 in one line")]
    Encoding,
    /// None of the keys made it.
    #[error("its signature is of none of the {0} trusted keys, or of another component")]
    Untrusted(usize),
}

#[derive(Clone)]
struct PublicKey {
    algorithm: &'static dyn VerificationAlgorithm,
    bytes: Vec<u8>,
}

/// The keys whose owners may sign plugins.
#[derive(Clone)]
pub struct TrustedKeys(Arc<[PublicKey]>);

impl std::fmt::Debug for TrustedKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TrustedKeys({})", self.0.len())
    }
}

impl TrustedKeys {
    /// Reads a file of one or more public keys, or a folder of such files, whose names end in `.pem` or `.pub`.
    ///
    /// # Errors
    /// [`KeyError`], also when there is not a single key: that would refuse every plugin, which nobody means.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let fault = |path: &Path, message: String| KeyError {
            path: path.to_owned(),
            message,
        };
        let io = |path: &Path, error: std::io::Error| fault(path, error.to_string());
        let mut files = Vec::new();
        if path.is_dir() {
            for entry in std::fs::read_dir(path).map_err(|error| io(path, error))? {
                let file = entry.map_err(|error| io(path, error))?.path();
                let key = file
                    .extension()
                    .is_some_and(|extension| extension == "pem" || extension == "pub");
                if key && file.is_file() {
                    files.push(file);
                }
            }
            files.sort();
        } else {
            files.push(path.to_owned());
        }
        let mut keys = Vec::new();
        for file in files {
            let pem = std::fs::read(&file).map_err(|error| io(&file, error))?;
            let read = public_keys(&pem).map_err(|message| fault(&file, message))?;
            keys.extend(read);
        }
        if keys.is_empty() {
            let message = "there is no file *.pem or *.pub in it".to_owned();
            return Err(fault(path, message));
        }
        Ok(Self(keys.into()))
    }

    /// Whether one of the keys signed the component of this digest (hex).
    ///
    /// # Errors
    /// Why it is not so.
    pub fn verify(&self, digest: &str, signature: Option<&str>) -> Result<(), SignatureError> {
        let signature = signature.ok_or(SignatureError::Missing)?;
        let signature = STANDARD
            .decode(signature.trim())
            .map_err(|_| SignatureError::Encoding)?;
        let text = format!("sha256:{digest}");
        let good = |key: &PublicKey| {
            UnparsedPublicKey::new(key.algorithm, &key.bytes)
                .verify(text.as_bytes(), &signature)
                .is_ok()
        };
        if self.0.iter().any(good) {
            Ok(())
        } else {
            Err(SignatureError::Untrusted(self.0.len()))
        }
    }
}

fn public_keys(pem: &[u8]) -> Result<Vec<PublicKey>, String> {
    let kinds = "a PUBLIC KEY in PEM, of Ed25519 or of ECDSA on P-256";
    let mut keys = Vec::new();
    for key in SubjectPublicKeyInfoDer::pem_slice_iter(pem) {
        let key = key.map_err(|error| format!("needs {kinds}: {error}"))?;
        let (algorithm, bytes): (&'static dyn VerificationAlgorithm, _) =
            match (key.strip_prefix(ED25519_INFO), key.strip_prefix(P256_INFO)) {
                (Some(bytes), _) if bytes.len() == 32 => (&ED25519, bytes),
                (_, Some(bytes)) if bytes.len() == 65 && bytes[0] == 4 => {
                    (&ECDSA_P256_SHA256_ASN1, bytes)
                }
                _ => return Err(format!("is of another kind: needs {kinds}")),
            };
        keys.push(PublicKey {
            algorithm,
            bytes: bytes.to_vec(),
        });
    }
    if keys.is_empty() {
        return Err(format!("needs {kinds}"));
    }
    Ok(keys)
}

/// A private key that signs plugins.
pub struct SigningKey(Pair);

enum Pair {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
}

impl SigningKey {
    /// Reads a private key.
    ///
    /// # Errors
    /// [`KeyError`], when it is no PKCS#8 in PEM of Ed25519 or P-256.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let fault = |message: String| KeyError {
            path: path.to_owned(),
            message,
        };
        let pem = std::fs::read(path).map_err(|error| fault(error.to_string()))?;
        let kinds = "a PRIVATE KEY in PEM (PKCS#8), of Ed25519 or of ECDSA on P-256, as `openssl genpkey -algorithm \
                     ed25519` makes it";
        let key = PrivatePkcs8KeyDer::from_pem_slice(&pem)
            .map_err(|error| fault(format!("needs {kinds}: {error}")))?;
        let der = key.secret_pkcs8_der();
        if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            return Ok(Self(Pair::Ed25519(pair)));
        }
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, der, &SystemRandom::new())
            .map(|pair| Self(Pair::P256(pair)))
            .map_err(|error| fault(format!("needs {kinds}: {error}")))
    }

    /// Base64 of the signature over a component's digest (hex); none when the system has no random bytes, which ECDSA
    /// needs.
    pub fn sign(&self, digest: &str) -> Option<String> {
        let text = format!("sha256:{digest}");
        Some(match &self.0 {
            Pair::Ed25519(pair) => STANDARD.encode(pair.sign(text.as_bytes())),
            Pair::P256(pair) => {
                let signed = pair.sign(&SystemRandom::new(), text.as_bytes());
                STANDARD.encode(signed.ok()?)
            }
        })
    }

    /// The public key that belongs to it, PEM.
    pub fn public_pem(&self) -> String {
        use ring::signature::KeyPair as _;
        let der = match &self.0 {
            Pair::Ed25519(pair) => [ED25519_INFO, pair.public_key().as_ref()].concat(),
            Pair::P256(pair) => [P256_INFO, pair.public_key().as_ref()].concat(),
        };
        let mut pem = "-----BEGIN PUBLIC KEY-----\n".to_owned();
        let base64 = STANDARD.encode(der);
        for line in base64.as_bytes().chunks(64) {
            // Base64 is ASCII, and writing to a String cannot fail.
            _ = writeln!(pem, "{}", String::from_utf8_lossy(line));
        }
        pem.push_str("-----END PUBLIC KEY-----\n");
        pem
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A key of openssl's, so that what it makes is what we read; and its public half as openssl says it.
    fn key(dir: &Path, name: &str, arguments: &[&str]) -> (PathBuf, PathBuf) {
        let (private, public) = (
            dir.join(format!("{name}.key")),
            dir.join(format!("{name}.pem")),
        );
        let openssl = |arguments: &[&str], out: &Path| {
            let mut command = Command::new("openssl");
            let status = command.args(arguments).arg("-out").arg(out).output();
            assert!(status.unwrap().status.success(), "{arguments:?}");
        };
        openssl(&[&["genpkey"], arguments].concat(), &private);
        openssl(
            &["pkey", "-pubout", "-in", private.to_str().unwrap()],
            &public,
        );
        (private, public)
    }

    const ED: &[&str] = &["-algorithm", "ed25519"];
    const EC: &[&str] = &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];

    #[test]
    fn what_one_of_the_trusted_keys_signed_is_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let digest = "ab".repeat(32);
        for (name, arguments) in [("ed", ED), ("ec", EC)] {
            let (private, public) = key(dir.path(), name, arguments);
            let signing = SigningKey::read(&private).unwrap();
            assert_eq!(
                signing.public_pem(),
                std::fs::read_to_string(&public).unwrap()
            );
            let signature = signing.sign(&digest).unwrap();
            let keys = TrustedKeys::read(&public).unwrap();
            assert_eq!(keys.verify(&digest, Some(&signature)), Ok(()), "{name}");
            let other = "cd".repeat(32);
            assert_eq!(
                keys.verify(&other, Some(&signature)),
                Err(SignatureError::Untrusted(1))
            );
            assert_eq!(keys.verify(&digest, None), Err(SignatureError::Missing));
            assert_eq!(
                keys.verify(&digest, Some("?")),
                Err(SignatureError::Encoding)
            );
        }
        let both = TrustedKeys::read(dir.path()).unwrap();
        let (stranger, _) = key(&tempfile::tempdir().unwrap().keep(), "x", ED);
        let stranger = SigningKey::read(&stranger).unwrap().sign(&digest).unwrap();
        assert_eq!(
            both.verify(&digest, Some(&stranger)),
            Err(SignatureError::Untrusted(2))
        );
        let ours = SigningKey::read(&dir.path().join("ec.key")).unwrap();
        assert!(both.verify(&digest, ours.sign(&digest).as_deref()).is_ok());
    }

    #[test]
    fn what_openssl_signs_is_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let digest = "ab".repeat(32);
        let text = dir.path().join("text");
        std::fs::write(&text, format!("sha256:{digest}")).unwrap();
        for (name, arguments) in [("ed", ED), ("ec", EC)] {
            let (private, public) = key(dir.path(), name, arguments);
            let signature = dir.path().join("signature");
            let status = Command::new("openssl")
                .args(["pkeyutl", "-sign", "-rawin", "-inkey"])
                .arg(&private)
                .arg("-in")
                .arg(&text)
                .arg("-out")
                .arg(&signature)
                .status();
            assert!(status.unwrap().success());
            let signature = STANDARD.encode(std::fs::read(&signature).unwrap());
            let keys = TrustedKeys::read(&public).unwrap();
            assert_eq!(keys.verify(&digest, Some(&signature)), Ok(()), "{name}");
        }
    }

    #[test]
    fn keys_that_cannot_be_used_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = |path: &Path| TrustedKeys::read(path).unwrap_err().to_string();
        assert!(error(dir.path()).ends_with("there is no file *.pem or *.pub in it"));
        let path = dir.path().join("a.pem");
        std::fs::write(&path, "no key").unwrap();
        assert!(error(&path).contains("a.pem: needs a PUBLIC KEY in PEM"));
        assert!(error(dir.path()).contains("a.pem: needs a PUBLIC KEY in PEM"));
        let (private, public) = key(dir.path(), "rsa", &["-algorithm", "RSA"]);
        assert!(error(&public).contains("rsa.pem: is of another kind"));
        assert!(SigningKey::read(&private).is_err());
        assert!(error(&private).contains("needs a PUBLIC KEY"));
        assert!(error(&dir.path().join("none")).contains("No such file"));
    }
}
