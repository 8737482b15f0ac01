//! What answers the verbs of a resource by itself, seen from the host.
//!
//! Follows the `verbs` interface of the plugin contract (wit/v0.1/plugin.wit).

use async_trait::async_trait;
use bytes::Bytes;
use joinery_object::{GroupVersionResource, Status};

use crate::access::User;

/// What all verbs are told.
#[derive(Clone, Debug)]
pub struct ServeRequest {
    /// Which resource.
    pub resource: GroupVersionResource,
    /// None: cluster-scoped, or a list of all namespaces.
    pub namespace: Option<String>,
    /// Who asks. The host itself (`system:joinery`) where it compares lists for those who watch.
    pub user: User,
    /// Nothing may be changed.
    pub dry_run: bool,
    /// Time of the request, milliseconds since 1970.
    pub now: u64,
}

/// One object as it now is.
#[derive(Clone, Debug)]
pub struct Entry {
    /// JSON, with its namespace, name and uid.
    pub object: Bytes,
    /// Changes when the object does; opaque.
    pub etag: String,
}

/// A part of a list.
#[derive(Clone, Debug)]
pub struct EntryPage {
    /// By namespace, then name, over all pages.
    pub entries: Vec<Entry>,
    /// For the next call; none: complete.
    pub next: Option<String>,
}

/// Answers the verbs of resources.
#[async_trait]
pub trait Serve: Send + Sync + 'static {
    /// One object.
    ///
    /// # Errors
    /// 404 when there is none, or what the plugin refused with; 500 after a trap.
    async fn get(&self, request: ServeRequest, name: String) -> Result<Entry, Status>;

    /// A page of a list. The selectors are hints.
    ///
    /// # Errors
    /// As [`Serve::get`].
    async fn list(
        &self,
        request: ServeRequest,
        label_selector: String,
        field_selector: String,
        next: Option<String>,
    ) -> Result<EntryPage, Status>;

    /// A new object.
    ///
    /// # Errors
    /// 409 when there is one of that name; as [`Serve::get`].
    async fn create(&self, request: ServeRequest, object: Bytes) -> Result<Entry, Status>;

    /// Another state of an object, which must still have the etag if one is given.
    ///
    /// # Errors
    /// 409 when it has another; as [`Serve::get`].
    async fn update(
        &self,
        request: ServeRequest,
        name: String,
        object: Bytes,
        etag: Option<String>,
    ) -> Result<Entry, Status>;

    /// As [`Serve::update`].
    ///
    /// # Errors
    /// As [`Serve::update`].
    async fn delete(
        &self,
        request: ServeRequest,
        name: String,
        etag: Option<String>,
    ) -> Result<(), Status>;
}
