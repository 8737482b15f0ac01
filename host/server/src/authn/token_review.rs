//! Bearer tokens that kube-apiserver judges, by TokenReview.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use joinery_resource::User;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use kube::api::PostParams;
use kube::{Api, Client};
use prometheus_client::registry::Registry;
use sha2::{Digest as _, Sha256};

use super::{Authenticator, Credentials, Rejected, bearer_token};
use crate::expiring::Expiring;
use crate::retry::{Requests, retry};

/// As k8s.io/apiserver's delegated authentication: both answers hold for 10 s.
const LIFETIME: Duration = Duration::from_secs(10);
const CAPACITY: usize = 8192;

/// Asks kube-apiserver about each token. Errors are not remembered.
pub struct TokenReviews {
    api: Api<TokenReview>,
    requests: Requests,
    /// By the token's digest: none for a token that does not hold.
    answers: Expiring<[u8; 32], Option<User>>,
}

impl TokenReviews {
    /// The client needs the right to create tokenreviews (ClusterRole `system:auth-delegator`).
    pub fn new(client: Client) -> Self {
        Self {
            api: Api::all(client),
            requests: Requests::default(),
            answers: Expiring::new(CAPACITY, LIFETIME),
        }
    }

    /// Adds the metric of the requests to a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "apiserver_delegated_authn_request",
            "TokenReviews sent, by the code of the answer",
            self.requests.clone(),
        );
    }

    async fn review(&self, token: &str) -> Result<Option<User>, kube::Error> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let answer = self.api.create(&PostParams::default(), &review).await?;
        let status = answer.status.unwrap_or_default();
        if status.authenticated != Some(true) {
            return Ok(None);
        }
        Ok(Some(user(status.user.unwrap_or_default())))
    }
}

fn user(info: UserInfo) -> User {
    let extra: BTreeMap<_, _> = info.extra.unwrap_or_default();
    User {
        name: info.username.unwrap_or_default(),
        uid: info.uid.unwrap_or_default(),
        groups: info.groups.unwrap_or_default(),
        extra: extra.into_iter().collect(),
    }
}

#[async_trait]
impl Authenticator for TokenReviews {
    async fn authenticate(&self, credentials: Credentials<'_>) -> Result<Option<User>, Rejected> {
        let Some(token) = bearer_token(credentials.headers) else {
            return Ok(None);
        };
        let key: [u8; 32] = Sha256::digest(token).into();
        let answer = match self.answers.get(&key) {
            Some(answer) => answer,
            None => {
                let answer = retry(&self.requests, || self.review(token))
                    .await
                    .map_err(|e| Rejected(format!("the token cannot be reviewed: {e}")))?;
                self.answers.put(key, answer.clone());
                answer
            }
        };
        match answer {
            Some(user) => Ok(Some(user)),
            None => Err(Rejected("the token does not hold".to_owned())),
        }
    }

    fn name(&self) -> &'static str {
        "bearer"
    }
}
