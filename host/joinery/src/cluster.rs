//! What a host behind a kube-apiserver reads of the cluster.

use std::sync::Arc;

use async_trait::async_trait;
use joinery_object::{Change, Follower, GroupVersionResource, Object, ObjectKey, Status};
use joinery_resource::{Namespace, Namespaces, Storage, StoredUpstream};
use joinery_source::{
    ByteBudget, Page, Query, SourceCache, SourceSpec, Upstream, UpstreamError, UpstreamWatch,
};
use serde::Deserialize;

/// What this host stores itself, and the cluster for the rest.
pub(crate) struct RoutedUpstream {
    storage: Arc<Storage>,
    local: StoredUpstream,
    cluster: Arc<dyn Upstream>,
}

impl RoutedUpstream {
    /// Reads of resources that are open on this storage never leave the process.
    pub(crate) fn new(storage: Arc<Storage>, cluster: Arc<dyn Upstream>) -> Self {
        Self {
            local: StoredUpstream::new(storage.clone()),
            storage,
            cluster,
        }
    }

    fn route(&self, gvr: &GroupVersionResource) -> &dyn Upstream {
        match self.storage.served(gvr) {
            Some(_) => &self.local,
            None => &*self.cluster,
        }
    }
}

#[async_trait]
impl Upstream for RoutedUpstream {
    async fn get(
        &self,
        gvr: &GroupVersionResource,
        key: &ObjectKey,
    ) -> Result<Option<Arc<Object>>, UpstreamError> {
        self.route(gvr).get(gvr, key).await
    }

    async fn list(&self, gvr: &GroupVersionResource, query: &Query) -> Result<Page, UpstreamError> {
        self.route(gvr).list(gvr, query).await
    }

    async fn list_whole(
        &self,
        gvr: &GroupVersionResource,
        query: &Query,
    ) -> Result<Page, UpstreamError> {
        self.route(gvr).list_whole(gvr, query).await
    }

    async fn keys_at(
        &self,
        gvr: &GroupVersionResource,
        query: &Query,
        position: u64,
    ) -> Result<Vec<ObjectKey>, UpstreamError> {
        self.route(gvr).keys_at(gvr, query, position).await
    }

    async fn watch(
        &self,
        gvr: &GroupVersionResource,
        query: &Query,
        after: u64,
    ) -> Result<UpstreamWatch, UpstreamError> {
        self.route(gvr).watch(gvr, query, after).await
    }
}

/// The cluster's namespaces, from a cache; one that is not in it is asked for, as it may be new.
pub(crate) struct ClusterNamespaces {
    gvr: GroupVersionResource,
    upstream: Arc<dyn Upstream>,
    cache: SourceCache,
}

#[derive(Deserialize)]
struct Outer {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    deletion_timestamp: Option<String>,
}

impl ClusterNamespaces {
    /// Begins to follow them. Must be called in a tokio runtime.
    pub(crate) fn start(upstream: Arc<dyn Upstream>) -> Self {
        let gvr = GroupVersionResource::new("", "v1", "namespaces");
        let spec = SourceSpec {
            gvr: gvr.clone(),
            label_selector: String::new(),
            field_selector: String::new(),
            optional: false,
        };
        Self {
            cache: SourceCache::start(upstream.clone(), spec, ByteBudget::unlimited()),
            upstream,
            gvr,
        }
    }

    /// Follows which of them go, once all are known.
    pub(crate) async fn departures(&self) -> Departures {
        let (_, _, follower) = self.cache.subscribed().await;
        Departures(follower)
    }
}

/// Tells when a namespace has gone.
pub(crate) struct Departures(Follower);

impl Departures {
    /// Waits for the next one that is gone, or another of the same name; also returns when some may have been missed.
    pub(crate) async fn next(&mut self) {
        while let Ok((changes, _)) = self.0.next().await {
            let is_departure = |change: &Arc<Change>| {
                let new = change.new_object().map(|new| new.uid());
                change.old().is_some_and(|old| new != Some(old.uid()))
            };
            if changes.iter().any(is_departure) {
                return;
            }
        }
    }
}

#[async_trait]
impl Namespaces for ClusterNamespaces {
    async fn get(&self, name: &str) -> Result<Option<Namespace>, Status> {
        let key = ObjectKey::new(None, name);
        let cached = self.cache.get(&key);
        let found = match cached {
            Some(found) => Some(found),
            None => self.upstream.get(&self.gvr, &key).await?,
        };
        found
            .map(|object| {
                let outer: Outer =
                    serde_json::from_slice(&object.bytes()).map_err(Status::internal)?;
                Ok(Namespace {
                    uid: object.uid().to_owned(),
                    terminating: outer.metadata.deletion_timestamp.is_some(),
                    guard: None,
                })
            })
            .transpose()
    }
}
