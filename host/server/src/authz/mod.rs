//! May they: `system:masters`, the health paths, then whoever decides.

mod allow;
mod review;

use joinery_object::{GroupVersionResource, Status};
use joinery_resource::{Attributes, Authorizer, Decision, User};

pub use allow::AllowAuthenticated;
pub use review::SubjectAccessReviews;

/// May do everything, so that kube-apiserver's own probes do not depend on a SubjectAccessReview.
pub(crate) const MASTERS: &str = "system:masters";

/// These, and nothing below them, are for everybody.
const ALWAYS_ALLOWED: [&str; 3] = ["/healthz", "/readyz", "/livez"];

/// Whether the user may, in the order of k8s.io/apiserver/pkg/server/options/authorization.go.
///
/// # Errors
/// 403 with kube-apiserver's wording, or what the authorizer fails with.
pub(crate) async fn check(authorizer: &dyn Authorizer, user: &User, attributes: &Attributes) -> Result<(), Status> {
    if user.groups.iter().any(|group| group == MASTERS) {
        return Ok(());
    }
    if let Attributes::Path { path, .. } = attributes
        && ALWAYS_ALLOWED.contains(&path.as_str())
    {
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
        Attributes::Path { path, verb } => {
            Status::forbidden_path(&format!("User {:?} cannot {verb} path {path:?}{reason}", user.name))
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_says_who_what_and_where() {
        let user = User {
            name: "u".to_owned(),
            ..User::default()
        };
        let mut attributes = Attributes::Resource {
            verb: "list".to_owned(),
            group: "g".to_owned(),
            version: "v1".to_owned(),
            resource: "flunders".to_owned(),
            subresource: String::new(),
            namespace: Some("n".to_owned()),
            name: None,
            label_selector: String::new(),
            field_selector: String::new(),
        };
        assert_eq!(
            forbidden(&user, &attributes, "").message,
            "flunders.g is forbidden: User \"u\" cannot list resource \"flunders\" in API group \"g\" in the \
             namespace \"n\""
        );
        if let Attributes::Resource {
            namespace,
            name,
            subresource,
            ..
        } = &mut attributes
        {
            *namespace = None;
            *name = Some("x".to_owned());
            *subresource = "status".to_owned();
        }
        assert_eq!(
            forbidden(&user, &attributes, "no").message,
            "flunders.g \"x\" is forbidden: User \"u\" cannot list resource \"flunders/status\" in API group \"g\" at \
             the cluster scope: no"
        );
        let path = Attributes::Path {
            path: "/x".to_owned(),
            verb: "get".to_owned(),
        };
        assert_eq!(
            forbidden(&user, &path, "").message,
            "forbidden: User \"u\" cannot get path \"/x\""
        );
    }
}
