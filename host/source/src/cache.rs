//! One upstream resource, kept in memory by one list and one watch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use imbl::OrdMap;
use joinery_object::{
    Bounds, Change, EventType, Follower, GroupVersionResource, History, Object, ObjectKey,
    ResourceVersion,
};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{debug, info, warn};

use crate::upstream::{Query, Upstream, UpstreamError, UpstreamEvent};

/// Objects a page of the first list: large enough to be quick, small enough to fit any server's limits.
const PAGE: u32 = 500;
/// The first wait after a failure; it doubles up to [`LONGEST_WAIT`].
const SHORTEST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// What a cache holds. Views that read the same share one cache.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceSpec {
    /// The resource.
    pub gvr: GroupVersionResource,
    /// Empty for all.
    pub label_selector: String,
    /// Empty for all.
    pub field_selector: String,
    /// Holds nothing, instead of waiting, while upstream has no such resource.
    pub optional: bool,
}

impl SourceSpec {
    fn query(&self) -> Query {
        Query {
            label_selector: self.label_selector.clone(),
            field_selector: self.field_selector.clone(),
            ..Query::default()
        }
    }
}

/// How a cache is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheState {
    /// Whether the first list is complete.
    pub synced: bool,
    /// What went wrong last, while it is still so.
    pub error: Option<String>,
}

struct Content {
    objects: OrdMap<ObjectKey, Arc<Object>>,
    history: Arc<History>,
}

/// All objects of one upstream resource, with the changes of the last minutes.
///
/// The task that feeds it ends when the cache is dropped.
pub struct SourceCache {
    shared: Arc<Shared>,
    feeder: JoinHandle<()>,
}

struct Shared {
    spec: SourceSpec,
    upstream: Arc<dyn Upstream>,
    /// None until the first list is complete.
    content: Mutex<Option<Content>>,
    state: watch::Sender<CacheState>,
    bytes: AtomicUsize,
}

impl Drop for SourceCache {
    fn drop(&mut self) {
        self.feeder.abort();
    }
}

impl SourceCache {
    /// Begins to list and watch. Must be called in a tokio runtime.
    pub fn start(upstream: Arc<dyn Upstream>, spec: SourceSpec) -> Self {
        let shared = Arc::new(Shared {
            spec,
            upstream,
            content: Mutex::new(None),
            state: watch::channel(CacheState::default()).0,
            bytes: AtomicUsize::new(0),
        });
        Self {
            feeder: tokio::spawn(feed(shared.clone())),
            shared,
        }
    }

    /// What is held.
    pub fn spec(&self) -> &SourceSpec {
        &self.shared.spec
    }

    /// Where it comes from.
    pub fn upstream(&self) -> &Arc<dyn Upstream> {
        &self.shared.upstream
    }

    /// Waits until the first list is complete.
    pub async fn synced(&self) {
        let mut state = self.shared.state.subscribe();
        // The sender lives in self.
        let _ = state.wait_for(|state| state.synced).await;
    }

    /// How it is doing now.
    pub fn state(&self) -> CacheState {
        self.shared.state.borrow().clone()
    }

    /// Bytes of the objects held.
    pub fn bytes(&self) -> usize {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// All objects, the position they are at, and a follower of all that comes after. None before the first list.
    pub fn subscribe(&self) -> Option<(OrdMap<ObjectKey, Arc<Object>>, u64, Follower)> {
        // Under the lock nothing is appended, so the three belong together.
        let content = self.shared.content.lock();
        content.as_ref().map(|content| {
            let position = content.history.position().position(0);
            (content.objects.clone(), position, content.history.follow())
        })
    }

    /// One object, if it is held.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.shared
            .content
            .lock()
            .as_ref()?
            .objects
            .get(key)
            .cloned()
    }

    /// The changes of the last minutes. None before the first list.
    pub fn history(&self) -> Option<Arc<History>> {
        Some(self.shared.content.lock().as_ref()?.history.clone())
    }

    /// The position up to which all is known; 0 before the first list.
    pub fn position(&self) -> u64 {
        self.history()
            .map_or(0, |history| history.position().position(0))
    }
}

impl Shared {
    fn weigh(&self, old: Option<&Arc<Object>>, new: Option<&Arc<Object>>) {
        self.bytes
            .fetch_add(new.map_or(0, |o| o.len()), Ordering::Relaxed);
        self.bytes
            .fetch_sub(old.map_or(0, |o| o.len()), Ordering::Relaxed);
    }

    fn report(&self, error: Option<&UpstreamError>) {
        self.state.send_if_modified(|state| {
            let error = error.map(ToString::to_string);
            let changed = state.error != error;
            state.error = error;
            changed
        });
    }

    /// Takes over a whole list: at first as it is, later as the changes that led to it, so that nobody who follows has
    /// to begin anew.
    fn replace(&self, listed: OrdMap<ObjectKey, Arc<Object>>, position: u64) {
        let mut guard = self.content.lock();
        match guard.as_mut() {
            None => {
                let bytes = listed.values().map(|object| object.len()).sum();
                self.bytes.store(bytes, Ordering::Relaxed);
                let floor = ResourceVersion::single(position);
                *guard = Some(Content {
                    objects: listed,
                    history: Arc::new(History::new(floor, Bounds::default())),
                });
            }
            Some(content) => {
                let changes = difference(&content.objects, &listed, position);
                for change in &changes {
                    self.weigh(change.old(), change.new_object());
                }
                content.objects = listed;
                content
                    .history
                    .append(changes, ResourceVersion::single(position));
            }
        }
        drop(guard);
        self.state.send_replace(CacheState {
            synced: true,
            error: None,
        });
    }

    fn apply(&self, kind: EventType, object: Arc<Object>) {
        let mut guard = self.content.lock();
        let Some(content) = guard.as_mut() else {
            return;
        };
        let position = object.resource_version().clone();
        if content.history.position().covers(&position) {
            // Told again after a reconnect.
            return;
        }
        let (old, new) = match kind {
            EventType::Added | EventType::Modified => {
                let old = content.objects.insert(object.key().clone(), object.clone());
                (old, Some(object))
            }
            EventType::Deleted => (content.objects.remove(object.key()), None),
        };
        self.weigh(old.as_ref(), new.as_ref());
        let change = (old.is_some() || new.is_some())
            .then(|| Change::new(position.clone(), position.positions(), old, new));
        content.history.append(change.map(Arc::new), position);
    }

    fn advance(&self, position: u64) {
        if let Some(content) = self.content.lock().as_ref() {
            let position = ResourceVersion::single(position);
            if !content.history.position().covers(&position) {
                content.history.append([], position);
            }
        }
    }
}

/// The changes between two states, in the order of their versions where these are known.
///
/// When an object went is not known any more: that is told last, and all but the last of several that share a position
/// stay at the position before, so that who resumes from one of them is told the others again rather than never.
fn difference(
    old: &OrdMap<ObjectKey, Arc<Object>>,
    new: &OrdMap<ObjectKey, Arc<Object>>,
    position: u64,
) -> Vec<Arc<Change>> {
    let mut changed = BTreeMap::new();
    for (key, object) in new {
        let before = old.get(key);
        if before.is_none_or(|o| o.resource_version() != object.resource_version()) {
            let at = object.resource_version().position(0);
            changed.insert((at, key.clone()), (before.cloned(), Some(object.clone())));
        }
    }
    for (key, object) in old {
        if !new.contains_key(key) {
            changed.insert((position, key.clone()), (Some(object.clone()), None));
        }
    }
    let mut reached = 0;
    let mut last_at = BTreeMap::new();
    for (at, key) in changed.keys() {
        last_at.insert(*at, key.clone());
    }
    changed
        .into_iter()
        .map(|((at, key), (old, new))| {
            if last_at.get(&at) == Some(&key) {
                reached = at;
            }
            Arc::new(Change::new(
                ResourceVersion::single(reached),
                &[at],
                old,
                new,
            ))
        })
        .collect()
}

async fn list(shared: &Shared) -> Result<(OrdMap<ObjectKey, Arc<Object>>, u64), UpstreamError> {
    let mut query = Query {
        limit: PAGE,
        ..shared.spec.query()
    };
    let mut objects = OrdMap::new();
    loop {
        let page = match shared.upstream.list(&shared.spec.gvr, &query).await {
            Err(UpstreamError::NoSuchResource(_)) if shared.spec.optional => {
                return Ok((OrdMap::new(), 0));
            }
            other => other?,
        };
        objects.extend(page.items.into_iter().map(|o| (o.key().clone(), o)));
        match page.continue_token {
            None => return Ok((objects, page.position)),
            token => query.continue_token = token,
        }
    }
}

/// Watches until the stream ends.
async fn follow(shared: &Shared, after: u64) -> Result<(), UpstreamError> {
    let mut events = shared
        .upstream
        .watch(&shared.spec.gvr, &shared.spec.query(), after)
        .await?;
    shared.report(None);
    while let Some(event) = events.next().await {
        match event? {
            UpstreamEvent::Change(kind, object) => shared.apply(kind, object),
            UpstreamEvent::Bookmark(position) => shared.advance(position),
        }
    }
    Ok(())
}

async fn feed(shared: Arc<Shared>) {
    let mut wait = SHORTEST_WAIT;
    let mut list_again = true;
    loop {
        let result = if list_again {
            list(&shared).await.map(|(objects, position)| {
                info!(
                    source = %shared.spec.gvr, selector = %shared.spec.label_selector,
                    objects = objects.len(), position, "source listed"
                );
                shared.replace(objects, position);
                // An optional resource that is not there has no position to watch from: look again later.
                list_again = position == 0;
            })
        } else {
            let after = shared
                .content
                .lock()
                .as_ref()
                .map_or(0, |content| content.history.position().position(0));
            follow(&shared, after).await
        };
        match result {
            Ok(()) if list_again => tokio::time::sleep(LONGEST_WAIT).await,
            Ok(()) => wait = SHORTEST_WAIT,
            Err(UpstreamError::Expired(why)) => {
                debug!(source = %shared.spec.gvr, why, "history is gone, listing again");
                list_again = true;
            }
            Err(error) => {
                // A resource that was there and is gone has lost its objects.
                list_again |= matches!(error, UpstreamError::NoSuchResource(_));
                warn!(source = %shared.spec.gvr, %error, "source cannot be read, trying again");
                shared.report(Some(&error));
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, version: u64) -> (ObjectKey, Arc<Object>) {
        let text = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#);
        let object = Arc::new(Object::parse(text.into()).unwrap());
        (object.key().clone(), object)
    }

    #[test]
    fn a_new_list_is_told_as_the_changes_that_led_to_it() {
        let old = OrdMap::from_iter([
            object("a", 1),
            object("b", 2),
            object("c", 3),
            object("d", 4),
        ]);
        let new = OrdMap::from_iter([object("a", 1), object("b", 9), object("e", 7)]);
        let told: Vec<_> = difference(&old, &new, 12)
            .iter()
            .map(|change| {
                let (old, new) = (change.old().is_some(), change.new_object().is_some());
                let name = change.key().unwrap().name.to_string();
                (name, old, new, change.position().position(0))
            })
            .collect();
        assert_eq!(
            told,
            [
                ("e".to_owned(), false, true, 7),
                ("b".to_owned(), true, true, 9),
                // Both went by 12; who has seen only the first must be told the second.
                ("c".to_owned(), true, false, 9),
                ("d".to_owned(), true, false, 12),
            ]
        );
        let history = Arc::new(History::new(ResourceVersion::single(4), Bounds::default()));
        history.append(difference(&old, &new, 12), ResourceVersion::single(12));
        let missed = |at| history.since(&ResourceVersion::single(at)).unwrap().0.len();
        assert_eq!((missed(4), missed(9), missed(12)), (4, 2, 0));
    }
}
