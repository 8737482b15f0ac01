//! Names: what identifies a resource and an object in it.

use std::fmt;
use std::sync::Arc;

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

    /// The path of the collection below the server's root: `/api/v1/…` for the core group, else `/apis/<group>/…`.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let mut path = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        if let Some(namespace) = namespace {
            path.push_str("/namespaces/");
            path.push_str(namespace);
        }
        path.push('/');
        path.push_str(&self.resource);
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

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}
