//! What a write must know of the namespace it goes to.

use std::sync::Arc;

use async_trait::async_trait;
use joinery_object::{Cause, GroupVersionResource, Status};
use joinery_store::{Guard, Key, Store};
use serde::Deserialize;

use super::envelope::Envelope;
use super::storage::store_failure;

/// A namespace as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// metadata.uid.
    pub uid: String,
    /// It is being deleted: nothing new may be created in it.
    pub terminating: bool,
    /// Fails the write if the namespace has changed by then. Only for namespaces in the same store.
    pub guard: Option<Guard>,
}

/// The namespaces that namespaced objects live in.
#[async_trait]
pub trait Namespaces: Send + Sync + 'static {
    /// None: there is no such namespace.
    ///
    /// # Errors
    /// When it cannot be known.
    async fn get(&self, name: &str) -> Result<Option<Namespace>, Status>;
}

/// The namespaces that this store holds itself.
pub struct StoreNamespaces {
    store: Arc<dyn Store>,
}

impl StoreNamespaces {
    /// Reads them from this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }
}

#[derive(Deserialize)]
struct Stored {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    uid: String,
    deletion_timestamp: Option<String>,
}

#[async_trait]
impl Namespaces for StoreNamespaces {
    async fn get(&self, name: &str) -> Result<Option<Namespace>, Status> {
        // A name that no key can have is no namespace's.
        let Ok(key) = Key::new("", "namespaces", "", name) else {
            return Ok(None);
        };
        let Some(stored) = self.store.get(&key).await.map_err(store_failure)? else {
            return Ok(None);
        };
        let (_, text) = Envelope::open(&stored.value).map_err(Status::internal)?;
        let namespace: Stored = serde_json::from_slice(&text).map_err(Status::internal)?;
        Ok(Some(Namespace {
            uid: namespace.metadata.uid,
            terminating: namespace.metadata.deletion_timestamp.is_some(),
            guard: Some(Guard::KeyAtRevision {
                key,
                revision: Some(stored.revision),
            }),
        }))
    }
}

/// The rule of namespace lifecycle (k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle): nothing is created in a
/// namespace that does not exist or is going.
pub(crate) async fn for_create(
    namespaces: &dyn Namespaces,
    resource: &GroupVersionResource,
    namespace: &str,
    name: &str,
) -> Result<Namespace, Status> {
    let Some(found) = namespaces.get(namespace).await? else {
        let namespaces = GroupVersionResource::new("", "v1", "namespaces");
        return Err(Status::not_found(&namespaces, namespace));
    };
    if found.terminating {
        let message = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let cause = Cause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        };
        return Err(Status::forbidden(resource, name, &message).with_cause(cause));
    }
    Ok(found)
}
