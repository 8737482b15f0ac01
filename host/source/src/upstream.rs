//! Where objects come from.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use joinery_object::{EventType, GroupVersionResource, Object, ObjectKey, Status};

/// What is asked for in a list or a watch. Empty strings ask for nothing in particular.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Query {
    /// None: all namespaces.
    pub namespace: Option<String>,
    /// As in a request.
    pub label_selector: String,
    /// As in a request.
    pub field_selector: String,
    /// At most so many a page; 0 for all.
    pub limit: u32,
    /// Token of the page before.
    pub continue_token: Option<String>,
}

/// One page of a list.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// In the order of their keys, canonical ([`joinery_object::canonical`]).
    pub items: Vec<Arc<Object>>,
    /// The version of the list; the same on all its pages.
    pub position: u64,
    /// For the next page; none: complete.
    pub continue_token: Option<String>,
    /// How many are left, if upstream says so.
    pub remaining: Option<u64>,
}

/// One message of a watch.
#[derive(Clone, Debug)]
pub enum UpstreamEvent {
    /// An object came, changed or went. Its version is the position of the change.
    Change(EventType, Arc<Object>),
    /// All up to this position has been told.
    Bookmark(u64),
}

/// A question that upstream did not answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum UpstreamError {
    /// There is no such resource: its CRD or API server is missing.
    #[error("the server has no resource {0}")]
    NoSuchResource(String),
    /// The history since the position asked for is gone: list again.
    #[error("too old: {0}")]
    Expired(String),
    /// Upstream refused, and said why.
    #[error("{0}")]
    Refused(Status),
    /// No answer at all, or one that cannot be read.
    #[error("{0}")]
    Unreachable(String),
}

impl From<UpstreamError> for Status {
    /// What a client is told whose request needed the answer.
    fn from(error: UpstreamError) -> Self {
        match error {
            UpstreamError::Refused(status) if status.code == 429 => status,
            UpstreamError::Expired(message) => Self::expired(message),
            other => Self::service_unavailable(format!("a source cannot be read: {other}"))
                .with_retry_after(1),
        }
    }
}

/// A stream of changes after a position. Its end is no error: watch on from the last position.
pub type UpstreamWatch = BoxStream<'static, Result<UpstreamEvent, UpstreamError>>;

/// A Kubernetes API, or the part of one that this host serves itself.
#[async_trait]
pub trait Upstream: Send + Sync + 'static {
    /// One object; none where there is none.
    ///
    /// # Errors
    /// See [`UpstreamError`].
    async fn get(
        &self,
        gvr: &GroupVersionResource,
        key: &ObjectKey,
    ) -> Result<Option<Arc<Object>>, UpstreamError>;

    /// One page of a list, at its latest.
    ///
    /// # Errors
    /// See [`UpstreamError`].
    async fn list(&self, gvr: &GroupVersionResource, query: &Query) -> Result<Page, UpstreamError>;

    /// A list that is wanted whole, of one version: the pages of the query do not count.
    ///
    /// # Errors
    /// See [`UpstreamError`].
    async fn list_whole(
        &self,
        gvr: &GroupVersionResource,
        query: &Query,
    ) -> Result<Page, UpstreamError> {
        let query = Query {
            limit: 0,
            continue_token: None,
            ..query.clone()
        };
        self.list(gvr, &query).await
    }

    /// The keys of a list as it was at an earlier position, complete: the pages of the query do not count.
    ///
    /// # Errors
    /// See [`UpstreamError`]; [`UpstreamError::Expired`] when that position has been forgotten.
    async fn keys_at(
        &self,
        gvr: &GroupVersionResource,
        query: &Query,
        position: u64,
    ) -> Result<Vec<ObjectKey>, UpstreamError>;

    /// All changes after a position, in order.
    ///
    /// # Errors
    /// See [`UpstreamError`]; [`UpstreamError::Expired`] may also come as the first message.
    async fn watch(
        &self,
        gvr: &GroupVersionResource,
        query: &Query,
        after: u64,
    ) -> Result<UpstreamWatch, UpstreamError>;
}
