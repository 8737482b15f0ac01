//! Who asks, and whether they may.

use std::sync::Arc;

use async_trait::async_trait;
use joinery_object::Status;

/// An authenticated user (k8s.io/apiserver/pkg/authentication/user.Info).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct User {
    /// E.g. `system:serviceaccount:default:x`.
    pub name: String,
    /// Empty where unknown.
    pub uid: String,
    /// With `system:authenticated` or `system:unauthenticated`.
    pub groups: Vec<String>,
    /// Keys in lower case.
    pub extra: Vec<(String, Vec<String>)>,
}

/// What is to be allowed (authorization.k8s.io/v1 ResourceAttributes or NonResourceAttributes).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Attributes {
    /// A request for a resource.
    Resource {
        /// E.g. `list`.
        verb: String,
        /// API group; empty for core.
        group: String,
        /// API version.
        version: String,
        /// Plural.
        resource: String,
        /// Empty for the resource itself.
        subresource: String,
        /// None: across all namespaces, or a cluster-scoped resource.
        namespace: Option<String>,
        /// None for collections.
        name: Option<String>,
        /// The label selector of a list, watch or deletecollection, as it was sent; empty for none.
        label_selector: String,
        /// The field selector likewise.
        field_selector: String,
    },
    /// A request for a path that is no resource.
    Path {
        /// E.g. `/healthz`.
        path: String,
        /// The HTTP method in lower case.
        verb: String,
    },
}

/// The answer to "may they?".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// They may.
    Allowed,
    /// They may not; the reason goes into the 403's message when not empty.
    Denied(String),
}

/// Decides who may do what.
#[async_trait]
pub trait Authorizer: Send + Sync + 'static {
    /// Whether the user may.
    ///
    /// # Errors
    /// When no decision could be had; the request then fails with this status, never succeeds.
    async fn authorize(&self, user: &User, attributes: &Attributes) -> Result<Decision, Status>;
}

/// A shared authorizer.
pub type SharedAuthorizer = Arc<dyn Authorizer>;
