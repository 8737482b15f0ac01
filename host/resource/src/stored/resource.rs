//! A resource whose objects are in the store.

use std::sync::Arc;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;
use joinery_apply::FieldManager;
use joinery_object::{
    DeleteOptions, Follower, GroupVersionResource, ListOptions, Object, ObjectKey, Objects,
    PatchOptions, Status, WriteOptions,
};
use joinery_schema::StructuralSchema;
use joinery_store::{Key, KeyError, KeyRange};

use super::apply::Configuration;
use super::cache::{Cache, ReadError, Snapshot};
use super::rules::Rules;
use super::storage::{Storage, store_failure};
use super::update::Body;
use crate::admit::Admit;
use crate::fields::Fields;
use crate::resource::{Caller, Definition, List, PatchType, Resource, Watch, Written};

/// Answers the verbs of one resource from the store.
///
/// It outlives the generations of its plugin: see [`StoredResource::replace`]. Its objects are in memory; one task
/// follows the store for it until it is dropped.
pub struct StoredResource {
    gvr: GroupVersionResource,
    pub(super) rules: Rules,
    pub(super) storage: Arc<Storage>,
    pub(super) cache: Cache,
    generation: ArcSwap<Generation>,
}

/// What may change while the resource is served. A write holds the one it began with.
pub(super) struct Generation {
    pub(super) definition: Arc<Definition>,
    pub(super) schema: Option<StructuralSchema>,
    pub(super) admit: Option<Arc<dyn Admit>>,
    pub(super) fields: Fields,
    pub(super) manager: FieldManager,
}

impl Generation {
    fn new(
        definition: Definition,
        schema: Option<StructuralSchema>,
        admit: Option<Arc<dyn Admit>>,
    ) -> Self {
        Self {
            fields: Fields::new(&definition.selectable_fields),
            manager: FieldManager::new(
                schema.as_ref(),
                &definition.gvr.api_version(),
                &definition.kind,
                definition.status_subresource,
            ),
            definition: Arc::new(definition),
            schema,
            admit,
        }
    }
}

impl StoredResource {
    /// Reads all objects of the resource and follows the store from there. Must be called within a tokio runtime.
    ///
    /// Without a schema any object is valid and unknown fields are kept. Without `admit` every valid write goes ahead.
    ///
    /// # Errors
    /// When the store cannot be read, or group and plural are no part of a key.
    pub async fn open(
        storage: &Arc<Storage>,
        definition: Definition,
        schema: Option<StructuralSchema>,
        admit: Option<Arc<dyn Admit>>,
        rules: Rules,
    ) -> Result<Arc<Self>, Status> {
        let gvr = definition.gvr.clone();
        let range = KeyRange::resource(&gvr.group, &gvr.resource).map_err(Status::internal)?;
        let cache = Cache::open(storage.store().clone(), range)
            .await
            .map_err(store_failure)?;
        let resource = Arc::new(Self {
            gvr,
            rules,
            storage: storage.clone(),
            cache,
            generation: ArcSwap::from_pointee(Generation::new(definition, schema, admit)),
        });
        storage.register(&resource);
        Ok(resource)
    }

    /// Another generation of the same resource. Requests that have begun end with the one they began with; watches go on.
    /// The objects stay as they are, also those that the new schema would refuse.
    ///
    /// # Errors
    /// 409 when group, version, plural or scope are others.
    pub fn replace(
        &self,
        definition: Definition,
        schema: Option<StructuralSchema>,
        admit: Option<Arc<dyn Admit>>,
    ) -> Result<(), Status> {
        let old = self.definition();
        if definition.gvr != self.gvr || definition.namespaced != old.namespaced {
            let message = format!(
                "its objects are stored as {}, namespaced: {}",
                self.gvr, old.namespaced
            );
            return Err(Status::conflict(&self.gvr, "", &message));
        }
        self.generation
            .store(Arc::new(Generation::new(definition, schema, admit)));
        Ok(())
    }

    /// Group, version, plural.
    pub fn gvr(&self) -> &GroupVersionResource {
        &self.gvr
    }

    pub(crate) fn store(&self) -> &Arc<dyn joinery_store::Store> {
        self.storage.store()
    }

    /// How many objects there are.
    pub fn count(&self) -> usize {
        self.cache.current().objects.len()
    }

    /// All objects, the store's revision at which they are so, and a follower for every later change.
    pub fn subscribe(&self) -> (Objects, u64, Follower) {
        let (snapshot, follower) = self.cache.current_and_follower();
        (snapshot.objects, snapshot.revision, follower)
    }

    pub(super) fn generation(&self) -> Arc<Generation> {
        self.generation.load_full()
    }

    /// The objects with all that was written before this call.
    pub(super) async fn latest(&self) -> Result<Snapshot, Status> {
        self.cache
            .catch_up()
            .await
            .map_err(|error| self.unreadable(error, None))?;
        Ok(self.cache.current())
    }

    pub(super) fn store_key(&self, key: &ObjectKey) -> Result<Key, KeyError> {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        Key::new(&self.gvr.group, &self.gvr.resource, namespace, &key.name)
    }

    /// What a client is told who asked for this revision.
    pub(super) fn unreadable(&self, error: ReadError, requested: Option<u64>) -> Status {
        match error {
            ReadError::Future { current } => {
                Status::too_large_resource_version(requested.unwrap_or_default(), current)
            }
            ReadError::Compacted => Status::expired(match requested {
                Some(requested) => format!("too old resource version: {requested}"),
                None => "the history is gone".to_owned(),
            }),
            ReadError::Unavailable(message) => {
                tracing::error!(resource = %self.gvr, %message, "a stored resource cannot be read");
                Status::service_unavailable(message).with_retry_after(1)
            }
        }
    }

    pub(super) fn not_found(&self, key: &ObjectKey) -> Status {
        Status::not_found(&self.gvr, &key.name)
    }
}

#[async_trait]
impl Resource for StoredResource {
    fn definition(&self) -> Arc<Definition> {
        self.generation.load().definition.clone()
    }

    async fn get(
        &self,
        _caller: &Caller,
        key: &ObjectKey,
        resource_version: Option<&str>,
    ) -> Result<Arc<Object>, Status> {
        self.read_one(key, resource_version).await
    }

    async fn list(
        &self,
        _caller: &Caller,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<List, Status> {
        self.read_list(namespace, options).await
    }

    async fn watch(
        &self,
        _caller: &Caller,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<Watch, Status> {
        self.read_changes(namespace, options).await
    }

    async fn create(
        &self,
        caller: &Caller,
        namespace: Option<&str>,
        name: Option<&str>,
        body: Bytes,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        self.write_new(caller, namespace, name, &body, options)
            .await
    }

    async fn update(
        &self,
        caller: &Caller,
        key: &ObjectKey,
        subresource: Option<&str>,
        body: Bytes,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        self.write_change(caller, key, subresource, &Body::Object(body), options)
            .await
    }

    async fn patch(
        &self,
        caller: &Caller,
        key: &ObjectKey,
        subresource: Option<&str>,
        patch: PatchType,
        body: Bytes,
        options: &PatchOptions,
    ) -> Result<Written, Status> {
        let body = match patch {
            PatchType::Json => Body::JsonPatch(body),
            PatchType::Merge => Body::MergePatch(body),
            PatchType::Strategic => Body::StrategicPatch(body),
            PatchType::Apply => Body::Apply(Configuration::read(&body, options.force)?),
        };
        self.write_change(caller, key, subresource, &body, &options.write)
            .await
    }

    async fn delete(
        &self,
        caller: &Caller,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<Written, Status> {
        self.write_delete(caller, key, options).await
    }

    async fn delete_collection(
        &self,
        caller: &Caller,
        namespace: Option<&str>,
        selection: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<List, Status> {
        self.write_delete_all(caller, namespace, selection, options)
            .await
    }
}
