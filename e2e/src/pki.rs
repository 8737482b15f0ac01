//! Certificates of one run. Every role has an authority of its own, so that a test which mixes roles up fails: the cluster's (clients and
//! kube-apiserver), the front proxy's (the aggregator's client certificate) and the serving one of the host.

use std::path::PathBuf;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::run_dir::RunDir;

/// Common name of the aggregator's client certificate, which `--requestheader-allowed-names` lists.
pub(crate) const FRONT_PROXY_NAME: &str = "front-proxy-client";

/// A certificate authority.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate with its private key, as PEM files.
#[derive(Debug, Clone)]
pub(crate) struct KeyPairFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Result<Authority> {
        let key = KeyPair::generate().context("cannot make a key")?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let certificate = params
            .self_signed(&key)
            .context("cannot make an authority")?;
        Ok(Authority {
            pem: certificate.pem(),
            issuer: Issuer::new(params, key),
        })
    }

    /// The authority's own certificate.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// A client certificate: the common name is the user's, the organization the group (RFC 5280 names as Kubernetes reads them).
    pub(crate) fn client(
        &self,
        run_dir: &RunDir,
        file: &str,
        user: &str,
        group: Option<&str>,
    ) -> Result<KeyPairFiles> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(run_dir, file, params)
    }

    /// A serving certificate for `names` (DNS names and IP addresses).
    pub(crate) fn server(
        &self,
        run_dir: &RunDir,
        file: &str,
        names: &[&str],
    ) -> Result<KeyPairFiles> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params =
            CertificateParams::new(names).context("a serving certificate's name is not valid")?;
        params.distinguished_name.push(DnType::CommonName, file);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(run_dir, file, params)
    }

    fn issue(
        &self,
        run_dir: &RunDir,
        file: &str,
        mut params: CertificateParams,
    ) -> Result<KeyPairFiles> {
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
        ];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().context("cannot make a key")?;
        let certificate = params
            .signed_by(&key, &self.issuer)
            .context("cannot sign a certificate")?;
        Ok(KeyPairFiles {
            certificate: run_dir.write(&format!("pki/{file}.crt"), &certificate.pem())?,
            key: run_dir.write(&format!("pki/{file}.key"), &key.serialize_pem())?,
        })
    }
}

/// The pair that signs ServiceAccount tokens: (public key, private key).
pub(crate) fn service_account_key(run_dir: &RunDir) -> Result<(PathBuf, PathBuf)> {
    let key = KeyPair::generate().context("cannot make a key")?;
    Ok((
        run_dir.write("pki/service-account.pub", &key.public_key_pem())?,
        run_dir.write("pki/service-account.key", &key.serialize_pem())?,
    ))
}
