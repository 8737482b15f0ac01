//! The resources of this host as a source of views: answered in-process, never over the network.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use joinery_object::{
    FieldSelector, GroupVersionResource, LabelSelector, ListOptions, Object, ObjectKey, Status,
    canonical,
};
use joinery_resource::{Caller, Catalog, MASTERS, Resource, User, WatchItem};
use joinery_source::{Page, Query, Upstream, UpstreamError, UpstreamEvent, UpstreamWatch};

/// Reads what the catalog has at the time of each request.
pub struct LocalUpstream {
    catalog: Arc<Catalog>,
}

impl LocalUpstream {
    /// An upstream of this catalog.
    pub fn new(catalog: Arc<Catalog>) -> Self {
        Self { catalog }
    }

    /// Whether this host serves the resource itself.
    pub fn serves(&self, gvr: &GroupVersionResource) -> bool {
        self.catalog.snapshot().find(gvr).is_some()
    }

    fn resource(&self, gvr: &GroupVersionResource) -> Result<Arc<dyn Resource>, UpstreamError> {
        self.catalog
            .snapshot()
            .find(gvr)
            .cloned()
            .ok_or_else(|| UpstreamError::NoSuchResource(gvr.to_string()))
    }
}

/// The host itself, which may read all that it serves.
fn host() -> Caller {
    Caller {
        user: User {
            name: "system:joinery".to_owned(),
            groups: vec![MASTERS.to_owned()],
            ..User::default()
        },
        now: 0,
    }
}

fn refused(status: Status) -> UpstreamError {
    match status.code {
        410 => UpstreamError::Expired(status.message),
        _ => UpstreamError::Refused(status),
    }
}

fn options(query: &Query) -> Result<ListOptions, UpstreamError> {
    let invalid = |error: joinery_object::SelectorError| refused(Status::from(error));
    Ok(ListOptions {
        label_selector: query
            .label_selector
            .parse::<LabelSelector>()
            .map_err(invalid)?,
        field_selector: query
            .field_selector
            .parse::<FieldSelector>()
            .map_err(invalid)?,
        limit: query.limit as usize,
        continue_token: query.continue_token.clone(),
        ..ListOptions::default()
    })
}

/// What a view sees of a stored object.
fn shown(object: &Object, gvr: &GroupVersionResource, kind: &str) -> Result<Arc<Object>, UpstreamError> {
    canonical(&object.bytes(), &gvr.api_version(), kind)
        .and_then(Object::parse)
        .map(Arc::new)
        .map_err(|error| UpstreamError::Unreachable(format!("{}: {error}", object.key())))
}

#[async_trait]
impl Upstream for LocalUpstream {
    async fn get(
        &self,
        gvr: &GroupVersionResource,
        key: &ObjectKey,
    ) -> Result<Option<Arc<Object>>, UpstreamError> {
        let resource = self.resource(gvr)?;
        match resource.get(&host(), key, None).await {
            Ok(object) => shown(&object, gvr, &resource.definition().kind).map(Some),
            Err(status) if status.code == 404 => Ok(None),
            Err(status) => Err(refused(status)),
        }
    }

    async fn list(&self, gvr: &GroupVersionResource, query: &Query) -> Result<Page, UpstreamError> {
        let resource = self.resource(gvr)?;
        let namespace = query.namespace.as_deref();
        let list = resource
            .list(&host(), namespace, &options(query)?)
            .await
            .map_err(refused)?;
        let kind = resource.definition().kind.clone();
        Ok(Page {
            items: list
                .items
                .iter()
                .map(|object| shown(object, gvr, &kind))
                .collect::<Result<_, _>>()?,
            position: list.resource_version.position(0),
            continue_token: list.continue_token,
            remaining: list.remaining,
        })
    }

    async fn watch(
        &self,
        gvr: &GroupVersionResource,
        query: &Query,
        after: u64,
    ) -> Result<UpstreamWatch, UpstreamError> {
        let resource = self.resource(gvr)?;
        let options = ListOptions {
            watch: true,
            allow_watch_bookmarks: true,
            resource_version: Some(after.to_string()),
            ..options(query)?
        };
        let namespace = query.namespace.as_deref();
        let items = resource
            .watch(&host(), namespace, &options)
            .await
            .map_err(refused)?;
        let (gvr, kind) = (gvr.clone(), resource.definition().kind.clone());
        Ok(items
            .map(move |item| match item {
                WatchItem::Event { kind: event, object, .. } => {
                    Ok(UpstreamEvent::Change(event, shown(&object, &gvr, &kind)?))
                }
                WatchItem::Bookmark { version, .. } => {
                    Ok(UpstreamEvent::Bookmark(version.position(0)))
                }
                WatchItem::Error(status) => Err(refused(status)),
            })
            .boxed())
    }
}

/// What this host serves itself, and a cluster behind it for the rest.
pub struct RoutedUpstream {
    local: LocalUpstream,
    cluster: Option<Arc<dyn Upstream>>,
}

impl RoutedUpstream {
    /// Without a cluster, what is not served here does not exist.
    pub fn new(local: LocalUpstream, cluster: Option<Arc<dyn Upstream>>) -> Self {
        Self { local, cluster }
    }

    fn route(&self, gvr: &GroupVersionResource) -> &dyn Upstream {
        match &self.cluster {
            Some(cluster) if !self.local.serves(gvr) => &**cluster,
            _ => &self.local,
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

    async fn watch(
        &self,
        gvr: &GroupVersionResource,
        query: &Query,
        after: u64,
    ) -> Result<UpstreamWatch, UpstreamError> {
        self.route(gvr).watch(gvr, query, after).await
    }
}
