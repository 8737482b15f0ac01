//! A Kubernetes API server as upstream: raw bytes in, no typed objects on the way.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Buf, Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt, stream};
use http::{Request, Response};
use http_body_util::BodyExt;
use joinery_object::{
    EventType, GroupVersionResource, Object, ObjectError, ObjectKey, Status, canonical,
    not_a_path_segment,
};
use kube::client::Body;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::feed::{ANSWER, PAGE_ANSWER, within};
use crate::upstream::{Page, Query, Upstream, UpstreamError, UpstreamEvent, UpstreamWatch};

/// A watch is renewed after so many seconds at most: a connection that died unnoticed is noticed then.
const WATCH_SECONDS: u32 = 290;
/// Objects a page where only their names are asked for.
const KEY_PAGE: u32 = 5_000;
const JSON: &str = "application/json";
/// For lists of which only the names are read. What upstream cannot leave out comes along.
const JSON_METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Reads through a kube client, which knows servers, certificates and tokens.
pub struct KubernetesUpstream {
    client: kube::Client,
    requests: AtomicU64,
}

#[derive(Deserialize)]
struct RawList<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, rename = "apiVersion")]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    metadata: RawListMeta<'a>,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

/// A list of which only the names are read.
#[derive(Deserialize)]
struct RawKeyList<'a> {
    #[serde(borrow)]
    metadata: RawListMeta<'a>,
    #[serde(borrow)]
    items: Vec<RawNamed<'a>>,
}

#[derive(Deserialize)]
struct RawNamed<'a> {
    #[serde(borrow)]
    metadata: RawKey<'a>,
}

#[derive(Deserialize)]
struct RawKey<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawListMeta<'a> {
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    #[serde(borrow, default, rename = "continue")]
    continue_token: Cow<'a, str>,
    #[serde(default)]
    remaining_item_count: Option<u64>,
}

#[derive(Deserialize)]
struct RawEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawKind<'a> {
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
}

#[derive(Deserialize)]
struct RawBookmark<'a> {
    #[serde(borrow)]
    metadata: RawListMeta<'a>,
}

fn unreadable(error: impl std::fmt::Display) -> UpstreamError {
    UpstreamError::Unreachable(format!("upstream sent what cannot be read: {error}"))
}

fn position(text: &str) -> Result<u64, UpstreamError> {
    text.parse()
        .map_err(|_| unreadable(format!("resourceVersion {text:?} is no decimal integer")))
}

fn object(text: &str, api_version: &str, kind: &str) -> Result<Arc<Object>, UpstreamError> {
    canonical(text.as_bytes(), api_version, kind)
        .and_then(Object::parse)
        .map(Arc::new)
        .map_err(|error: ObjectError| unreadable(error))
}

impl KubernetesUpstream {
    /// An upstream behind this client.
    pub fn new(client: kube::Client) -> Self {
        Self {
            client,
            requests: AtomicU64::new(0),
        }
    }

    /// How many requests have been sent, watches included.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    async fn send(&self, path: &str, accept: &str) -> Result<Response<Body>, UpstreamError> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let request = Request::get(path)
            .header(http::header::ACCEPT, accept)
            .body(Body::empty())
            .map_err(|error| UpstreamError::Unreachable(error.to_string()))?;
        let response = self
            .client
            .send(request)
            .await
            .map_err(|error| UpstreamError::Unreachable(error.to_string()))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let code = response.status();
        let body = whole(response).await.unwrap_or_default();
        Err(match serde_json::from_slice::<Status>(&body) {
            // An object that is missing has a name; a resource that is missing has none.
            Ok(status)
                if code == 404 && status.details.as_ref().is_none_or(|d| d.name.is_empty()) =>
            {
                UpstreamError::NoSuchResource(path.split('?').next().unwrap_or(path).to_owned())
            }
            Ok(status) if code == 410 => UpstreamError::Expired(status.message),
            Ok(status) => UpstreamError::Refused(status),
            Err(_) if code == 404 => UpstreamError::NoSuchResource(path.to_owned()),
            Err(_) => UpstreamError::Unreachable(format!(
                "upstream answered {code}: {}",
                String::from_utf8_lossy(&body[..body.len().min(200)])
            )),
        })
    }
}

/// The body of an answer that ends.
async fn answer(
    upstream: &KubernetesUpstream,
    path: &str,
    accept: &str,
    patience: Duration,
) -> Result<Bytes, UpstreamError> {
    within(patience, async {
        whole(upstream.send(path, accept).await?).await
    })
    .await
}

async fn whole(response: Response<Body>) -> Result<Bytes, UpstreamError> {
    Ok(response
        .into_body()
        .collect()
        .await
        .map_err(|error| UpstreamError::Unreachable(error.to_string()))?
        .to_bytes())
}

/// The path and query of a collection. Parameters are percent-encoded.
pub(crate) fn collection(
    gvr: &GroupVersionResource,
    query: &Query,
    more: &[(&str, String)],
) -> String {
    let mut path = gvr.path(query.namespace.as_deref());
    let mut encoded = url::form_urlencoded::Serializer::new(String::new());
    if !query.label_selector.is_empty() {
        encoded.append_pair("labelSelector", &query.label_selector);
    }
    if !query.field_selector.is_empty() {
        encoded.append_pair("fieldSelector", &query.field_selector);
    }
    if query.limit > 0 {
        encoded.append_pair("limit", &query.limit.to_string());
    }
    if let Some(token) = &query.continue_token {
        encoded.append_pair("continue", token);
    }
    for (name, value) in more {
        encoded.append_pair(name, value);
    }
    let encoded = encoded.finish();
    if !encoded.is_empty() {
        path.push('?');
        path.push_str(&encoded);
    }
    path
}

/// A namespace that cannot stand in a path would lead to another one.
fn check_namespace(query: &Query) -> Result<(), UpstreamError> {
    match query.namespace.as_deref().and_then(not_a_path_segment) {
        None => Ok(()),
        Some(problem) => Err(UpstreamError::Refused(Status::bad_request(format!(
            "the namespace {problem}"
        )))),
    }
}

/// Length in bytes of the path and query that a list of this query is sent as.
pub fn url_length(gvr: &GroupVersionResource, query: &Query) -> usize {
    collection(gvr, query, &[]).len()
}

#[async_trait]
impl Upstream for KubernetesUpstream {
    async fn get(
        &self,
        gvr: &GroupVersionResource,
        key: &ObjectKey,
    ) -> Result<Option<Arc<Object>>, UpstreamError> {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        if not_a_path_segment(&key.name)
            .or_else(|| not_a_path_segment(namespace))
            .is_some()
        {
            // Nothing is called so, and the path would be another's.
            return Ok(None);
        }
        let path = gvr.object_path(key);
        let body = match answer(self, &path, JSON, ANSWER).await {
            Ok(body) => body,
            Err(UpstreamError::Refused(status)) if status.code == 404 => return Ok(None),
            Err(error) => return Err(error),
        };
        let text = std::str::from_utf8(&body).map_err(unreadable)?;
        let kind: RawKind<'_> = serde_json::from_str(text).map_err(unreadable)?;
        object(text, &kind.api_version, &kind.kind).map(Some)
    }

    async fn list(&self, gvr: &GroupVersionResource, query: &Query) -> Result<Page, UpstreamError> {
        check_namespace(query)?;
        let body = answer(self, &collection(gvr, query, &[]), JSON, PAGE_ANSWER).await?;
        let list: RawList<'_> = serde_json::from_slice(&body).map_err(unreadable)?;
        // Items of built-in lists lack their kind: it is the list's, without its ending.
        let kind = list.kind.strip_suffix("List").unwrap_or(&list.kind);
        let items = list
            .items
            .iter()
            .map(|item| {
                let own: RawKind<'_> = serde_json::from_str(item.get()).map_err(unreadable)?;
                let kind = if own.kind.is_empty() { kind } else { &own.kind };
                object(item.get(), &list.api_version, kind)
            })
            .collect::<Result<_, _>>()?;
        Ok(Page {
            items,
            position: position(&list.metadata.resource_version)?,
            continue_token: Some(list.metadata.continue_token.into_owned())
                .filter(|token| !token.is_empty()),
            remaining: list.metadata.remaining_item_count,
        })
    }

    async fn keys_at(
        &self,
        gvr: &GroupVersionResource,
        query: &Query,
        position: u64,
    ) -> Result<Vec<ObjectKey>, UpstreamError> {
        check_namespace(query)?;
        let mut query = Query {
            limit: KEY_PAGE,
            continue_token: None,
            ..query.clone()
        };
        let mut keys = Vec::new();
        loop {
            // A continue token knows the version of its list.
            let at = [
                ("resourceVersion", position.to_string()),
                ("resourceVersionMatch", "Exact".to_owned()),
            ];
            let at = if query.continue_token.is_none() {
                &at[..]
            } else {
                &[]
            };
            let path = collection(gvr, &query, at);
            let body = answer(self, &path, JSON_METADATA, PAGE_ANSWER).await?;
            let list: RawKeyList<'_> = serde_json::from_slice(&body).map_err(unreadable)?;
            let named = list.items.iter().map(|RawNamed { metadata }| {
                let namespace = Some(&*metadata.namespace).filter(|name| !name.is_empty());
                ObjectKey::new(namespace, &metadata.name)
            });
            keys.extend(named);
            if list.metadata.continue_token.is_empty() {
                return Ok(keys);
            }
            query.continue_token = Some(list.metadata.continue_token.into_owned());
        }
    }

    async fn watch(
        &self,
        gvr: &GroupVersionResource,
        query: &Query,
        after: u64,
    ) -> Result<UpstreamWatch, UpstreamError> {
        let parameters = [
            ("watch", "true".to_owned()),
            ("resourceVersion", after.to_string()),
            ("allowWatchBookmarks", "true".to_owned()),
            ("timeoutSeconds", WATCH_SECONDS.to_string()),
        ];
        let response = self
            .send(&collection(gvr, query, &parameters), JSON)
            .await?;
        let chunks = response
            .into_body()
            .into_data_stream()
            .map_err(|error| UpstreamError::Unreachable(error.to_string()))
            .boxed();
        let lines = stream::try_unfold((chunks, BytesMut::new()), |(mut chunks, mut rest)| async {
            loop {
                if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let line = rest.split_to(end).freeze();
                    rest.advance(1);
                    return Ok(Some((line, (chunks, rest))));
                }
                match chunks.try_next().await? {
                    Some(chunk) => rest.extend_from_slice(&chunk),
                    None if rest.is_empty() => return Ok(None),
                    // What is left is half a line.
                    None => return Err(UpstreamError::Unreachable("a watch broke off".to_owned())),
                }
            }
        });
        Ok(lines.and_then(|line| async move { event(&line) }).boxed())
    }
}

fn event(line: &[u8]) -> Result<UpstreamEvent, UpstreamError> {
    let raw: RawEvent<'_> = serde_json::from_slice(line).map_err(unreadable)?;
    let text = raw.object.get();
    let kind = match &*raw.kind {
        "ADDED" => EventType::Added,
        "MODIFIED" => EventType::Modified,
        "DELETED" => EventType::Deleted,
        "BOOKMARK" => {
            let bookmark: RawBookmark<'_> = serde_json::from_str(text).map_err(unreadable)?;
            return Ok(UpstreamEvent::Bookmark(position(
                &bookmark.metadata.resource_version,
            )?));
        }
        "ERROR" => {
            let status: Status = serde_json::from_str(text).map_err(unreadable)?;
            return Err(match status.code {
                410 => UpstreamError::Expired(status.message),
                _ => UpstreamError::Refused(status),
            });
        }
        other => return Err(unreadable(format!("event type {other:?}"))),
    };
    let own: RawKind<'_> = serde_json::from_str(text).map_err(unreadable)?;
    Ok(UpstreamEvent::Change(
        kind,
        object(text, &own.api_version, &own.kind)?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_path_is_encoded() {
        let gvr = GroupVersionResource::new("", "v1", "events");
        let query = Query {
            namespace: Some("default".to_owned()),
            label_selector: "a in (b,c)".to_owned(),
            limit: 5,
            ..Query::default()
        };
        assert_eq!(
            collection(&gvr, &query, &[("watch", "true".to_owned())]),
            "/api/v1/namespaces/default/events?labelSelector=a+in+%28b%2Cc%29&limit=5&watch=true"
        );
    }

    #[test]
    fn events_of_a_watch_are_read() {
        let line = br#"{"type":"MODIFIED","object":{"kind":"Event","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"7"}}}"#;
        let Ok(UpstreamEvent::Change(EventType::Modified, object)) = event(line) else {
            panic!("not a change");
        };
        assert_eq!(object.resource_version().position(0), 7);
        let line = br#"{"type":"BOOKMARK","object":{"kind":"Event","apiVersion":"v1","metadata":{"resourceVersion":"9","creationTimestamp":null}}}"#;
        assert!(matches!(event(line), Ok(UpstreamEvent::Bookmark(9))));
        let line = br#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","code":410}}"#;
        assert!(matches!(event(line), Err(UpstreamError::Expired(_))));
        assert!(event(b"{}").is_err());
    }
}
