//! What decides whether a stored object may be written, seen from the host.
//!
//! Follows the `admission` and `kubernetes` interfaces of the plugin contract (wit/v0.1/plugin.wit).

use async_trait::async_trait;
use bytes::Bytes;
use joinery_object::{GroupVersionResource, ObjectKey, Status};

use crate::access::User;

/// What is being done to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It is new.
    Create,
    /// It changes, itself or in a subresource.
    Update,
    /// It is to go.
    Delete,
}

/// One write of one object.
#[derive(Clone, Debug)]
pub struct Review {
    /// What is being done.
    pub operation: Operation,
    /// `status` or `scale`; none for the resource itself.
    pub subresource: Option<String>,
    /// The object's key.
    pub key: ObjectKey,
    /// After patch, defaults, pruning and schema validation. None on delete.
    pub object: Option<Bytes>,
    /// As stored. None on create.
    pub old_object: Option<Bytes>,
    /// Who asks.
    pub user: User,
    /// Nothing will be stored.
    pub dry_run: bool,
    /// Time of the request, milliseconds since 1970.
    pub now: u64,
}

/// An admitted write.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// The object as it shall be stored; none: as it came.
    pub object: Option<Bytes>,
    /// Sent as `Warning: 299`.
    pub warnings: Vec<String>,
}

/// What a look-up asks for.
#[derive(Clone, Debug, Default)]
pub struct LookupList {
    /// None: all namespaces.
    pub namespace: Option<String>,
    /// Empty for all.
    pub label_selector: String,
    /// Empty for all.
    pub field_selector: String,
    /// 0: the host's bound.
    pub limit: u32,
}

/// Reads other resources for one admission. What it reads of Joinery's own resources becomes a guard of the write, so
/// every review gets a look-up of its own.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// None: there is no such object.
    ///
    /// # Errors
    /// `Forbidden` when the plugin has no grant, `NotFound` when there is no such resource, or what upstream said.
    async fn get(
        &self,
        gvr: &GroupVersionResource,
        key: &ObjectKey,
    ) -> Result<Option<Bytes>, Status>;

    /// The objects, and whether there were more than the limit.
    ///
    /// # Errors
    /// As [`Lookup::get`], and 400 for a selector that cannot be read.
    async fn list(
        &self,
        gvr: &GroupVersionResource,
        options: &LookupList,
    ) -> Result<(Vec<Bytes>, bool), Status>;
}

/// The rules of a stored resource.
#[async_trait]
pub trait Admit: Send + Sync + 'static {
    /// Whether the write may go ahead, and with which object.
    ///
    /// # Errors
    /// The plugin's refusal, or 500 after a trap.
    async fn admit(
        &self,
        resource: &GroupVersionResource,
        review: Review,
        lookup: std::sync::Arc<dyn Lookup>,
    ) -> Result<Verdict, Status>;
}
