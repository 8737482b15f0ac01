//! The serving certificate and its reload.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest as _, Sha256};

/// A certificate or key that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The text is no PEM of the kind wanted.
    #[error("{what} is no PEM that holds one: {source}")]
    Pem {
        /// `certificate` or `private key`.
        what: &'static str,
        /// Why.
        source: rustls_pki_types::pem::Error,
    },
    /// There is no certificate in it.
    #[error("the certificate file holds no certificate")]
    Empty,
    /// The key does not fit the certificate, or is of an unknown kind.
    #[error("certificate and private key cannot be used together: {0}")]
    Mismatch(#[from] rustls::Error),
}

/// A certificate chain with its key.
#[derive(Clone, Debug)]
pub struct ServingIdentity(pub(super) Arc<CertifiedKey>);

impl ServingIdentity {
    /// Reads PEM texts and checks that they belong together.
    ///
    /// # Errors
    /// When a text holds nothing usable, or the key is not that of the first certificate.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, ServingError> {
        let chain = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|source| ServingError::Pem {
                what: "certificate",
                source,
            })?;
        if chain.is_empty() {
            return Err(ServingError::Empty);
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|source| ServingError::Pem {
            what: "private key",
            source,
        })?;
        let provider = rustls::crypto::ring::default_provider();
        Ok(Self(Arc::new(CertifiedKey::from_der(
            chain, key, &provider,
        )?)))
    }

    /// When the first certificate ends, in seconds since 1970.
    pub fn expires(&self) -> Option<i64> {
        let leaf = self.0.cert.first()?;
        let (_, certificate) = x509_parser::parse_x509_certificate(leaf).ok()?;
        Some(certificate.validity().not_after.timestamp())
    }
}

/// Where the serving certificate comes from.
#[derive(Clone, Debug)]
pub enum ServingSource {
    /// It never changes.
    Fixed(ServingIdentity),
    /// PEM files, read again while serving. Symbolic links are followed each time, as a mounted Secret needs it.
    Files {
        /// The chain, leaf first.
        certificate: PathBuf,
        /// PKCS#8, PKCS#1 or SEC1.
        key: PathBuf,
    },
}

impl ServingSource {
    /// Reads the identity, and a digest by which a change is seen.
    ///
    /// # Errors
    /// When a file cannot be read or the two do not belong together, as while one of them is being exchanged.
    pub(super) async fn read(&self) -> Result<(ServingIdentity, [u8; 32]), ServingError> {
        match self {
            Self::Fixed(identity) => Ok((identity.clone(), [0; 32])),
            Self::Files { certificate, key } => {
                let read = async |path: &PathBuf| {
                    tokio::fs::read(path)
                        .await
                        .map_err(|source| ServingError::Read {
                            path: path.clone(),
                            source,
                        })
                };
                let (certificate, key) = (read(certificate).await?, read(key).await?);
                let digest = Sha256::new()
                    .chain_update(&certificate)
                    .chain_update([0])
                    .chain_update(&key)
                    .finalize();
                Ok((
                    ServingIdentity::from_pem(&certificate, &key)?,
                    digest.into(),
                ))
            }
        }
    }
}
