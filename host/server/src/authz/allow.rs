//! Authorization without a cluster.

use async_trait::async_trait;
use joinery_object::Status;
use joinery_resource::{Attributes, Authorizer, Decision, User};

use crate::authn::UNAUTHENTICATED;

/// Everybody who was authenticated may do everything; nobody else may do anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowAuthenticated;

#[async_trait]
impl Authorizer for AllowAuthenticated {
    async fn authorize(&self, user: &User, _attributes: &Attributes) -> Result<Decision, Status> {
        Ok(if user.groups.iter().any(|g| g == UNAUTHENTICATED) {
            Decision::Denied(String::new())
        } else {
            Decision::Allowed
        })
    }
}
