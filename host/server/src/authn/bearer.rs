//! Bearer tokens known from the start, for a server without a cluster.

use async_trait::async_trait;
use joinery_resource::User;
use sha2::{Digest as _, Sha256};

use super::{Authenticator, Credentials, Rejected, bearer_token};

/// A fixed set of tokens.
#[derive(Default)]
pub struct StaticTokens {
    /// By digest: comparing digests tells a guesser nothing about the token.
    users: Vec<([u8; 32], User)>,
}

impl StaticTokens {
    /// No token at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whoever brings this token is this user.
    #[must_use]
    pub fn with(mut self, token: &str, user: User) -> Self {
        self.users.push((Sha256::digest(token).into(), user));
        self
    }
}

#[async_trait]
impl Authenticator for StaticTokens {
    async fn authenticate(&self, credentials: Credentials<'_>) -> Result<Option<User>, Rejected> {
        let Some(token) = bearer_token(credentials.headers) else {
            return Ok(None);
        };
        let digest: [u8; 32] = Sha256::digest(token).into();
        self.users
            .iter()
            .find(|(known, _)| *known == digest)
            .map(|(_, user)| Some(user.clone()))
            .ok_or_else(|| Rejected("unknown bearer token".to_owned()))
    }

    fn name(&self) -> &'static str {
        "bearer"
    }
}
