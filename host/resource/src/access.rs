//! Who asks, and whether they may.

use std::sync::Arc;

use async_trait::async_trait;
use joinery_object::{GroupVersionResource, Status};

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

/// May do everything without being asked about (k8s.io/apiserver/pkg/authentication/user.SystemPrivilegedGroup).
pub const MASTERS: &str = "system:masters";

/// Lets the request pass or says why not.
///
/// # Errors
/// 403 with kube-apiserver's wording, or what the authorizer fails with.
pub async fn check(
    authorizer: &dyn Authorizer,
    user: &User,
    attributes: &Attributes,
) -> Result<(), Status> {
    if user.groups.iter().any(|group| group == MASTERS) {
        return Ok(());
    }
    match authorizer.authorize(user, attributes).await? {
        Decision::Allowed => Ok(()),
        Decision::Denied(reason) => Err(forbidden(user, attributes, &reason)),
    }
}

/// As k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go.
fn forbidden(user: &User, attributes: &Attributes, reason: &str) -> Status {
    let reason = if reason.is_empty() {
        String::new()
    } else {
        format!(": {reason}")
    };
    match attributes {
        Attributes::Path { path, verb } => Status::forbidden_path(&format!(
            "User {:?} cannot {verb} path {path:?}{reason}",
            user.name
        )),
        Attributes::Resource {
            verb,
            group,
            version,
            resource,
            subresource,
            namespace,
            name,
            ..
        } => {
            let what = if subresource.is_empty() {
                resource.clone()
            } else {
                format!("{resource}/{subresource}")
            };
            let place = match namespace {
                Some(namespace) => format!("in the namespace {namespace:?}"),
                None => "at the cluster scope".to_owned(),
            };
            Status::forbidden(
                &GroupVersionResource::new(group, version, resource),
                name.as_deref().unwrap_or_default(),
                &format!(
                    "User {:?} cannot {verb} resource {what:?} in API group {group:?} {place}{reason}",
                    user.name
                ),
            )
        }
    }
}
