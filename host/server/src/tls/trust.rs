//! Which certificates of clients are believed: the content of `kube-system/extension-apiserver-authentication`.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{DistinguishedName, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, UnixTime};
use tokio::sync::watch;

/// Trust that cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TrustError {
    /// Not PEM, or no certificate in it.
    #[error("{0} holds no usable certificate: {1}")]
    Bundle(&'static str, String),
    /// One of the lists is no JSON array of strings.
    #[error("{0} is no JSON array of strings: {1}")]
    List(&'static str, String),
}

/// Certificate authorities, as a PEM bundle holds them.
#[derive(Debug)]
pub struct CaBundle {
    verifier: Arc<dyn ClientCertVerifier>,
}

impl CaBundle {
    /// Reads a PEM bundle.
    ///
    /// # Errors
    /// When it holds no certificate, or one that is malformed.
    pub fn from_pem(name: &'static str, pem: &str) -> Result<Self, TrustError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|e| TrustError::Bundle(name, e.to_string()))?;
            roots
                .add(certificate)
                .map_err(|e| TrustError::Bundle(name, e.to_string()))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|e| TrustError::Bundle(name, e.to_string()))?;
        Ok(Self { verifier })
    }

    /// Whether the chain (leaf first) leads to one of these authorities, now, for client authentication.
    ///
    /// # Errors
    /// Why not.
    pub fn verify(&self, chain: &[CertificateDer<'_>]) -> Result<(), rustls::Error> {
        let Some((leaf, intermediates)) = chain.split_first() else {
            return Err(rustls::Error::NoCertificatesPresented);
        };
        self.verifier
            .verify_client_cert(leaf, intermediates, UnixTime::now())
            .map(drop)
    }

    /// The names that a CertificateRequest lists.
    pub fn subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }
}

/// How a front proxy names the user it speaks for, and which proxies are believed.
#[derive(Debug)]
pub struct FrontProxy {
    /// Signs the proxies' certificates.
    pub ca: Arc<CaBundle>,
    /// Common names of proxies; empty for any.
    pub allowed_names: Vec<String>,
    /// Headers with the user's name; the first that is there counts.
    pub username_headers: Vec<String>,
    /// Headers with the user's uid.
    pub uid_headers: Vec<String>,
    /// Headers with groups; all count.
    pub group_headers: Vec<String>,
    /// Prefixes of headers with extra fields.
    pub extra_prefixes: Vec<String>,
}

/// Which certificates are believed at one moment. The default believes none.
#[derive(Debug, Default)]
pub struct Trust {
    /// None: headers that name a user are not believed from anyone.
    pub front_proxy: Option<FrontProxy>,
    /// None: no certificate authenticates a user.
    pub client_ca: Option<Arc<CaBundle>>,
}

impl Trust {
    /// Reads the data of the ConfigMap `kube-system/extension-apiserver-authentication`. What is missing there is off.
    ///
    /// # Errors
    /// When something is there and malformed; then nothing of it should be used.
    pub fn from_config_map(data: &BTreeMap<String, String>) -> Result<Self, TrustError> {
        let text = |key: &'static str| data.get(key).map(|v| v.trim()).filter(|v| !v.is_empty());
        let list = |key: &'static str| -> Result<Vec<String>, TrustError> {
            text(key).map_or(Ok(Vec::new()), |json| {
                serde_json::from_str(json).map_err(|e| TrustError::List(key, e.to_string()))
            })
        };
        let front_proxy = match text("requestheader-client-ca-file") {
            Some(pem) => Some(FrontProxy {
                ca: CaBundle::from_pem("requestheader-client-ca-file", pem)?.into(),
                allowed_names: list("requestheader-allowed-names")?,
                username_headers: list("requestheader-username-headers")?,
                uid_headers: list("requestheader-uid-headers")?,
                group_headers: list("requestheader-group-headers")?,
                extra_prefixes: list("requestheader-extra-headers-prefix")?,
            }),
            None => None,
        };
        let client_ca = match text("client-ca-file") {
            Some(pem) => Some(CaBundle::from_pem("client-ca-file", pem)?.into()),
            None => None,
        };
        Ok(Self {
            front_proxy,
            client_ca,
        })
    }

    /// The names of all authorities, for the CertificateRequest: Go's clients send no certificate unless its issuer is
    /// named there.
    pub fn subjects(&self) -> Vec<DistinguishedName> {
        let mut subjects = Vec::new();
        for bundle in self
            .front_proxy
            .iter()
            .map(|proxy| &proxy.ca)
            .chain(self.client_ca.iter())
        {
            for subject in bundle.subjects() {
                let known = |other: &DistinguishedName| other.as_ref() == subject.as_ref();
                if !subjects.iter().any(known) {
                    subjects.push(subject.clone());
                }
            }
        }
        subjects
    }
}

/// The trust that holds now, exchanged while requests are served.
#[derive(Debug)]
pub struct SharedTrust {
    current: ArcSwap<Trust>,
    changed: watch::Sender<()>,
}

impl SharedTrust {
    /// Begins with this trust.
    pub fn new(trust: Trust) -> Arc<Self> {
        Arc::new(Self {
            current: ArcSwap::from_pointee(trust),
            changed: watch::channel(()).0,
        })
    }

    /// What holds now.
    pub fn current(&self) -> Arc<Trust> {
        self.current.load_full()
    }

    /// From the next request on this holds, also on connections that are open.
    pub fn replace(&self, trust: Trust) {
        self.current.store(Arc::new(trust));
        self.changed.send_replace(());
    }

    /// Resolves after each exchange.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}
