//! What answers the verbs of one resource, and the answers.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use joinery_object::{
    Change, DeleteOptions, EventType, GroupVersionResource, ListOptions, Object, ObjectKey,
    PatchOptions, ResourceVersion, Status, WriteOptions,
};
use joinery_schema::Columns;

use crate::access::User;

/// What a resource is, as discovery, OpenAPI and Tables tell it.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Group, version, plural.
    pub gvr: GroupVersionResource,
    /// E.g. `CombinedTask`.
    pub kind: String,
    /// E.g. `CombinedTaskList`.
    pub list_kind: String,
    /// E.g. `combinedtask`.
    pub singular: String,
    /// E.g. `cbtask`.
    pub short_names: Vec<String>,
    /// E.g. `all`.
    pub categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Of the resource itself, sorted.
    pub verbs: Vec<&'static str>,
    /// Whether there is a `status` subresource (get, patch, update).
    pub status_subresource: bool,
    /// The OpenAPI v3 schema of an object, as JSON.
    pub schema: Arc<str>,
    /// The columns of a Table, the name's excluded.
    pub columns: Columns,
    /// JSON paths that field selectors may use besides metadata.name and metadata.namespace, e.g. `.spec.priority`.
    pub selectable_fields: Vec<String>,
}

impl Definition {
    /// A name by which clients could mean either of two resources of one group; none: they can stand side by side. What
    /// apiextensions-apiserver asks before it accepts names (pkg/controller/status/naming_controller.go).
    pub fn name_in_common(&self, other: &Definition) -> Option<&str> {
        let kind = [&self.kind, &self.list_kind]
            .into_iter()
            .find(|kind| **kind == other.kind || **kind == other.list_kind);
        let plain = |name: &str| {
            *other.gvr.resource == *name
                || other.singular == name
                || other.short_names.iter().any(|short| short == name)
        };
        let mut names = [&*self.gvr.resource, self.singular.as_str()]
            .into_iter()
            .chain(self.short_names.iter().map(String::as_str));
        kind.map(String::as_str)
            .or_else(|| names.find(|name| plain(name)))
    }
}

/// One request, as far as a resource must know it.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Who asks.
    pub user: User,
    /// Time of the request, milliseconds since 1970.
    pub now: u64,
}

/// The content type of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// `application/json-patch+json`
    Json,
    /// `application/merge-patch+json`
    Merge,
    /// `application/strategic-merge-patch+json`, of built-in kinds only
    Strategic,
    /// `application/apply-patch+yaml`
    Apply,
}

/// A page of a list.
#[derive(Debug)]
pub struct List {
    /// In the order of their keys.
    pub items: Vec<Arc<Object>>,
    /// The version of the list.
    pub resource_version: ResourceVersion,
    /// For the next page; none: complete.
    pub continue_token: Option<String>,
    /// How many are left, where it can be said.
    pub remaining: Option<u64>,
    /// Sent as `Warning: 299`.
    pub warnings: Vec<String>,
}

/// One message of a watch.
#[derive(Clone, Debug)]
pub enum WatchItem {
    /// An object came, changed or went.
    Event {
        /// What happened to it.
        kind: EventType,
        /// As the event shows it.
        object: Arc<Object>,
        /// Where the frame is kept that all watchers share; none for synthetic events.
        change: Option<Arc<Change>>,
    },
    /// All up to this version has been told. The first after the initial events says so.
    Bookmark {
        /// The version.
        version: ResourceVersion,
        /// Whether to annotate `k8s.io/initial-events-end`.
        initial_events_end: bool,
    },
    /// The watch is over, for this reason.
    Error(Status),
}

/// The messages of a watch, its bookmarks included. When the stream ends, so does the response.
///
/// The server sets [`ListOptions::timeout_seconds`] before it asks, where the client did not, and ends the response then.
pub type Watch = BoxStream<'static, WatchItem>;

/// What a write led to.
#[derive(Debug)]
pub struct Written {
    /// The object as it is now, or would be. On delete: none when it is gone for good and a Status tells so.
    pub object: Arc<Object>,
    /// 201 instead of 200.
    pub created: bool,
    /// On delete: the object was removed (answer Status Success), else it waits for its finalizers (answer the object).
    pub removed: bool,
    /// Sent as `Warning: 299`.
    pub warnings: Vec<String>,
}

/// Answers the verbs of one resource.
///
/// Authorization of the request itself has been done; scope and verb are those of the [`Definition`]. Namespaces are
/// `None` for cluster-scoped resources and for requests across all namespaces. All methods but the reads have a
/// default that answers 405, for views.
#[async_trait]
pub trait Resource: Send + Sync + 'static {
    /// What the resource is. Another generation of its plugin may give another answer.
    fn definition(&self) -> Arc<Definition>;

    /// One object. `resource_version` as in [`ListOptions`]: `None` for latest, else not older than.
    async fn get(
        &self,
        caller: &Caller,
        key: &ObjectKey,
        resource_version: Option<&str>,
    ) -> Result<Arc<Object>, Status>;

    /// A list, or a page of one.
    async fn list(
        &self,
        caller: &Caller,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<List, Status>;

    /// A watch. Options have been validated.
    async fn watch(
        &self,
        caller: &Caller,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<Watch, Status>;

    /// A new object. `name` when the path names it. The body is JSON.
    async fn create(
        &self,
        _caller: &Caller,
        _namespace: Option<&str>,
        _name: Option<&str>,
        _body: Bytes,
        _options: &WriteOptions,
    ) -> Result<Written, Status> {
        Err(self.unsupported("create"))
    }

    /// Replaces an object or its subresource.
    async fn update(
        &self,
        _caller: &Caller,
        _key: &ObjectKey,
        _subresource: Option<&str>,
        _body: Bytes,
        _options: &WriteOptions,
    ) -> Result<Written, Status> {
        Err(self.unsupported("update"))
    }

    /// Patches an object or its subresource. The body is JSON, of an apply patch too.
    async fn patch(
        &self,
        _caller: &Caller,
        _key: &ObjectKey,
        _subresource: Option<&str>,
        _patch: PatchType,
        _body: Bytes,
        _options: &PatchOptions,
    ) -> Result<Written, Status> {
        Err(self.unsupported("patch"))
    }

    /// Deletes an object, or marks it for its finalizers.
    async fn delete(
        &self,
        _caller: &Caller,
        _key: &ObjectKey,
        _options: &DeleteOptions,
    ) -> Result<Written, Status> {
        Err(self.unsupported("delete"))
    }

    /// Deletes all that is selected and gives it back.
    async fn delete_collection(
        &self,
        _caller: &Caller,
        _namespace: Option<&str>,
        _selection: &ListOptions,
        _options: &DeleteOptions,
    ) -> Result<List, Status> {
        Err(self.unsupported("deletecollection"))
    }

    /// 405 for a verb that the resource does not have.
    fn unsupported(&self, verb: &str) -> Status {
        let definition = self.definition();
        Status::method_not_supported(&definition.gvr, verb)
    }
}
