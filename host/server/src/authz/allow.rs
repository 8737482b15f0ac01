//! Authorization without a cluster.

use async_trait::async_trait;
use joinery_object::Status;
use joinery_resource::{Attributes, Authorizer, Decision, User};

/// Nobody may do anything but `system:masters`, who are not asked about: there are no roles that could say otherwise. So
/// `kubectl --as` shows what somebody without rights is told.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdministratorsOnly;

#[async_trait]
impl Authorizer for AdministratorsOnly {
    async fn authorize(&self, _user: &User, _attributes: &Attributes) -> Result<Decision, Status> {
        Ok(Decision::Denied(
            "without a cluster there are no roles, only the administrator".to_owned(),
        ))
    }
}
