//! May they: `system:masters`, the health paths, then whoever decides.

mod allow;
mod review;

use joinery_object::Status;
use joinery_resource::{Attributes, Authorizer, User};

pub use allow::AdministratorsOnly;
pub use review::SubjectAccessReviews;

/// These, and nothing below them, are for everybody.
const ALWAYS_ALLOWED: [&str; 3] = ["/healthz", "/readyz", "/livez"];

/// Whether the user may, in the order of k8s.io/apiserver/pkg/server/options/authorization.go: `system:masters`, so
/// that kube-apiserver's own probes depend on nobody, the health paths, then whoever decides.
///
/// # Errors
/// 403 with kube-apiserver's wording, or what the authorizer fails with.
pub(crate) async fn check(
    authorizer: &dyn Authorizer,
    user: &User,
    attributes: &Attributes,
) -> Result<(), Status> {
    if let Attributes::Path { path, .. } = attributes
        && ALWAYS_ALLOWED.contains(&path.as_str())
    {
        return Ok(());
    }
    joinery_resource::check(authorizer, user, attributes).await
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use joinery_resource::Decision;

    use super::*;

    struct Deny(&'static str);

    #[async_trait]
    impl Authorizer for Deny {
        async fn authorize(&self, _: &User, _: &Attributes) -> Result<Decision, Status> {
            Ok(Decision::Denied(self.0.to_owned()))
        }
    }

    async fn refusal(attributes: &Attributes, reason: &'static str) -> String {
        let user = User {
            name: "u".to_owned(),
            ..User::default()
        };
        check(&Deny(reason), &user, attributes)
            .await
            .unwrap_err()
            .message
    }

    #[tokio::test]
    async fn the_refusal_says_who_what_and_where() {
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
            refusal(&attributes, "").await,
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
            refusal(&attributes, "no").await,
            "flunders.g \"x\" is forbidden: User \"u\" cannot list resource \"flunders/status\" in API group \"g\" at \
             the cluster scope: no"
        );
        let path = Attributes::Path {
            path: "/x".to_owned(),
            verb: "get".to_owned(),
        };
        assert_eq!(
            refusal(&path, "").await,
            "forbidden: User \"u\" cannot get path \"/x\""
        );
    }
}
