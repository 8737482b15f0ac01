//! From method and path to verb and resource, as k8s.io/apiserver/pkg/endpoints/request/requestinfo.go.

use std::borrow::Cow;

use http::Method;
use joinery_object::{FieldSelector, GroupVersionResource, Query};
use joinery_resource::Attributes;

/// The verb of all unknown methods: they share a word, so that they cannot make metrics without end.
pub(crate) const UNKNOWN: &str = "other";

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; of other paths the HTTP
    /// method in lower case.
    pub(crate) verb: &'static str,
    pub(crate) target: Target,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Resource(ResourcePath),
    /// Discovery, health and everything else.
    Path,
}

/// The path of a collection, an object or a subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) gvr: GroupVersionResource,
    pub(crate) namespace: Option<String>,
    /// Whether the path has a `/namespaces/<namespace>` segment. False for the namespace of a Namespace itself.
    pub(crate) in_namespace: bool,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// Segments behind the subresource: there is nothing at such a path.
    pub(crate) trailing: bool,
    /// The path has the deprecated `/watch/` before its resource: a GET is a watch, of a single object where it has a
    /// name.
    pub(crate) watch: bool,
}

impl RequestInfo {
    pub(crate) fn new(method: &Method, path: &str, query: &Query) -> Self {
        match ResourcePath::parse(path) {
            Some(path) => Self {
                verb: path.verb(method, query),
                target: Target::Resource(path),
            },
            None => Self {
                verb: lower(method),
                target: Target::Path,
            },
        }
    }

    /// Whether it may take as long as it likes: watches only.
    pub(crate) fn is_long_running(&self) -> bool {
        self.verb == "watch"
    }

    /// What must be allowed for it.
    pub(crate) fn attributes(&self, path: &str, query: &Query) -> Attributes {
        let Target::Resource(resource) = &self.target else {
            return Attributes::Path {
                path: path.to_owned(),
                verb: self.verb.to_owned(),
            };
        };
        let selects = matches!(self.verb, "list" | "watch" | "deletecollection");
        let selector = |name: &str| {
            if selects {
                query.get(name).to_owned()
            } else {
                String::new()
            }
        };
        let field_selector = selector("fieldSelector");
        // A selector of one name is a request for that name: rights with resourceNames cover it.
        let selected_name = || {
            let selector: FieldSelector = field_selector.parse().ok()?;
            selector
                .requires_exact_match("metadata.name")
                .map(str::to_owned)
        };
        Attributes::Resource {
            verb: self.verb.to_owned(),
            group: resource.gvr.group.to_string(),
            version: resource.gvr.version.to_string(),
            resource: resource.gvr.resource.to_string(),
            subresource: resource.subresource.clone().unwrap_or_default(),
            namespace: resource.namespace.clone(),
            name: resource.name.clone().or_else(selected_name),
            label_selector: selector("labelSelector"),
            field_selector,
        }
    }
}

impl ResourcePath {
    /// None for what is no resource: discovery among it.
    fn parse(path: &str) -> Option<Self> {
        // Decoded before it is cut, as Go's URL.Path is: an encoded slash separates too, for the authorizer and for us alike.
        let path = decode(path)?;
        let mut segments = path.trim_matches('/').split('/');
        let (group, version) = match segments.next()? {
            "api" => ("", segments.next()?),
            "apis" => (segments.next()?, segments.next()?),
            _ => return None,
        };
        let rest: Vec<&str> = segments.collect();
        let (watch, rest) = match rest.as_slice() {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            all => (false, all),
        };
        // `/api/v1/namespaces/x` is an object of its own; with a further segment it is mostly a scope.
        let (namespace, in_namespace, rest) = match rest {
            ["namespaces", name] | ["namespaces", name, "status" | "finalize"]
                if group.is_empty() =>
            {
                (Some(*name), false, rest)
            }
            // No namespace is all namespaces.
            ["namespaces", "", scoped @ ..] if !scoped.is_empty() => (None, false, scoped),
            ["namespaces", namespace, scoped @ ..] if !scoped.is_empty() => {
                (Some(*namespace), true, scoped)
            }
            all => (None, false, all),
        };
        let (resource, rest) = rest.split_first()?;
        if resource.is_empty() {
            return None;
        }
        Some(Self {
            gvr: GroupVersionResource::new(group, version, resource),
            namespace: namespace.map(str::to_owned),
            in_namespace,
            name: rest.first().map(|s| (*s).to_owned()),
            subresource: rest.get(1).map(|s| (*s).to_owned()),
            trailing: rest.len() > 2 || rest.iter().any(|s| s.is_empty()),
            watch,
        })
    }

    fn verb(&self, method: &Method, query: &Query) -> &'static str {
        let collection = self.name.is_none();
        match *method {
            Method::GET | Method::HEAD if self.watch => "watch",
            _ if self.watch => lower(method),
            Method::GET | Method::HEAD if !collection => "get",
            Method::GET | Method::HEAD if query.boolean("watch") == Some(true) => "watch",
            Method::GET | Method::HEAD => "list",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if collection => "deletecollection",
            Method::DELETE => "delete",
            _ => lower(method),
        }
    }
}

fn lower(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        Method::CONNECT => "connect",
        Method::TRACE => "trace",
        _ => UNKNOWN,
    }
}

/// Percent-decodes a path; none when it is no UTF-8.
fn decode(path: &str) -> Option<Cow<'_, str>> {
    if !path.contains('%') {
        return Some(path.into());
    }
    let mut out = Vec::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        out.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
    }
    String::from_utf8(out).ok().map(Cow::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: Method, uri: &str) -> RequestInfo {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        RequestInfo::new(&method, path, &Query::parse(query))
    }

    fn path(method: Method, uri: &str) -> (&'static str, String) {
        let info = info(method, uri);
        let Target::Resource(p) = info.target else {
            return (info.verb, "path".to_owned());
        };
        let text = format!(
            "{} {} ns={} name={} sub={}",
            p.gvr,
            if p.in_namespace { "in" } else { "at" },
            p.namespace.unwrap_or_default(),
            p.name.unwrap_or_default(),
            p.subresource.unwrap_or_default()
        );
        (info.verb, text)
    }

    #[test]
    fn methods_and_paths_become_verbs_and_resources() {
        for (method, uri, verb, text) in [
            (
                Method::GET,
                "/apis/g/v1/things",
                "list",
                "g/v1, things at ns= name= sub=",
            ),
            (
                Method::GET,
                "/apis/g/v1/things?watch=true",
                "watch",
                "g/v1, things at ns= name= sub=",
            ),
            (
                Method::GET,
                "/apis/g/v1/things?watch=0",
                "list",
                "g/v1, things at ns= name= sub=",
            ),
            (
                Method::GET,
                "/apis/g/v1/things/x",
                "get",
                "g/v1, things at ns= name=x sub=",
            ),
            (
                Method::GET,
                "/apis/g/v1/namespaces/n/things",
                "list",
                "g/v1, things in ns=n name= sub=",
            ),
            (
                Method::PUT,
                "/apis/g/v1/namespaces/n/things/x/status",
                "update",
                "g/v1, things in ns=n name=x sub=status",
            ),
            (
                Method::POST,
                "/apis/g/v1/namespaces/n/things/x",
                "create",
                "g/v1, things in ns=n name=x sub=",
            ),
            (
                Method::PATCH,
                "/apis/g/v1/things/x",
                "patch",
                "g/v1, things at ns= name=x sub=",
            ),
            (
                Method::DELETE,
                "/apis/g/v1/things/x",
                "delete",
                "g/v1, things at ns= name=x sub=",
            ),
            (
                Method::DELETE,
                "/apis/g/v1/things",
                "deletecollection",
                "g/v1, things at ns= name= sub=",
            ),
            (
                Method::GET,
                "/api/v1/namespaces",
                "list",
                "v1, namespaces at ns= name= sub=",
            ),
            (
                Method::GET,
                "/api/v1/namespaces/n",
                "get",
                "v1, namespaces at ns=n name=n sub=",
            ),
            (
                Method::PUT,
                "/api/v1/namespaces/n/finalize",
                "update",
                "v1, namespaces at ns=n name=n sub=finalize",
            ),
            (
                Method::GET,
                "/api/v1/namespaces/n/events",
                "list",
                "v1, events in ns=n name= sub=",
            ),
            (
                Method::GET,
                "/apis/g/v1/things/a%2Fb",
                "get",
                "g/v1, things at ns= name=a sub=b",
            ),
            (
                Method::GET,
                "/apis/g/v1/namespaces//things",
                "list",
                "g/v1, things at ns= name= sub=",
            ),
            (
                Method::GET,
                "/apis/g/v1/watch/things?watch=0",
                "watch",
                "g/v1, things at ns= name= sub=",
            ),
            (
                Method::GET,
                "/apis/g/v1/watch/namespaces/n/things/x",
                "watch",
                "g/v1, things in ns=n name=x sub=",
            ),
            (
                Method::GET,
                "/api/v1/watch/namespaces/n",
                "watch",
                "v1, namespaces at ns=n name=n sub=",
            ),
            (
                Method::POST,
                "/apis/g/v1/watch/things",
                "post",
                "g/v1, things at ns= name= sub=",
            ),
            (
                Method::GET,
                "/apis/g/v1/watch",
                "list",
                "g/v1, watch at ns= name= sub=",
            ),
            (Method::GET, "/apis/g/v1", "get", "path"),
            (Method::GET, "/apis/g/v1/", "get", "path"),
            (Method::GET, "/apis/g/v1/%ff", "get", "path"),
            (Method::GET, "/api", "get", "path"),
            (Method::POST, "/healthz", "post", "path"),
        ] {
            assert_eq!(path(method, uri), (verb, text.to_owned()), "{uri}");
        }
    }

    #[test]
    fn a_selector_of_one_name_is_authorized_as_that_name() {
        let uri = "/apis/g/v1/things?watch=1&fieldSelector=metadata.name%3Dx&labelSelector=a";
        let (path, query) = uri.split_once('?').unwrap();
        let query = Query::parse(query);
        let attributes = RequestInfo::new(&Method::GET, path, &query).attributes(path, &query);
        let Attributes::Resource {
            name,
            label_selector,
            ..
        } = attributes
        else {
            panic!("{attributes:?}");
        };
        assert_eq!(name.as_deref(), Some("x"));
        assert_eq!(label_selector, "a");
    }
}
