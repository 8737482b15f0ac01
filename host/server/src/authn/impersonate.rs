//! `Impersonate-*`: acting as somebody else, as `kubectl --as` does on direct calls.
//!
//! Each part (user, each group, uid, each extra value) needs the verb `impersonate` on it, as in
//! k8s.io/apiserver/pkg/endpoints/filters/impersonation.

use http::HeaderMap;
use joinery_object::Status;
use joinery_resource::{Attributes, Authorizer, User};

use super::front_proxy::unescape_key;
use super::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED};
use crate::authz;

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const EXTRA: &str = "impersonate-extra-";

/// The user that the request is to be made as: the one who asks, unless the headers name another.
///
/// # Errors
/// 403 when it is not allowed, 400 when the headers are incomplete.
pub(crate) async fn impersonate(
    user: User,
    headers: &HeaderMap,
    authorizer: &dyn Authorizer,
) -> Result<User, Status> {
    if !headers
        .keys()
        .any(|name| name.as_str().starts_with("impersonate-"))
    {
        return Ok(user);
    }
    let text = |name: &str| {
        headers
            .get(name)
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default()
    };
    let name = text("impersonate-user");
    if name.is_empty() {
        return Err(Status::bad_request(
            "requested impersonation without impersonating a user: Impersonate-User is missing",
        ));
    }
    let mut other = User {
        name: name.to_owned(),
        uid: text("impersonate-uid").to_owned(),
        groups: headers
            .get_all("impersonate-group")
            .iter()
            .filter_map(|v| v.to_str().ok())
            .map(str::to_owned)
            .collect(),
        extra: Vec::new(),
    };
    let account = name
        .strip_prefix(SERVICE_ACCOUNT)
        .and_then(|a| a.split_once(':'));
    let mut needed = match account {
        Some((namespace, name)) => vec![part("", "serviceaccounts", "", Some(namespace), name)],
        None => vec![part("", "users", "", None, name)],
    };
    needed.extend(
        other
            .groups
            .iter()
            .map(|group| part("", "groups", "", None, group)),
    );
    if !other.uid.is_empty() {
        needed.push(part("authentication.k8s.io", "uids", "", None, &other.uid));
    }
    for (header, value) in headers {
        let (Some(key), Ok(value)) = (header.as_str().strip_prefix(EXTRA), value.to_str()) else {
            continue;
        };
        let key = unescape_key(key);
        needed.push(part(
            "authentication.k8s.io",
            "userextras",
            &key,
            None,
            value,
        ));
        match other.extra.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value.to_owned()),
            None => other.extra.push((key, vec![value.to_owned()])),
        }
    }
    for attributes in &needed {
        authz::check(authorizer, &user, attributes).await?;
    }
    if let Some((namespace, _)) = account.filter(|_| other.groups.is_empty()) {
        other.groups.push("system:serviceaccounts".to_owned());
        other
            .groups
            .push(format!("system:serviceaccounts:{namespace}"));
    }
    let own = if name == ANONYMOUS {
        UNAUTHENTICATED
    } else {
        AUTHENTICATED
    };
    if !other.groups.iter().any(|g| g == own) {
        other.groups.push(own.to_owned());
    }
    Ok(other)
}

fn part(
    group: &str,
    resource: &str,
    subresource: &str,
    namespace: Option<&str>,
    name: &str,
) -> Attributes {
    Attributes::Resource {
        verb: "impersonate".to_owned(),
        group: group.to_owned(),
        version: "v1".to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: Some(name.to_owned()),
        label_selector: String::new(),
        field_selector: String::new(),
    }
}
