//! What admission reads of other resources, remembered as guards of the write that rests on it.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use joinery_object::{FieldSelector, GroupVersionResource, LabelSelector, ObjectKey, Status};
use joinery_source::UpstreamError;
use joinery_store::{Guard, KeyRange, Query};
use parking_lot::Mutex;

use super::resource::StoredResource;
use super::storage::{Storage, store_failure};
use crate::admit::{Lookup, LookupList};
use crate::selection::Selection;

/// At most so many objects of a look-up that sets no limit.
const MAX_OBJECTS: u32 = 10_000;

/// The look-up of one review. Resources that are stored here are answered in-process; what was read of them becomes a
/// guard. For others upstream is asked, which nothing can guard.
pub(super) struct GuardedLookup {
    storage: Arc<Storage>,
    guards: Mutex<Vec<Guard>>,
}

impl GuardedLookup {
    pub(super) fn new(storage: Arc<Storage>) -> Self {
        Self {
            storage,
            guards: Mutex::default(),
        }
    }

    /// What must still hold when the write is committed.
    pub(super) fn guards(&self) -> Vec<Guard> {
        self.guards.lock().clone()
    }

    async fn list_stored(
        &self,
        resource: &StoredResource,
        options: &LookupList,
    ) -> Result<(Vec<Bytes>, bool), Status> {
        let labels: LabelSelector = options.label_selector.parse()?;
        let fields: FieldSelector = options.field_selector.parse()?;
        let selection = Selection::new(
            options.namespace.as_deref(),
            labels,
            fields,
            &resource.generation().fields,
        )?;
        let snapshot = resource.latest().await?;
        let gvr = resource.gvr();
        let range = match options.namespace.as_deref() {
            Some(namespace) => KeyRange::namespace(&gvr.group, &gvr.resource, namespace),
            None => KeyRange::resource(&gvr.group, &gvr.resource),
        };
        let asked = selection.clone();
        self.guards.lock().push(Guard::QueryUnchangedSince {
            range: range.map_err(|error| Status::bad_request(error.to_string()))?,
            revision: snapshot.revision,
            query: Query::new(move |stored| {
                let object = super::envelope::object(stored);
                object.map_or(true, |object| asked.matches(&object))
            }),
        });
        let limit = match options.limit {
            0 => MAX_OBJECTS,
            limit => limit.min(MAX_OBJECTS),
        } as usize;
        let mut selected = selection.of(&snapshot.objects, None);
        let objects = selected.by_ref().take(limit).map(|o| o.bytes()).collect();
        Ok((objects, selected.next().is_some()))
    }
}

#[async_trait]
impl Lookup for GuardedLookup {
    async fn get(
        &self,
        gvr: &GroupVersionResource,
        key: &ObjectKey,
    ) -> Result<Option<Bytes>, Status> {
        if let Some(resource) = self.storage.served(gvr) {
            let Ok(store_key) = resource.store_key(key) else {
                return Ok(None);
            };
            let stored = self
                .storage
                .store()
                .get(&store_key)
                .await
                .map_err(store_failure)?;
            self.guards.lock().push(Guard::KeyAtRevision {
                key: store_key,
                revision: stored.as_ref().map(|stored| stored.revision),
            });
            return match stored {
                Some(stored) => {
                    let object = super::envelope::object(&stored).map_err(Status::internal)?;
                    Ok(Some(object.bytes()))
                }
                None => Ok(None),
            };
        }
        let Some(upstream) = self.storage.upstream() else {
            return Err(no_such_resource(gvr));
        };
        let found = upstream.get(gvr, key).await.map_err(|e| refused(gvr, e))?;
        Ok(found.map(|object| object.bytes()))
    }

    async fn list(
        &self,
        gvr: &GroupVersionResource,
        options: &LookupList,
    ) -> Result<(Vec<Bytes>, bool), Status> {
        if let Some(resource) = self.storage.served(gvr) {
            return self.list_stored(&resource, options).await;
        }
        let Some(upstream) = self.storage.upstream() else {
            return Err(no_such_resource(gvr));
        };
        let query = joinery_source::Query {
            namespace: options.namespace.clone(),
            label_selector: options.label_selector.clone(),
            field_selector: options.field_selector.clone(),
            limit: match options.limit {
                0 => MAX_OBJECTS,
                limit => limit.min(MAX_OBJECTS),
            },
            continue_token: None,
        };
        let page = upstream
            .list(gvr, &query)
            .await
            .map_err(|e| refused(gvr, e))?;
        let objects = page.items.iter().map(|object| object.bytes()).collect();
        Ok((objects, page.continue_token.is_some()))
    }
}

fn no_such_resource(gvr: &GroupVersionResource) -> Status {
    Status::failure(
        404,
        joinery_object::reason::NOT_FOUND,
        format!("the server has no resource {gvr}"),
    )
}

/// What the guest is told: upstream's own words where there are any.
fn refused(gvr: &GroupVersionResource, error: UpstreamError) -> Status {
    match error {
        UpstreamError::Refused(status) => status,
        UpstreamError::NoSuchResource(_) => no_such_resource(gvr),
        other => other.into(),
    }
}
