//! Users that a front proxy vouches for, as kube-apiserver's aggregator does.

use std::sync::Arc;

use async_trait::async_trait;
use http::HeaderMap;
use joinery_resource::User;

use super::{Authenticator, Credentials, FRONT_PROXY, Rejected};
use crate::tls::{FrontProxy, SharedTrust};

/// Believes `X-Remote-*` (whatever the trust calls them) behind a certificate of the front-proxy authority.
pub struct FrontProxyHeaders {
    trust: Arc<SharedTrust>,
}

impl FrontProxyHeaders {
    /// Authority, allowed names and header names are those that hold when a request comes.
    pub fn new(trust: Arc<SharedTrust>) -> Self {
        Self { trust }
    }
}

#[async_trait]
impl Authenticator for FrontProxyHeaders {
    async fn authenticate(&self, credentials: Credentials<'_>) -> Result<Option<User>, Rejected> {
        let trust = self.trust.current();
        let certificates = credentials.certificates;
        let Some(proxy) = trust
            .front_proxy
            .as_ref()
            .filter(|_| !certificates.is_empty())
        else {
            return Ok(None);
        };
        let name = &certificates
            .verified(&proxy.ca, "front-proxy authority")?
            .name;
        if !proxy.allowed_names.is_empty() && !proxy.allowed_names.contains(name) {
            return Err(Rejected(format!("{name:?} is no allowed front proxy")));
        }
        Ok(user(proxy, credentials.headers))
    }

    fn name(&self) -> &'static str {
        FRONT_PROXY
    }
}

fn user(proxy: &FrontProxy, headers: &HeaderMap) -> Option<User> {
    let first = |names: &[String]| {
        names
            .iter()
            .filter_map(|name| headers.get(name.as_str())?.to_str().ok())
            .find(|value| !value.is_empty())
            .map(str::to_owned)
    };
    let name = first(&proxy.username_headers)?;
    let groups = proxy
        .group_headers
        .iter()
        .flat_map(|name| headers.get_all(name.as_str()))
        .filter_map(|value| value.to_str().ok())
        .map(str::to_owned)
        .collect();
    let mut extra: Vec<(String, Vec<String>)> = Vec::new();
    for prefix in &proxy.extra_prefixes {
        let prefix = prefix.to_ascii_lowercase();
        for (header, value) in headers {
            let (Some(key), Ok(value)) = (header.as_str().strip_prefix(&prefix), value.to_str())
            else {
                continue;
            };
            let key = unescape_key(key);
            match extra.iter_mut().find(|(known, _)| *known == key) {
                Some((_, values)) => values.push(value.to_owned()),
                None => extra.push((key, vec![value.to_owned()])),
            }
        }
    }
    extra.sort();
    Some(User {
        name,
        uid: first(&proxy.uid_headers).unwrap_or_default(),
        groups,
        extra,
    })
}

/// Header names cannot hold all that keys may, so they come percent-encoded. What is no encoding stays as it is.
pub(super) fn unescape_key(key: &str) -> String {
    // A plus is a plus here, unlike in a query.
    let escaped = key.replace('+', "%2B");
    let pair = format!("={escaped}");
    url::form_urlencoded::parse(pair.as_bytes())
        .next()
        .map(|(_, value)| value.to_lowercase())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_extra_fields_are_unescaped_once() {
        assert_eq!(unescape_key("example.com%2fteam"), "example.com/team");
        assert_eq!(unescape_key("a+b"), "a+b");
        assert_eq!(unescape_key("100%"), "100%");
        assert_eq!(unescape_key("a%252f"), "a%2f");
    }
}
