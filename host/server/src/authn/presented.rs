//! What a client presented in its handshake, and what was found of it.
//!
//! A connection carries thousands of requests, and to verify a chain costs more than to answer most of them. So a chain is
//! verified once for each authority; a verdict holds as long as that authority is the trusted one and the certificates last.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustls_pki_types::{CertificateDer, UnixTime};

use super::Rejected;
use crate::tls::CaBundle;

/// A chain that does not hold is looked at again after this: it may be one that is not valid yet.
const REFUSED: Duration = Duration::from_secs(1);
/// One for the client authority and one for the front proxies', now and before an exchange.
const VERDICTS: usize = 4;

/// A chain of certificates, leaf first, whose key the client holds, with the verdicts on it. The default is none at all.
#[derive(Debug, Default)]
pub struct Presented {
    chain: Vec<CertificateDer<'static>>,
    /// None: no certificate, or one that cannot be read.
    leaf: Option<Leaf>,
    /// When the first certificate of the chain ends, in seconds since 1970.
    ends: u64,
    verdicts: Mutex<Vec<Verdict>>,
}

/// What is read of the leaf.
#[derive(Debug)]
struct Leaf {
    /// CN and each O of the subject.
    subject: Subject,
    ends: i64,
}

/// A subject as a user: CN is the name, each O a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) groups: Vec<String>,
}

/// What one authority says of the chain.
#[derive(Debug)]
struct Verdict {
    of: Arc<CaBundle>,
    at: Instant,
    holds: Result<(), rustls::Error>,
}

impl Presented {
    /// The certificates of a handshake. Nothing of them is verified yet.
    pub fn new(chain: &[CertificateDer<'_>]) -> Self {
        let read = |certificate| {
            let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
            let ends = certificate.validity().not_after.timestamp();
            Some((subject(&certificate), ends))
        };
        let read: Vec<_> = chain.iter().map(|certificate| read(certificate)).collect();
        // Nothing is remembered of a chain that is not understood to its end.
        let ends = read
            .iter()
            .map(|read| read.as_ref().map_or(0, |(_, ends)| *ends))
            .min();
        let leaf = read.into_iter().next().flatten();
        Self {
            chain: chain.iter().map(|c| c.clone().into_owned()).collect(),
            leaf: leaf.map(|(subject, ends)| Leaf { subject, ends }),
            ends: ends.and_then(|ends| ends.try_into().ok()).unwrap_or(0),
            verdicts: Mutex::default(),
        }
    }

    /// Whether the client presented nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.chain.is_empty()
    }

    /// When the leaf ends, in seconds since 1970.
    pub(crate) fn leaf_ends(&self) -> Option<i64> {
        self.leaf.as_ref().map(|leaf| leaf.ends)
    }

    /// Who the leaf says the client is, if the chain leads to one of these authorities now.
    ///
    /// # Errors
    /// `whose` names the authority in why it does not.
    pub(super) fn verified(&self, by: &Arc<CaBundle>, whose: &str) -> Result<&Subject, Rejected> {
        self.verify(by)
            .map_err(|error| Rejected(format!("no certificate of the {whose}: {error}")))?;
        let leaf = self.leaf.as_ref();
        leaf.map(|leaf| &leaf.subject)
            .ok_or_else(|| Rejected("the client certificate cannot be read".to_owned()))
    }

    fn verify(&self, by: &Arc<CaBundle>) -> Result<(), rustls::Error> {
        let mut verdicts = self.verdicts.lock();
        if let Some(verdict) = verdicts.iter().find(|v| Arc::ptr_eq(&v.of, by)) {
            let lasts = match verdict.holds {
                Ok(()) => UnixTime::now().as_secs() <= self.ends,
                Err(_) => verdict.at.elapsed() < REFUSED,
            };
            if lasts {
                return verdict.holds.clone();
            }
        }
        verdicts.retain(|verdict| !Arc::ptr_eq(&verdict.of, by));
        if verdicts.len() >= VERDICTS {
            verdicts.remove(0);
        }
        let holds = by.verify(&self.chain);
        verdicts.push(Verdict {
            of: by.clone(),
            at: Instant::now(),
            holds: holds.clone(),
        });
        holds
    }
}

fn subject(certificate: &x509_parser::certificate::X509Certificate<'_>) -> Subject {
    let subject = certificate.subject();
    // Of several common names Go takes the last.
    let name = subject
        .iter_common_name()
        .last()
        .and_then(|cn| cn.as_str().ok())
        .unwrap_or_default()
        .to_owned();
    let groups = subject
        .iter_organization()
        .filter_map(|o| o.as_str().ok())
        .map(str::to_owned)
        .collect();
    Subject { name, groups }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose,
        IsCa, KeyPair,
    };
    use rustls_pki_types::pem::PemObject as _;

    type Authority = CertifiedIssuer<'static, KeyPair>;

    fn authority() -> (Authority, Arc<CaBundle>) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params
            .distinguished_name
            .push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let bundle = CaBundle::from_pem("bundle", &authority.pem()).unwrap();
        (authority, bundle.into())
    }

    /// A client's certificate that holds from `begins` to `ends`, in seconds from now.
    fn client(authority: &Authority, begins: i64, ends: i64) -> Presented {
        let at = |seconds| {
            let since = UnixTime::now()
                .as_secs()
                .checked_add_signed(seconds)
                .unwrap();
            rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(since)
        };
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "ann");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.not_before = at(begins);
        params.not_after = at(ends);
        let key = KeyPair::generate().unwrap();
        let pem = params.signed_by(&key, authority).unwrap().pem();
        Presented::new(&[CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()])
    }

    #[test]
    fn each_authority_has_its_own_verdict_and_gives_it_once() {
        let (ours, bundle) = authority();
        let (_, other) = authority();
        let client = client(&ours, -60, 60);
        for _ in 0..3 {
            assert_eq!(client.verified(&bundle, "x").unwrap().name, "ann");
            assert!(client.verified(&other, "x").is_err());
        }
        assert_eq!(client.verdicts.lock().len(), 2);
        for _ in 0..10 {
            assert!(client.verified(&authority().1, "x").is_err());
        }
        assert_eq!(client.verdicts.lock().len(), VERDICTS);
        assert!(client.verified(&bundle, "x").is_ok());
        assert!(Presented::default().verified(&bundle, "x").is_err());
    }

    #[test]
    fn a_certificate_that_ends_while_its_connection_lasts_holds_no_longer() {
        let (ours, bundle) = authority();
        let client = client(&ours, -60, 2);
        assert!(client.verified(&bundle, "x").is_ok());
        std::thread::sleep(Duration::from_millis(3100));
        assert!(client.verified(&bundle, "x").is_err());
    }

    #[test]
    fn a_certificate_that_begins_while_its_connection_lasts_holds_then() {
        let (ours, bundle) = authority();
        let client = client(&ours, 2, 60);
        assert!(client.verified(&bundle, "x").is_err());
        std::thread::sleep(Duration::from_millis(3100));
        assert!(client.verified(&bundle, "x").is_ok());
    }
}
