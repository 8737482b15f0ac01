//! Users that present a client certificate themselves.

use std::sync::Arc;

use async_trait::async_trait;
use joinery_resource::User;

use super::{Authenticator, Credentials, Rejected, X509, subject};
use crate::tls::SharedTrust;

/// Certificates of the client authority: CN is the user, each O a group.
pub struct ClientCertificates {
    trust: Arc<SharedTrust>,
}

impl ClientCertificates {
    /// The authority is the one that holds when a request comes.
    pub fn new(trust: Arc<SharedTrust>) -> Self {
        Self { trust }
    }
}

#[async_trait]
impl Authenticator for ClientCertificates {
    async fn authenticate(&self, credentials: Credentials<'_>) -> Result<Option<User>, Rejected> {
        let Some(leaf) = credentials.certificates.first() else {
            return Ok(None);
        };
        let trust = self.trust.current();
        let Some(ca) = &trust.client_ca else {
            // Fail closed: a certificate that nobody can verify is a rejected one.
            return Err(Rejected(
                "no authority for client certificates is known".to_owned(),
            ));
        };
        ca.verify(credentials.certificates)
            .map_err(|e| Rejected(format!("no certificate of the client authority: {e}")))?;
        let (name, groups) = subject(leaf)?;
        if name.is_empty() {
            return Err(Rejected(
                "the client certificate has no common name".to_owned(),
            ));
        }
        Ok(Some(User {
            name,
            groups,
            ..User::default()
        }))
    }

    fn name(&self) -> &'static str {
        X509
    }
}
