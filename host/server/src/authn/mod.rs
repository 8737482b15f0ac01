//! Who asks: front proxy, then client certificate, then bearer token, then nobody.
//!
//! As k8s.io/apiserver's union authenticator: each [`Authenticator`] says "not mine", a user, or why the credential
//! does not hold. The first user wins. When nobody found one but a credential was rejected, the request is a 401 and
//! never anonymous. Headers that name a user mean nothing without a certificate of the front-proxy authority.

mod bearer;
mod certificate;
mod cluster;
mod front_proxy;
mod impersonate;
mod presented;
mod token_review;

use std::sync::Arc;

use async_trait::async_trait;
use http::HeaderMap;
use joinery_object::Status;
use joinery_resource::User;

pub use bearer::StaticTokens;
pub use certificate::ClientCertificates;
pub use cluster::{ClusterTrustError, follow_cluster_trust};
pub use front_proxy::FrontProxyHeaders;
pub(crate) use impersonate::impersonate;
pub use presented::Presented;
pub use token_review::TokenReviews;

/// What a request brings to say who it is from.
#[derive(Clone, Copy, Debug)]
pub struct Credentials<'a> {
    /// All headers of the request.
    pub headers: &'a HeaderMap,
    /// What the client presented in the handshake, not yet verified.
    pub certificates: &'a Presented,
}

/// A credential that does not hold. The text goes to the log; the client only learns `Unauthorized`.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Rejected(pub String);

/// One way of saying who asks.
#[async_trait]
pub trait Authenticator: Send + Sync + 'static {
    /// The user, or none when there is no credential of this kind.
    ///
    /// # Errors
    /// When there is one and it does not hold, or cannot be checked.
    async fn authenticate(&self, credentials: Credentials<'_>) -> Result<Option<User>, Rejected>;

    /// The word for it in metrics.
    fn name(&self) -> &'static str;
}

/// Several ways, in order.
#[derive(Clone)]
pub struct Authentication {
    ways: Arc<[Box<dyn Authenticator>]>,
}

/// Ways in which a certificate speaks.
pub(crate) const FRONT_PROXY: &str = "front-proxy";
pub(crate) const X509: &str = "x509";
/// Everybody who was authenticated is in it.
const AUTHENTICATED: &str = "system:authenticated";
/// The user of requests without any credential, and their group.
const ANONYMOUS: &str = "system:anonymous";
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";

impl Authentication {
    /// Tries these, in order. Without any credential the request is `system:anonymous`.
    pub fn new(ways: Vec<Box<dyn Authenticator>>) -> Self {
        Self { ways: ways.into() }
    }

    /// Who asks, and which way told so.
    ///
    /// # Errors
    /// 401 when credentials were brought and none of them holds.
    pub async fn authenticate(
        &self,
        credentials: Credentials<'_>,
    ) -> Result<(User, &'static str), Status> {
        let mut rejected = false;
        for way in self.ways.iter() {
            match way.authenticate(credentials).await {
                Ok(Some(mut user)) => {
                    if user.name != ANONYMOUS
                        && !user
                            .groups
                            .iter()
                            .any(|g| g == AUTHENTICATED || g == UNAUTHENTICATED)
                    {
                        user.groups.push(AUTHENTICATED.to_owned());
                    }
                    return Ok((user, way.name()));
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(way = way.name(), %error, "credential rejected");
                    rejected = true;
                }
            }
        }
        if rejected {
            return Err(Status::unauthorized());
        }
        let user = User {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..User::default()
        };
        Ok((user, "anonymous"))
    }
}

/// The token of an `Authorization: Bearer` header.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers
        .get(http::header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .trim();
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim_start();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
