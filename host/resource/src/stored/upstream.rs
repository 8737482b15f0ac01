//! The stored resources of this host as sources of its views: what standalone has in place of a kube-apiserver.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use joinery_object::{
    GroupVersionResource, ListOptions, Object, ObjectKey, ResourceVersionMatch, Status, canonical,
    reason,
};
use joinery_source::{Page, Query, Upstream, UpstreamError, UpstreamEvent, UpstreamWatch};

use super::resource::StoredResource;
use super::storage::Storage;
use crate::resource::WatchItem;

/// Members of the metadata that sources do not have; see [`canonical`].
const NOT_CANONICAL: [&str; 2] = [
    "\"managedFields\"",
    "\"kubectl.kubernetes.io/last-applied-configuration\"",
];

/// Answers from the resources that are open on a storage, in-process.
pub struct StoredUpstream {
    storage: Arc<Storage>,
}

impl StoredUpstream {
    /// The resources of this storage, also those that are opened later.
    pub fn new(storage: Arc<Storage>) -> Self {
        Self { storage }
    }

    fn resource(&self, gvr: &GroupVersionResource) -> Result<Arc<StoredResource>, UpstreamError> {
        self.storage
            .served(gvr)
            .ok_or_else(|| UpstreamError::NoSuchResource(gvr.to_string()))
    }
}

#[async_trait]
impl Upstream for StoredUpstream {
    async fn get(
        &self,
        gvr: &GroupVersionResource,
        key: &ObjectKey,
    ) -> Result<Option<Arc<Object>>, UpstreamError> {
        match self.resource(gvr)?.read_one(key, None).await {
            Ok(object) => canonical_object(object).map(Some),
            Err(status) if status.is(reason::NOT_FOUND) => Ok(None),
            Err(status) => Err(failure(status)),
        }
    }

    async fn list(&self, gvr: &GroupVersionResource, query: &Query) -> Result<Page, UpstreamError> {
        let options = ListOptions {
            limit: query.limit as usize,
            continue_token: query.continue_token.clone(),
            ..options(query)?
        };
        let resource = self.resource(gvr)?;
        let list = resource
            .read_list(query.namespace.as_deref(), &options)
            .await;
        let list = list.map_err(failure)?;
        let items = list.items.into_iter().map(canonical_object);
        Ok(Page {
            items: items.collect::<Result<_, _>>()?,
            position: list.resource_version.position(0),
            continue_token: list.continue_token,
            remaining: list.remaining,
        })
    }

    async fn keys_at(
        &self,
        gvr: &GroupVersionResource,
        query: &Query,
        position: u64,
    ) -> Result<Vec<ObjectKey>, UpstreamError> {
        let options = ListOptions {
            resource_version: Some(position.to_string()),
            resource_version_match: Some(ResourceVersionMatch::Exact),
            ..options(query)?
        };
        let resource = self.resource(gvr)?;
        let list = resource
            .read_list(query.namespace.as_deref(), &options)
            .await;
        let items = list.map_err(failure)?.items.into_iter();
        Ok(items.map(|object| object.key().clone()).collect())
    }

    async fn watch(
        &self,
        gvr: &GroupVersionResource,
        query: &Query,
        after: u64,
    ) -> Result<UpstreamWatch, UpstreamError> {
        let options = ListOptions {
            watch: true,
            allow_watch_bookmarks: true,
            resource_version: Some(after.to_string()),
            ..options(query)?
        };
        let resource = self.resource(gvr)?;
        let watch = resource
            .read_changes(query.namespace.as_deref(), &options)
            .await;
        let events = watch.map_err(failure)?.map(|item| match item {
            WatchItem::Event { kind, object, .. } => {
                Ok(UpstreamEvent::Change(kind, canonical_object(object)?))
            }
            WatchItem::Bookmark { version, .. } => Ok(UpstreamEvent::Bookmark(version.position(0))),
            WatchItem::Error(status) => Err(failure(status)),
        });
        Ok(events.boxed())
    }
}

fn options(query: &Query) -> Result<ListOptions, UpstreamError> {
    let read = || -> Result<ListOptions, Status> {
        Ok(ListOptions {
            label_selector: query.label_selector.parse()?,
            field_selector: query.field_selector.parse()?,
            ..ListOptions::default()
        })
    };
    read().map_err(UpstreamError::Refused)
}

fn failure(status: Status) -> UpstreamError {
    if status.is(reason::EXPIRED) {
        UpstreamError::Expired(status.message)
    } else {
        UpstreamError::Refused(status)
    }
}

/// Shares the object where it is canonical, as most are: stored objects have their kind, and it comes first.
fn canonical_object(object: Arc<Object>) -> Result<Arc<Object>, UpstreamError> {
    let text = object.bytes();
    // What is no UTF-8 is no object either, and fails below.
    let is_canonical = std::str::from_utf8(&text).is_ok_and(|text| {
        !NOT_CANONICAL
            .into_iter()
            .any(|member| text.contains(member))
    });
    if is_canonical {
        return Ok(object);
    }
    let unreadable = |error: &dyn std::fmt::Display| UpstreamError::Unreachable(error.to_string());
    let members: Type<'_> = serde_json::from_slice(&text).map_err(|e| unreadable(&e))?;
    let text = canonical(&text, &members.api_version, &members.kind).map_err(|e| unreadable(&e))?;
    let version = object.resource_version().clone();
    Object::parse_at(text, version)
        .map(Arc::new)
        .map_err(|e| unreadable(&e))
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Type<'a> {
    #[serde(borrow)]
    api_version: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    kind: std::borrow::Cow<'a, str>,
}

#[cfg(test)]
mod tests {
    use joinery_object::ResourceVersion;

    use super::*;

    fn object(metadata: &str) -> Arc<Object> {
        let text =
            format!(r#"{{"apiVersion":"v1","kind":"Event","metadata":{{"name":"a"{metadata}}}}}"#);
        Arc::new(Object::parse_at(text.into(), ResourceVersion::single(7)).unwrap())
    }

    #[test]
    fn canonical_objects_are_shared_and_others_made_so() {
        let plain = object("");
        assert!(Arc::ptr_eq(
            &plain,
            &canonical_object(plain.clone()).unwrap()
        ));
        let managed = canonical_object(object(r#","managedFields":[{"a":1}]"#)).unwrap();
        assert_eq!(managed.bytes(), plain.bytes());
    }
}
