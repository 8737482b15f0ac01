//! Users that present a client certificate themselves.

use std::sync::Arc;

use async_trait::async_trait;
use joinery_resource::User;

use super::{Authenticator, Credentials, Rejected, X509};
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
        if credentials.certificates.is_empty() {
            return Ok(None);
        }
        let trust = self.trust.current();
        let Some(ca) = &trust.client_ca else {
            // Fail closed: a certificate that nobody can verify is a rejected one.
            return Err(Rejected(
                "no authority for client certificates is known".to_owned(),
            ));
        };
        let subject = credentials.certificates.verified(ca, "client authority")?;
        if subject.name.is_empty() {
            return Err(Rejected(
                "the client certificate has no common name".to_owned(),
            ));
        }
        Ok(Some(User {
            name: subject.name.clone(),
            groups: subject.groups.clone(),
            ..User::default()
        }))
    }

    fn name(&self) -> &'static str {
        X509
    }
}
