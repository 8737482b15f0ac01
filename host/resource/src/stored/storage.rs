//! What all stored resources of a host share: the store, the namespaces, and who else there is.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use joinery_object::{GroupVersionResource, Status};
use joinery_source::Upstream;
use joinery_store::{Store, StoreError};
use parking_lot::RwLock;

use super::lookup::GuardedLookup;
use super::namespaces::Namespaces;
use super::resource::StoredResource;
use crate::admit::Lookup;

/// Group and plural: a resource is stored once, whatever version it is served in.
type GroupResource = (Arc<str>, Arc<str>);

/// The ground that stored resources stand on.
pub struct Storage {
    store: Arc<dyn Store>,
    namespaces: Arc<dyn Namespaces>,
    upstream: Option<Arc<dyn Upstream>>,
    garbage_collector: bool,
    open: RwLock<HashMap<GroupResource, Weak<StoredResource>>>,
}

impl Storage {
    /// `upstream` answers what admission asks of resources that are not stored here.
    ///
    /// Whether a garbage collector looks after the objects decides about deletes in the foreground and with orphans:
    /// without one nobody would take the finalizers away again, so none are added.
    pub fn new(
        store: Arc<dyn Store>,
        namespaces: Arc<dyn Namespaces>,
        upstream: Option<Arc<dyn Upstream>>,
        garbage_collector: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            store,
            namespaces,
            upstream,
            garbage_collector,
            open: RwLock::default(),
        })
    }

    /// Where the objects are.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Where namespaced objects may be.
    pub fn namespaces(&self) -> &Arc<dyn Namespaces> {
        &self.namespaces
    }

    /// A resource that is open here, by group and plural.
    pub fn resource(&self, group: &str, resource: &str) -> Option<Arc<StoredResource>> {
        let key = (Arc::from(group), Arc::from(resource));
        self.open.read().get(&key)?.upgrade()
    }

    /// A resource that is open here in just this version.
    pub fn served(&self, gvr: &GroupVersionResource) -> Option<Arc<StoredResource>> {
        self.resource(&gvr.group, &gvr.resource)
            .filter(|resource| resource.gvr() == gvr)
    }

    /// Reads for a plugin, without a write that must agree with them.
    pub fn lookup(self: &Arc<Self>) -> Arc<dyn Lookup> {
        Arc::new(GuardedLookup::new(self.clone()))
    }

    pub(super) fn upstream(&self) -> Option<&Arc<dyn Upstream>> {
        self.upstream.as_ref()
    }

    pub(super) fn has_garbage_collector(&self) -> bool {
        self.garbage_collector
    }

    pub(super) fn register(&self, resource: &Arc<StoredResource>) {
        let gvr = resource.gvr();
        let mut open = self.open.write();
        open.retain(|_, resource| resource.strong_count() > 0);
        open.insert(
            (gvr.group.clone(), gvr.resource.clone()),
            Arc::downgrade(resource),
        );
    }
}

/// A failure of the store that no client can do anything about.
pub(super) fn store_failure(error: StoreError) -> Status {
    tracing::error!(%error, "the store failed");
    match error {
        StoreError::Closed => Status::service_unavailable("the server is shutting down"),
        // The transaction may be tried again: the store is back once its disk is.
        error @ StoreError::Storage(_) => Status::service_unavailable(error.to_string()),
        other => Status::internal(other),
    }
}
