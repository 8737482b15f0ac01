//! The rustls configuration of the moment, rebuilt when certificate or trust change.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::{DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};

use super::{ServingError, ServingIdentity, ServingSource, SharedTrust};

/// How often the serving files are read again. kube-apiserver waits up to a minute.
const REREAD: Duration = Duration::from_secs(10);

/// What new connections are accepted with. Open ones keep what they began with.
pub struct TlsConfig {
    source: ServingSource,
    trust: Arc<SharedTrust>,
    current: ArcSwap<ServerConfig>,
}

impl TlsConfig {
    /// Reads the serving certificate for the first time.
    ///
    /// # Errors
    /// When it cannot be read or used.
    pub async fn new(
        source: ServingSource,
        trust: Arc<SharedTrust>,
    ) -> Result<Arc<Self>, ServingError> {
        let (identity, _) = source.read().await?;
        let config = build(&identity, trust.current().subjects())?;
        Ok(Arc::new(Self {
            source,
            trust,
            current: ArcSwap::from_pointee(config),
        }))
    }

    /// For the next connection.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.current.load_full()
    }

    /// Follows the files and the trust until dropped. A certificate that cannot be used is reported and leaves the
    /// old one in place. `expiry` hears of each one in use: when it ends, in seconds since 1970.
    pub(crate) async fn follow(&self, expiry: impl Fn(i64)) {
        let mut trust_changes = self.trust.changes();
        let mut seen: Option<[u8; 32]> = None;
        let mut identity: Option<ServingIdentity> = None;
        loop {
            let mut changed = false;
            match self.source.read().await {
                Ok((new, digest)) => {
                    if seen.is_some_and(|old| old != digest) {
                        tracing::info!("serving certificate reloaded");
                    }
                    changed |= seen != Some(digest);
                    seen = Some(digest);
                    new.expires().into_iter().for_each(&expiry);
                    identity = Some(new);
                }
                Err(error) => {
                    tracing::error!(%error, "cannot reload the serving certificate; keeping the old one")
                }
            }
            changed |= trust_changes.has_changed().unwrap_or_default();
            trust_changes.mark_unchanged();
            if let Some(identity) = identity.as_ref().filter(|_| changed) {
                match build(identity, self.trust.current().subjects()) {
                    Ok(config) => self.current.store(Arc::new(config)),
                    Err(error) => tracing::error!(%error, "cannot use the serving certificate"),
                }
            }
            tokio::select! {
                () = tokio::time::sleep(REREAD) => {}
                changed = trust_changes.changed() => match changed {
                    // Mark it again: the loop looks at it above.
                    Ok(()) => trust_changes.mark_changed(),
                    Err(_) => std::future::pending().await,
                },
            }
        }
    }
}

fn build(
    identity: &ServingIdentity,
    subjects: Vec<DistinguishedName>,
) -> Result<ServerConfig, ServingError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(AcceptAny {
        algorithms: provider.signature_verification_algorithms,
        subjects,
    });
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(identity.0.clone())));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Accepts any client certificate whose key the client holds; whom it names is judged per request.
#[derive(Debug)]
struct AcceptAny {
    algorithms: WebPkiSupportedAlgorithms,
    subjects: Vec<DistinguishedName>,
}

impl ClientCertVerifier for AcceptAny {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.subjects
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
