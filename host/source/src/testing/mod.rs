//! An upstream in memory, for the tests of whatever reads from one.
//!
//! [`MemoryUpstream`] keeps objects, revisions and the history of changes as an API server does. Each *connection* to it
//! ([`MemoryUpstream::connect`]) stands for one client: it counts what it is asked, and can hold resources back, hang,
//! break and refuse, while the others go on.

mod line;
mod objects;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{FutureExt, StreamExt, stream};
use joinery_object::{GroupVersionResource, Object, ObjectKey};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::sleep;

pub use line::{Request, Verb};

use crate::upstream::{Page, Query, Upstream, UpstreamError, UpstreamWatch};
use line::Line;
use objects::{Objects, Selection};

/// One connection to objects in memory. Clones are the same connection.
#[derive(Clone)]
pub struct MemoryUpstream {
    objects: Arc<Objects>,
    line: Arc<Line>,
}

impl Default for MemoryUpstream {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryUpstream {
    /// A connection to a new upstream without resources.
    pub fn new() -> Self {
        Self {
            objects: Arc::default(),
            line: Arc::default(),
        }
    }

    /// Adds a resource. Resources with the same `counter` share their revisions, as all do that live in one etcd.
    pub fn with(self, gvr: &GroupVersionResource, kind: &str, counter: usize) -> Self {
        self.objects.install(gvr, kind, counter);
        self
    }

    /// Another connection to the same objects.
    pub fn connect(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            line: Arc::default(),
        }
    }

    /// Creates or updates an object. metadata.resourceVersion is set; uid and creationTimestamp are given when the
    /// object is new and has none, and kept when it is not.
    ///
    /// # Panics
    /// When there is no such resource, or the text is no object.
    pub fn put(&self, gvr: &GroupVersionResource, object: Value) -> Arc<Object> {
        self.objects.put(gvr, object)
    }

    /// Deletes an object. Returns whether it was there.
    pub fn delete(&self, gvr: &GroupVersionResource, key: &ObjectKey) -> bool {
        self.objects.delete(gvr, key)
    }

    /// Uses up revisions, as writes of other resources do.
    pub fn pass(&self, gvr: &GroupVersionResource, revisions: u64) {
        self.objects.pass(gvr, revisions);
    }

    /// The newest revision.
    pub fn revision(&self, gvr: &GroupVersionResource) -> u64 {
        self.objects.revision(gvr)
    }

    /// Forgets the history so far: watches from before now are told that it is too old.
    pub fn compact(&self, gvr: &GroupVersionResource) {
        self.objects.compact(gvr);
    }

    /// Sends a bookmark to all watches of a resource.
    pub fn bookmark(&self, gvr: &GroupVersionResource) {
        self.objects.bookmark(gvr);
    }

    /// Takes a resource away with all its objects, as when its CRD is deleted.
    pub fn uninstall(&self, gvr: &GroupVersionResource) {
        self.objects.uninstall(gvr);
    }

    /// From now on the watches of a resource on this connection say nothing of what is new.
    pub fn hold(&self, gvr: &GroupVersionResource) {
        self.line.hold(gvr, self.objects.revision(gvr));
        self.objects.wake();
    }

    /// Lets so many of the held messages of a resource through. Returns how many there were.
    pub fn let_through(&self, gvr: &GroupVersionResource, messages: usize) -> usize {
        let Some(held) = self.line.limit(gvr) else {
            return 0;
        };
        let (limit, count) = self.objects.nth_after(gvr, held, messages);
        self.line.hold(gvr, limit);
        self.objects.wake();
        count
    }

    /// Ends [`MemoryUpstream::hold`].
    pub fn release(&self, gvr: &GroupVersionResource) {
        self.line.release(gvr);
        self.objects.wake();
    }

    /// Breaks all streams that are open on this connection.
    pub fn break_streams(&self) {
        self.line.break_streams();
        self.objects.wake();
    }

    /// From now on nothing is answered on this connection, and no stream says anything, until [`MemoryUpstream::thaw`].
    pub fn freeze(&self) {
        self.line.freeze(true);
        self.objects.wake();
    }

    /// Ends [`MemoryUpstream::freeze`].
    pub fn thaw(&self) {
        self.line.freeze(false);
        self.objects.wake();
    }

    /// From now on a watch on this connection says nothing for so long after it was opened.
    pub fn slow_down(&self, silence: Duration) {
        self.line.slow_down(silence);
    }

    /// Answers all requests for a resource on this connection with an error; none: as it should be.
    pub fn fail(&self, gvr: &GroupVersionResource, error: Option<UpstreamError>) {
        self.line.fail(gvr, error);
    }

    /// What was asked on this connection, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.line.requests()
    }

    /// Forgets what was asked.
    pub fn forget_requests(&self) {
        self.line.forget_requests();
    }

    async fn ask(
        &self,
        verb: Verb,
        gvr: &GroupVersionResource,
        query: &Query,
    ) -> Result<(), UpstreamError> {
        let mut wake = self.objects.subscribe();
        self.line.record(verb, gvr, query);
        while self.line.is_frozen() {
            if wake.changed().await.is_err() {
                break;
            }
        }
        self.line.failure(gvr).map_or(Ok(()), Err)
    }
}

#[async_trait]
impl Upstream for MemoryUpstream {
    async fn get(
        &self,
        gvr: &GroupVersionResource,
        key: &ObjectKey,
    ) -> Result<Option<Arc<Object>>, UpstreamError> {
        let query = Query {
            namespace: key.namespace.as_deref().map(str::to_owned),
            field_selector: format!("metadata.name={}", key.name),
            ..Query::default()
        };
        self.ask(Verb::Get, gvr, &query).await?;
        self.objects.get(gvr, key)
    }

    async fn list(&self, gvr: &GroupVersionResource, query: &Query) -> Result<Page, UpstreamError> {
        self.ask(Verb::List, gvr, query).await?;
        self.objects.list(gvr, query)
    }

    async fn keys_at(
        &self,
        gvr: &GroupVersionResource,
        query: &Query,
        position: u64,
    ) -> Result<Vec<ObjectKey>, UpstreamError> {
        self.ask(Verb::List, gvr, query).await?;
        self.objects.keys_at(gvr, query, position)
    }

    async fn watch(
        &self,
        gvr: &GroupVersionResource,
        query: &Query,
        after: u64,
    ) -> Result<UpstreamWatch, UpstreamError> {
        self.ask(Verb::Watch, gvr, query).await?;
        let reader = Reader {
            wake: self.objects.subscribe(),
            selection: Selection::new(query)?,
            next: self.objects.begin(gvr, after)?,
            breaks: self.line.breaks(),
            backlog: self.objects.revision(gvr),
            upstream: self.clone(),
            gvr: gvr.clone(),
            over: false,
        };
        let silence = self.line.silence();
        let messages = stream::unfold(reader, |mut reader| async move {
            Some((reader.message().await?, reader))
        });
        let silent = async move {
            if !silence.is_zero() {
                sleep(silence).await;
            }
            messages
        };
        Ok(silent.flatten_stream().boxed())
    }
}

/// One stream.
struct Reader {
    upstream: MemoryUpstream,
    gvr: GroupVersionResource,
    selection: Selection,
    /// The next entry of the log.
    next: usize,
    breaks: u64,
    /// What there was when the stream was opened is never held back.
    backlog: u64,
    wake: watch::Receiver<u64>,
    over: bool,
}

impl Reader {
    async fn message(&mut self) -> Option<Result<crate::UpstreamEvent, UpstreamError>> {
        let line = self.upstream.line.clone();
        while !self.over {
            self.wake.borrow_and_update();
            if line.breaks() != self.breaks {
                self.over = true;
                let why = "the connection was reset".to_owned();
                return Some(Err(UpstreamError::Unreachable(why)));
            }
            let limit = line.limit(&self.gvr).unwrap_or(u64::MAX).max(self.backlog);
            if !line.is_frozen() {
                let objects = &self.upstream.objects;
                let found = objects.read(&self.gvr, &mut self.next, limit, &self.selection);
                if let Some(event) = found {
                    return Some(Ok(event));
                }
            }
            self.wake.changed().await.ok()?;
        }
        None
    }
}
