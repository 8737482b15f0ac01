//! A Kubernetes API server as upstream: raw bytes in, no typed objects on the way.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Buf, Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt, stream};
use http::{Request, Response};
use http_body_util::BodyExt;
use joinery_object::{
    EventType, GroupVersionResource, Object, ObjectKey, Status, not_a_path_segment,
};
use kube::client::Body;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::task::JoinError;
use tracing::{debug, warn};

use crate::feed::{ANSWER, PAGE_ANSWER, within};
use crate::list::{self, RawListMeta, unreadable};
use crate::protobuf::{self, Unread};
use crate::upstream::{Page, Query, Upstream, UpstreamError, UpstreamEvent, UpstreamWatch};

/// A watch is renewed after so many seconds at most: a connection that died unnoticed is noticed then.
const WATCH_SECONDS: u32 = 290;
/// Objects a page where a list is wanted whole.
const WHOLE_PAGE: u32 = 10_000;
/// A path and query of so many bytes, which selects finely, is asked for in one: with a token it could become too long.
const LONG: usize = 4 * 1024;
/// Pages whose objects are read while the next one is on its way.
const READ_AT_ONCE: usize = 2;
/// Objects a page where only their names are asked for.
const KEY_PAGE: u32 = 5_000;
const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf,application/json;q=0.9";
/// For lists of which only the names are read. What upstream cannot leave out comes along.
const JSON_METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Reads through a kube client, which knows servers, certificates and tokens.
pub struct KubernetesUpstream {
    client: kube::Client,
    requests: AtomicU64,
    /// Its protobuf has fields that are not known here.
    unfamiliar: AtomicBool,
}

#[derive(Deserialize)]
struct RawEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct RawBookmark<'a> {
    #[serde(borrow)]
    metadata: RawListMeta<'a>,
}

impl KubernetesUpstream {
    /// An upstream behind this client.
    pub fn new(client: kube::Client) -> Self {
        Self {
            client,
            requests: AtomicU64::new(0),
            unfamiliar: AtomicBool::new(false),
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
        let is_protobuf = is_protobuf(&response);
        let body = whole(response).await.unwrap_or_default();
        let said = if is_protobuf {
            protobuf::status(&body)
        } else {
            serde_json::from_slice::<Status>(&body).ok()
        };
        Err(match said {
            // An object that is missing has a name; a resource that is missing has none.
            Some(status)
                if code == 404 && status.details.as_ref().is_none_or(|d| d.name.is_empty()) =>
            {
                UpstreamError::NoSuchResource(path.split('?').next().unwrap_or(path).to_owned())
            }
            Some(status) if code == 410 => UpstreamError::Expired(status.message),
            Some(status) => UpstreamError::Refused(status),
            None if code == 404 => UpstreamError::NoSuchResource(path.to_owned()),
            None => UpstreamError::Unreachable(format!(
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

fn is_protobuf(response: &Response<Body>) -> bool {
    let content_type = response.headers().get(http::header::CONTENT_TYPE);
    content_type.is_some_and(|value| value == protobuf::MEDIA_TYPE)
}

/// The body of a list, and whether it is protobuf: upstream may know nothing but JSON.
async fn list_answer(
    upstream: &KubernetesUpstream,
    path: &str,
    accept: &str,
) -> Result<(Bytes, bool), UpstreamError> {
    within(PAGE_ANSWER, async {
        let response = upstream.send(path, accept).await?;
        let is_protobuf = is_protobuf(&response);
        Ok((whole(response).await?, is_protobuf))
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

/// A whole list, in pages that are asked for as soon as the token of each is known.
async fn in_pages(
    upstream: &KubernetesUpstream,
    gvr: &GroupVersionResource,
    query: &Query,
    kind: Option<&'static protobuf::Kind>,
) -> Result<Page, Unread> {
    let accept = if kind.is_some() { PROTOBUF } else { JSON };
    let mut query = Query {
        limit: 0,
        continue_token: None,
        ..query.clone()
    };
    if url_length(gvr, &query) < LONG {
        query.limit = WHOLE_PAGE;
    }
    let mut reading = VecDeque::new();
    let mut whole = Page::default();
    let mut add = |page: Result<Result<Page, Unread>, JoinError>| {
        let page = page.map_err(|error| Unread::Failed(unreadable(error)))??;
        whole.position = page.position;
        whole.items.extend(page.items);
        Ok::<_, Unread>(())
    };
    loop {
        let path = collection(gvr, &query, &[]);
        let (body, is_protobuf) = list_answer(upstream, &path, accept).await?;
        let (tell, told) = oneshot::channel();
        reading.push_back(tokio::task::spawn_blocking(move || {
            let next = |token| {
                let _ = tell.send(token);
            };
            match kind.filter(|_| is_protobuf) {
                Some(kind) => protobuf::page(&body, kind, next),
                None => Ok(list::page(&body, next)?),
            }
        }));
        // Nobody tells of a page that cannot be read.
        query.continue_token = told.await.unwrap_or_default();
        while reading.len() > READ_AT_ONCE || query.continue_token.is_none() {
            let Some(page) = reading.pop_front() else {
                return Ok(whole);
            };
            add(page.await)?;
        }
    }
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
        list::object(&body, "", "").map(Some)
    }

    async fn list(&self, gvr: &GroupVersionResource, query: &Query) -> Result<Page, UpstreamError> {
        check_namespace(query)?;
        let body = answer(self, &collection(gvr, query, &[]), JSON, PAGE_ANSWER).await?;
        list::page(&body, |_| {})
    }

    /// Pages are read ahead: upstream writes the next one while the objects of this one are read.
    async fn list_whole(
        &self,
        gvr: &GroupVersionResource,
        query: &Query,
    ) -> Result<Page, UpstreamError> {
        check_namespace(query)?;
        let kind = protobuf::kind(gvr).filter(|_| !self.unfamiliar.load(Ordering::Relaxed));
        let pages = match in_pages(self, gvr, query, kind).await {
            Err(Unread::Malformed(why)) => {
                debug!(source = %gvr, why, "a list cannot be read as protobuf: it is asked for as JSON");
                in_pages(self, gvr, query, None).await
            }
            Err(Unread::Unfamiliar(number)) => {
                warn!(source = %gvr, field = number, "upstream knows more of these objects than this host: they are read as JSON");
                self.unfamiliar.store(true, Ordering::Relaxed);
                in_pages(self, gvr, query, None).await
            }
            other => other,
        };
        match pages.map_err(UpstreamError::from) {
            // The version of the first page went out of upstream's memory before the last one was read.
            Err(UpstreamError::Expired(_)) => {
                let whole = Query {
                    limit: 0,
                    continue_token: None,
                    ..query.clone()
                };
                self.list(gvr, &whole).await
            }
            other => other,
        }
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
            let (more, next) = list::keys(&body)?;
            keys.extend(more);
            if next.is_none() {
                return Ok(keys);
            }
            query.continue_token = next;
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
            return Ok(UpstreamEvent::Bookmark(bookmark.metadata.position()?));
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
    Ok(UpstreamEvent::Change(
        kind,
        list::object(text.as_bytes(), "", "")?,
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
