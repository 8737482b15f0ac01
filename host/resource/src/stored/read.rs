//! get, list and watch: resource versions, pages and selections, all from memory.

use std::sync::Arc;

use futures::StreamExt as _;
use joinery_object::{ListOptions, Object, ObjectKey, ResourceVersion, Status};

use super::cache::{ReadError, Snapshot};
use super::replay;
use super::resource::StoredResource;
use crate::continue_token::ContinueToken;
use crate::page::{Page, Rest};
use crate::resource::{List, Watch, WatchItem};
use crate::selection::Selection;
use crate::stream;

/// What a resourceVersion asks for.
enum Version {
    /// Unset.
    Latest,
    /// `0`.
    Any,
    At(u64),
}

fn version(text: Option<&str>) -> Result<Version, Status> {
    match text {
        None | Some("") => Ok(Version::Latest),
        Some(text) => match text.parse() {
            Ok(0) => Ok(Version::Any),
            Ok(revision) => Ok(Version::At(revision)),
            Err(_) => Err(Status::bad_request(format!(
                "resourceVersion: Invalid value: {text:?}: must be a decimal integer below 2^64 that this server \
                 handed out"
            ))),
        },
    }
}

/// Leaves out what happens up to a revision that lies ahead: who names it has seen that.
fn later_than(revision: u64, watch: Watch) -> Watch {
    let later = move |item: &WatchItem| match item {
        WatchItem::Event { change, .. } => change
            .as_ref()
            .is_none_or(|change| change.position().position(0) > revision),
        WatchItem::Bookmark { version, .. } => version.position(0) >= revision,
        WatchItem::Error(_) => true,
    };
    watch
        .filter(move |item| std::future::ready(later(item)))
        .boxed()
}

impl StoredResource {
    pub(super) async fn read_one(
        &self,
        key: &ObjectKey,
        resource_version: Option<&str>,
    ) -> Result<Arc<Object>, Status> {
        let snapshot = self.snapshot(resource_version, false).await?;
        snapshot
            .objects
            .get(key)
            .cloned()
            .ok_or_else(|| self.not_found(key))
    }

    pub(super) async fn read_list(
        &self,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<List, Status> {
        let selection = self.selection(namespace, options)?;
        let (snapshot, begun) = match options.continue_token.as_deref() {
            None => {
                let version = options.resource_version.as_deref();
                (self.snapshot(version, options.is_exact()).await?, None)
            }
            Some(token) => {
                let token = ContinueToken::decode(token, namespace)?;
                (self.next_page(&token).await?, Some(token))
            }
        };
        let page = Page::of(&selection, &snapshot.objects, begun.as_ref(), options.limit);
        let mut list = List {
            resource_version: ResourceVersion::single(snapshot.revision),
            continue_token: None,
            remaining: None,
            warnings: Vec::new(),
            items: page.items,
        };
        if let Some(Rest { after, left }) = page.rest {
            let token = ContinueToken {
                version: Some(snapshot.revision.to_string()),
                after,
                left,
                upstream: None,
            };
            list.continue_token = Some(token.encode());
            list.remaining = token.left.map(|left| left.count);
            self.cache.keep(snapshot);
        }
        Ok(list)
    }

    pub(super) async fn read_changes(
        &self,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<Watch, Status> {
        let selection = self.selection(namespace, options)?;
        let version = version(options.resource_version.as_deref())?;
        match (&version, options.send_initial_events) {
            (Version::Latest, _) => self.catch_up().await?,
            (Version::At(revision), Some(true)) => {
                // The response has a body by then, as kube-apiserver's has: the error is its one event.
                if let Err(status) = self.wait_for(*revision).await {
                    let watch = futures::stream::once(async { WatchItem::Error(status) });
                    return Ok(Box::pin(watch));
                }
            }
            (Version::At(_) | Version::Any, _) => {}
        }
        let initial_events = match (&version, options.send_initial_events) {
            (Version::At(revision), None | Some(false)) => {
                return self.changes_after(*revision, selection, options).await;
            }
            (_, Some(wanted)) => wanted,
            (Version::Latest | Version::Any, None) => true,
        };
        let (snapshot, follower) = self.cache.current_and_follower();
        let mut head = if initial_events {
            stream::added(selection.of(&snapshot.objects, None).cloned())
        } else {
            Vec::new()
        };
        let reached = ResourceVersion::single(snapshot.revision);
        if options.send_initial_events == Some(true) && options.allow_watch_bookmarks {
            head.push(WatchItem::Bookmark {
                version: reached.clone(),
                initial_events_end: true,
            });
        }
        let selects = move |object: &Object| selection.matches(object);
        Ok(stream::follow(head, reached, follower, selects, options))
    }

    async fn changes_after(
        &self,
        revision: u64,
        selection: Selection,
        options: &ListOptions,
    ) -> Result<Watch, Status> {
        let selects = move |object: &Object| selection.matches(object);
        let (snapshot, follower) = self.cache.current_and_follower();
        if snapshot.revision < revision {
            let reached = ResourceVersion::single(snapshot.revision);
            let watch = stream::follow(Vec::new(), reached, follower, selects, options);
            return Ok(later_than(revision, watch));
        }
        match replay::since(&self.cache, &ResourceVersion::single(revision)).await {
            Ok((changes, follower, reached)) => {
                let head = changes
                    .iter()
                    .filter_map(|change| stream::event(change, &selects))
                    .collect();
                Ok(stream::follow(head, reached, follower, selects, options))
            }
            // The response has a body by then, as kube-apiserver's has: the error is its one event.
            Err(ReadError::Compacted) => {
                let status = self.unreadable(ReadError::Compacted, Some(revision));
                let watch = futures::stream::once(async { WatchItem::Error(status) });
                Ok(Box::pin(watch))
            }
            Err(error) => Err(self.unreadable(error, Some(revision))),
        }
    }

    pub(super) fn selection(
        &self,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<Selection, Status> {
        Selection::from_options(namespace, options, &self.generation().fields)
    }

    async fn catch_up(&self) -> Result<(), Status> {
        let caught_up = self.cache.catch_up().await;
        caught_up.map_err(|error| self.unreadable(error, None))
    }

    async fn wait_for(&self, revision: u64) -> Result<(), Status> {
        let here = self.cache.not_older_than(revision).await;
        here.map_err(|error| self.unreadable(error, Some(revision)))
    }

    /// The objects that a resourceVersion asks for.
    async fn snapshot(&self, text: Option<&str>, exact: bool) -> Result<Snapshot, Status> {
        match version(text)? {
            Version::Latest => self.catch_up().await?,
            Version::Any => {}
            Version::At(revision) if exact => {
                let snapshot = self.cache.at(revision).await;
                return snapshot.map_err(|error| self.unreadable(error, Some(revision)));
            }
            Version::At(revision) => self.wait_for(revision).await?,
        }
        Ok(self.cache.current())
    }

    /// The objects that a list goes on with; when they are gone, a token for the remainder as it is now.
    async fn next_page(&self, token: &ContinueToken) -> Result<Snapshot, Status> {
        let revision = match version(token.version.as_deref())? {
            Version::At(revision) => revision,
            Version::Latest | Version::Any => return self.latest().await,
        };
        match self.cache.at(revision).await {
            Ok(snapshot) => Ok(snapshot),
            Err(ReadError::Compacted) => {
                let remainder = ContinueToken {
                    version: None,
                    left: None,
                    upstream: None,
                    after: token.after.clone(),
                };
                Err(Status::continue_expired(Some(&remainder.encode())))
            }
            Err(error) => Err(self.unreadable(error, Some(revision))),
        }
    }
}
