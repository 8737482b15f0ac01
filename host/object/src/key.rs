//! Names: what identifies a resource and an object in it.

use std::fmt;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What is encoded in a segment of a path: all but RFC 3986's unreserved characters.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A resource of one version, e.g. `tasks.example.com/v1, tasks`.
///
/// Follows `k8s.io/apimachinery/pkg/runtime/schema.GroupVersionResource`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionResource {
    /// Empty for the core group.
    pub group: Arc<str>,
    /// E.g. `v1`.
    pub version: Arc<str>,
    /// Plural, lower case.
    pub resource: Arc<str>,
}

impl GroupVersionResource {
    /// Takes the three parts as they stand in a request path.
    pub fn new(group: &str, version: &str, resource: &str) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            resource: resource.into(),
        }
    }

    /// `v1` or `tasks.example.com/v1`: what stands in an object's `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `tasks.tasks.example.com`, or `events` in the core group: how error messages name a resource.
    pub fn group_resource(&self) -> String {
        if self.group.is_empty() {
            self.resource.to_string()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }

    /// The path of the collection below the server's root: `/api/v1/…` for the core group, else `/apis/<group>/…`. The namespace is
    /// percent-encoded, so that it is one segment, whatever a client has sent for it.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let mut path = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        if let Some(namespace) = namespace {
            path.push_str("/namespaces/");
            path.extend(utf8_percent_encode(namespace, SEGMENT));
        }
        path.push('/');
        path.push_str(&self.resource);
        path
    }

    /// The path of an object, as [`path`](Self::path): its name is one segment too.
    pub fn object_path(&self, key: &ObjectKey) -> String {
        let mut path = self.path(key.namespace.as_deref());
        path.push('/');
        path.extend(utf8_percent_encode(&key.name, SEGMENT));
        path
    }
}

impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.api_version(), self.resource)
    }
}

/// An object's place in its resource. Ordered by namespace, then name, so that a namespace is one range.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// None for cluster-scoped objects.
    pub namespace: Option<Arc<str>>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// A key in a namespace, or of a cluster-scoped object.
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        Self {
            namespace: namespace.map(Into::into),
            name: name.into(),
        }
    }
}

/// What a request can be about, as far as the keys of objects tell. Empty: everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// The one namespace.
    pub namespace: Option<Arc<str>>,
    /// The one name.
    pub name: Option<Arc<str>>,
}

impl Scope {
    /// Whether an object of this key can be meant.
    pub fn has(&self, key: &ObjectKey) -> bool {
        (self.namespace.is_none() || self.namespace == key.namespace)
            && self.name.as_ref().is_none_or(|name| *name == key.name)
    }
}

/// Why something cannot be a segment of a path, and so neither a name nor a namespace. None: it can be.
///
/// Follows `IsValidPathSegmentName` of k8s.io/apimachinery/pkg/api/validation/path.
pub fn not_a_path_segment(name: &str) -> Option<&'static str> {
    match name {
        "." => Some("may not be '.'"),
        ".." => Some("may not be '..'"),
        _ if name.contains('/') => Some("may not contain '/'"),
        _ if name.contains('%') => Some("may not contain '%'"),
        _ => None,
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_name_holds_it_is_one_segment() {
        let tasks = GroupVersionResource::new("tasks.example.com", "v1", "tasks");
        for (namespace, name, path) in [
            ("default", "a-b.c", "default/tasks/a-b.c"),
            ("default?x", "?watch=1", "default%3Fx/tasks/%3Fwatch%3D1"),
            ("a/../b", "x/status", "a%2F..%2Fb/tasks/x%2Fstatus"),
            ("ü", "a b\r\n#%", "%C3%BC/tasks/a%20b%0D%0A%23%25"),
        ] {
            assert_eq!(
                tasks.object_path(&ObjectKey::new(Some(namespace), name)),
                format!("/apis/tasks.example.com/v1/namespaces/{path}")
            );
        }
        assert_eq!(not_a_path_segment(".."), Some("may not be '..'"));
        assert_eq!(not_a_path_segment("a..b"), None);
    }
}
