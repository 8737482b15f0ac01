//! The frames of a watch: one JSON object a line, until the time is up.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use joinery_object::{Change, EventType, Object, ResourceVersion, Status, frame};
use joinery_resource::{Definition, Watch, WatchItem};
use prometheus_client::metrics::counter::Counter;
use serde_json::json;
use std::sync::Arc;
use tokio::time::Sleep;

use crate::body::Pieces;
use crate::encoding::{IncludeObject, Shape, TableWriter, partial_metadata};
use crate::metrics::Held;

/// Writes the items of a watch in one shape.
pub(crate) struct FrameWriter {
    definition: Arc<Definition>,
    shape: Shape,
    include: IncludeObject,
    /// The columns have been told.
    headers_sent: bool,
}

impl FrameWriter {
    pub(crate) fn new(definition: Arc<Definition>, shape: Shape, include: IncludeObject) -> Self {
        Self {
            definition,
            shape,
            include,
            headers_sent: false,
        }
    }

    fn event(&mut self, kind: EventType, object: &Object, change: Option<&Change>) -> Bytes {
        match self.shape {
            // Plain frames are the same for all watchers, so they are made once and shared.
            Shape::Object => {
                change.map_or_else(|| frame(kind, object), |change| change.frame(kind, object))
            }
            Shape::Metadata(version) => {
                let mut out = begin(kind.as_str());
                partial_metadata(&mut out, &self.definition, object, version);
                end(out)
            }
            Shape::Table(version) => {
                let mut out = begin(kind.as_str());
                let table = TableWriter::new(&self.definition, version, self.include);
                table.begin(
                    &mut out,
                    &TableWriter::version_of(object),
                    !self.headers_sent,
                );
                table.row(&mut out, object);
                table.end(&mut out);
                self.headers_sent = true;
                end(out)
            }
        }
    }

    fn bookmark(&mut self, version: &ResourceVersion, initial_events_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if initial_events_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (kind, api_version) = match self.shape {
            Shape::Object => (
                self.definition.kind.as_str(),
                self.definition.gvr.api_version(),
            ),
            Shape::Metadata(version) | Shape::Table(version) => {
                ("PartialObjectMetadata", version.api_version().to_owned())
            }
        };
        let object =
            json!({"kind": kind, "apiVersion": api_version, "metadata": metadata}).to_string();
        let mut out = begin("BOOKMARK");
        if let Shape::Table(version) = self.shape {
            // As upstream: a row of the empty object.
            let table = TableWriter::new(&self.definition, version, self.include);
            let table_metadata =
                json!({"resourceVersion": metadata["resourceVersion"]}).to_string();
            table.begin(&mut out, table_metadata.as_bytes(), !self.headers_sent);
            self.headers_sent = true;
            out.write(br#"{"cells":["#);
            let now = jiff::Timestamp::now();
            for (i, cell) in self
                .definition
                .columns
                .cells(object.as_bytes())
                .iter()
                .enumerate()
            {
                if i > 0 {
                    out.write(b",");
                }
                out.write(&cell.to_json(now));
            }
            out.write(br#"],"object":"#);
            out.write(object.as_bytes());
            out.write(b"}");
            table.end(&mut out);
        } else {
            out.write(object.as_bytes());
        }
        end(out)
    }
}

fn begin(kind: &str) -> Pieces {
    let mut out = Pieces::default();
    out.write(br#"{"type":""#);
    out.write(kind.as_bytes());
    out.write(br#"","object":"#);
    out
}

fn end(mut out: Pieces) -> Bytes {
    out.write(b"}\n");
    out.into_bytes()
}

fn error(status: &Status) -> Bytes {
    let mut out = begin("ERROR");
    out.write(&status.to_json());
    end(out)
}

/// A watch that is over before it began: the error travels in it, as clients expect of an expired version.
pub(crate) fn failed(status: &Status) -> BoxStream<'static, Bytes> {
    futures::stream::iter([error(status)]).boxed()
}

/// An open watch.
pub(crate) struct OpenWatch {
    pub(crate) items: Watch,
    pub(crate) writer: FrameWriter,
    /// Bookmarks are passed on; the one after the initial events too is only sent then.
    pub(crate) bookmarks: bool,
    pub(crate) events: Counter,
    /// Counts it as open until dropped.
    pub(crate) _open: Held,
    /// Resolves when the server wants this watch to end.
    pub(crate) closing: BoxFuture<'static, ()>,
}

impl OpenWatch {
    /// The frames, until `lifetime` is over, the server stops or the resource ends the watch.
    pub(crate) fn frames(self, lifetime: Duration) -> BoxStream<'static, Bytes> {
        let running = Running {
            watch: self,
            deadline: Box::pin(tokio::time::sleep(lifetime)),
            over: false,
        };
        futures::stream::unfold(running, |mut running| async move {
            running.next().await.map(|frame| (frame, running))
        })
        .boxed()
    }
}

struct Running {
    watch: OpenWatch,
    deadline: Pin<Box<Sleep>>,
    over: bool,
}

impl Running {
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        loop {
            let item = tokio::select! {
                biased;
                () = &mut self.watch.closing => None,
                () = &mut self.deadline => None,
                item = self.watch.items.next() => item,
            };
            let frame = match item? {
                WatchItem::Event {
                    kind,
                    object,
                    change,
                } => self.watch.writer.event(kind, &object, change.as_deref()),
                WatchItem::Bookmark {
                    version,
                    initial_events_end,
                } if self.watch.bookmarks => {
                    self.watch.writer.bookmark(&version, initial_events_end)
                }
                WatchItem::Bookmark { .. } => continue,
                WatchItem::Error(status) => {
                    self.over = true;
                    error(&status)
                }
            };
            self.watch.events.inc();
            return Some(frame);
        }
    }
}
