//! What k8s.io/kubernetes' namespace controller does: empties namespaces that are being deleted, then lets them go.

use std::sync::Arc;
use std::time::Duration;

use joinery_object::{DeleteOptions, ListOptions, Object, ObjectKey, Status};
use serde_json::Value;

use super::namespaces::is_held;
use super::{host, now};
use crate::catalog::Catalog;
use crate::stored::{Storage, StoredResource};

/// Before a namespace is looked at again whose objects wait for their finalizers.
const RETRY: Duration = Duration::from_millis(500);

/// Runs for as long as the host does.
pub(super) async fn run(
    storage: Arc<Storage>,
    namespaces: Arc<StoredResource>,
    catalog: Arc<Catalog>,
) {
    loop {
        let (objects, _, mut follower) = namespaces.subscribe();
        let mut waiting = false;
        for namespace in objects.values().filter(|object| is_terminating(object)) {
            match empty(&storage, &catalog, &namespaces, namespace.key()).await {
                Ok(done) => waiting |= !done,
                Err(error) => {
                    tracing::warn!(namespace = %namespace.key(), %error, "a namespace cannot be emptied");
                    waiting = true;
                }
            }
        }
        // Whoever lagged behind has missed nothing: all namespaces are looked at anew.
        if waiting {
            let _ = tokio::time::timeout(RETRY, follower.next()).await;
        } else {
            let _ = follower.next().await;
        }
    }
}

/// Whether it is being deleted and nobody has emptied it yet.
fn is_terminating(namespace: &Object) -> bool {
    let namespace: Value = serde_json::from_slice(&namespace.bytes()).unwrap_or_default();
    !namespace["metadata"]["deletionTimestamp"].is_null() && is_held(&namespace)
}

/// Deletes what is kept elsewhere, and gives how much of it there still was.
async fn empty_others(
    storage: &Storage,
    catalog: &Catalog,
    namespace: &str,
) -> Result<usize, Status> {
    let mut found = 0;
    for (gvr, resource) in catalog.snapshot().resources() {
        let definition = resource.definition();
        let deletes = definition.verbs.contains(&"deletecollection");
        if !definition.namespaced || !deletes || storage.served(gvr).is_some() {
            continue;
        }
        let (all, options) = (ListOptions::default(), DeleteOptions::default());
        let deleted = resource
            .delete_collection(&host(), Some(namespace), &all, &options)
            .await?;
        found += deleted.items.len();
    }
    Ok(found)
}

/// Whether the namespace is empty, and has been let go.
async fn empty(
    storage: &Storage,
    catalog: &Catalog,
    namespaces: &StoredResource,
    key: &ObjectKey,
) -> Result<bool, Status> {
    let left = storage.empty(&key.name, &host()).await?;
    if left + empty_others(storage, catalog, &key.name).await? > 0 {
        return Ok(false);
    }
    // Nothing new can have come: whoever creates an object guards that its namespace is not being deleted.
    namespaces
        .amend(key, now(), |namespace| {
            namespace["spec"]["finalizers"] = Value::Array(Vec::new());
        })
        .await?;
    tracing::info!(namespace = %key, "a namespace has been emptied");
    Ok(true)
}
