//! A host without a network: a store in a temporary folder, the built-in resources, and Widgets.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use joinery_object::{
    DeleteOptions, ListOptions, Object, ObjectKey, PatchOptions, Query, Status, WriteOptions,
};
use joinery_resource::builtin::{BuiltinOptions, Builtins, from_crd, install};
use joinery_resource::{
    Admit, Attributes, Authorizer, Caller, Catalog, Decision, List, PatchType, Resource, Rules,
    Storage, StoredResource, User, Watch, WatchItem, Written,
};
use joinery_store::{Embedded, Store};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// 2026-01-01T00:00:00Z
pub(crate) const NOW: u64 = 1_767_225_600_000;

/// Whoever is named `admin` may do everything.
pub(crate) struct OnlyAdmin;

#[async_trait]
impl Authorizer for OnlyAdmin {
    async fn authorize(&self, user: &User, _attributes: &Attributes) -> Result<Decision, Status> {
        Ok(if user.name == "admin" {
            Decision::Allowed
        } else {
            Decision::Denied(String::new())
        })
    }
}

pub(crate) struct Host {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) storage: Arc<Storage>,
    pub(crate) catalog: Arc<Catalog>,
    background: JoinHandle<()>,
}

impl Drop for Host {
    fn drop(&mut self) {
        self.background.abort();
    }
}

impl Host {
    pub(crate) async fn start() -> Self {
        Self::on(
            Arc::new(Embedded::temporary().unwrap()),
            BuiltinOptions::default(),
        )
        .await
    }

    pub(crate) async fn on(store: Arc<dyn Store>, options: BuiltinOptions) -> Self {
        let catalog = Arc::new(Catalog::new());
        let installed = install(store.clone(), &catalog, Arc::new(OnlyAdmin), options).await;
        let Builtins {
            storage,
            background,
            ..
        } = installed.unwrap();
        Self {
            store,
            storage,
            catalog,
            background: tokio::spawn(background),
        }
    }

    pub(crate) fn resource(&self, group: &str, resource: &str) -> Arc<StoredResource> {
        self.storage.resource(group, resource).unwrap()
    }

    pub(crate) fn namespaces(&self) -> Arc<StoredResource> {
        self.resource("", "namespaces")
    }

    /// Namespaced, with a status subresource, and a schema of `spec.size` 0–10 (default 1), `spec.color` and `status.seen`.
    pub(crate) async fn widgets(&self) -> Arc<StoredResource> {
        self.custom("widgets", true, None).await
    }

    pub(crate) async fn custom(
        &self,
        plural: &str,
        namespaced: bool,
        admit: Option<Arc<dyn Admit>>,
    ) -> Arc<StoredResource> {
        let (definition, schema) = from_crd(&crd(plural, namespaced)).unwrap();
        let rules = Rules::default();
        StoredResource::open(&self.storage, definition, Some(schema), admit, rules)
            .await
            .unwrap()
    }
}

pub(crate) fn crd(plural: &str, namespaced: bool) -> Value {
    json!({"metadata": {"name": format!("{plural}.example.com")}, "spec": {
        "group": "example.com",
        "scope": if namespaced { "Namespaced" } else { "Cluster" },
        "names": {"kind": "Widget", "plural": plural},
        "versions": [{
            "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "selectableFields": [{"jsonPath": ".spec.color"}],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    "size": {"type": "integer", "minimum": 0, "maximum": 10, "default": 1},
                    "color": {"type": "string"},
                    "parent": {"type": "string"},
                }},
                "status": {"type": "object", "properties": {"seen": {"type": "integer"}}},
            }}},
        }],
    }})
}

pub(crate) fn admin() -> Caller {
    Caller {
        user: User {
            name: "admin".to_owned(),
            ..User::default()
        },
        now: NOW,
    }
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new(Some("default"), name)
}

/// A Widget with this spec.
pub(crate) fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

pub(crate) fn bytes(value: &Value) -> Bytes {
    value.to_string().into()
}

pub(crate) fn json(object: &Object) -> Value {
    serde_json::from_slice(&object.bytes()).unwrap()
}

pub(crate) fn list_options(query: &str) -> ListOptions {
    ListOptions::from_query(&Query::parse(query)).unwrap()
}

/// A resource, spoken to as the admin, in the namespace `default`.
#[async_trait]
pub(crate) trait Speak: Resource {
    async fn post(&self, object: Value) -> Result<Written, Status> {
        let namespace = self.definition().namespaced.then_some("default");
        let options = WriteOptions::default();
        self.create(&admin(), namespace, None, bytes(&object), &options)
            .await
    }

    async fn put(&self, object: Value) -> Result<Written, Status> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let key = self.at(name);
        self.update(
            &admin(),
            &key,
            None,
            bytes(&object),
            &WriteOptions::default(),
        )
        .await
    }

    async fn merge(&self, name: &str, patch: Value) -> Result<Written, Status> {
        let key = self.at(name);
        let options = PatchOptions::default();
        self.patch(
            &admin(),
            &key,
            None,
            PatchType::Merge,
            bytes(&patch),
            &options,
        )
        .await
    }

    async fn remove(&self, name: &str) -> Result<Written, Status> {
        let key = self.at(name);
        self.delete(&admin(), &key, &DeleteOptions::default()).await
    }

    async fn read(&self, name: &str) -> Result<Value, Status> {
        let key = self.at(name);
        self.get(&admin(), &key, None)
            .await
            .map(|object| json(&object))
    }

    async fn all(&self, query: &str) -> Result<List, Status> {
        self.list(&admin(), None, &list_options(query)).await
    }

    async fn follow(&self, query: &str) -> Told {
        let options = list_options(&format!("watch=1&{query}"));
        Told(self.watch(&admin(), None, &options).await.unwrap())
    }

    fn at(&self, name: &str) -> ObjectKey {
        ObjectKey::new(self.definition().namespaced.then_some("default"), name)
    }
}

impl<R: Resource + ?Sized> Speak for R {}

/// A watch, told in words.
pub(crate) struct Told(pub(crate) Watch);

impl Told {
    /// The next message: `ADDED name`, `BOOKMARK`, `INITIAL-END` or `ERROR code`; `END` when the watch is over.
    pub(crate) async fn next(&mut self) -> String {
        let next = tokio::time::timeout(Duration::from_secs(10), self.0.next()).await;
        match next.expect("the watch says nothing") {
            None => "END".to_owned(),
            Some(item) => words(&item),
        }
    }

    pub(crate) async fn take(&mut self, count: usize) -> Vec<String> {
        let mut told = Vec::new();
        for _ in 0..count {
            told.push(self.next().await);
        }
        told
    }

    /// Nothing comes within a moment.
    pub(crate) async fn is_silent(&mut self) -> bool {
        tokio::time::timeout(Duration::from_millis(100), self.0.next())
            .await
            .is_err()
    }
}

fn words(item: &WatchItem) -> String {
    match item {
        WatchItem::Event { kind, object, .. } => format!("{} {}", kind.as_str(), object.key().name),
        WatchItem::Bookmark {
            initial_events_end: true,
            ..
        } => "INITIAL-END".to_owned(),
        WatchItem::Bookmark { .. } => "BOOKMARK".to_owned(),
        WatchItem::Error(status) => format!("ERROR {}", status.code),
    }
}

pub(crate) fn names(list: &List) -> Vec<String> {
    list.items
        .iter()
        .map(|object| object.key().name.to_string())
        .collect()
}

/// The version of an object.
pub(crate) fn version(object: &Object) -> u64 {
    object.resource_version().position(0)
}

/// Waits until something holds.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    for _ in 0..500 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{what} did not come to be within 10 s");
}
