//! One upstream resource, kept in memory by one list and one watch.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use imbl::OrdMap;
use joinery_object::{
    Bounds, Change, EventType, Follower, GroupVersionResource, History, Object, ObjectKey,
    ResourceVersion,
};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::budget::ByteBudget;
use crate::feed::{SILENCE, feed, probe};
use crate::upstream::{Query, Upstream, UpstreamError};

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
    pub(crate) fn query(&self) -> Query {
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
    /// Upstream has not been heard of for most of a minute: what is held may be long past.
    pub stale: bool,
    /// It was larger than the bound for the bytes of all caches, see [`ByteBudget`]: nothing is held, until it fits.
    pub too_large: bool,
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

pub(crate) struct Shared {
    pub(crate) spec: SourceSpec,
    pub(crate) upstream: Arc<dyn Upstream>,
    /// None until the first list is complete.
    content: Mutex<Option<Content>>,
    state: watch::Sender<CacheState>,
    /// The position that readers want to be reached.
    pub(crate) wanted: watch::Sender<u64>,
    /// When upstream last said anything.
    heard: Mutex<Instant>,
    /// What is held, also of a list that is not complete yet.
    bytes: AtomicUsize,
    pub(crate) budget: Arc<ByteBudget>,
}

impl Drop for SourceCache {
    fn drop(&mut self) {
        self.feeder.abort();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes());
    }
}

impl SourceCache {
    /// Begins to list and watch, and to share a budget with others. Must be called in a tokio runtime.
    pub fn start(upstream: Arc<dyn Upstream>, spec: SourceSpec, budget: Arc<ByteBudget>) -> Self {
        let shared = Arc::new(Shared {
            spec,
            upstream,
            content: Mutex::new(None),
            state: watch::channel(CacheState::default()).0,
            wanted: watch::channel(0).0,
            heard: Mutex::new(Instant::now()),
            bytes: AtomicUsize::new(0),
            budget,
        });
        shared.budget.join(&shared);
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

    /// Follows how it is doing; ends with the cache.
    pub fn watch_state(&self) -> watch::Receiver<CacheState> {
        self.shared.state.subscribe()
    }

    /// Sees to it that a position is reached which upstream has reached.
    ///
    /// A watch without bookmarks does not say how far it has come while there is nothing to tell. That nothing is missing
    /// up to a position, only a list can say, which is taken over as the changes that led to it.
    pub async fn catch_up(&self, position: u64) {
        if self.position() >= position {
            return;
        }
        // A position that upstream does not know is worth no list.
        if probe(&self.shared).await.is_ok_and(|now| now >= position) {
            self.shared.wanted.send_if_modified(|wanted| {
                let further = *wanted < position;
                *wanted = position.max(*wanted);
                further
            });
        }
    }

    /// Waits until the first list is complete.
    pub async fn synced(&self) {
        let mut state = self.shared.state.subscribe();
        // The sender lives in self.
        let _ = state.wait_for(|state| state.synced).await;
    }

    /// Waits until it is known whether the objects can be held: the first list is complete, or too large.
    pub async fn settled(&self) {
        let mut state = self.shared.state.subscribe();
        // The sender lives in self.
        let _ = state
            .wait_for(|state| state.synced || state.too_large)
            .await;
    }

    /// Waits until it has let go of its objects, for they are too large.
    pub async fn lost(&self) {
        self.shared.too_large().await;
    }

    /// How it is doing now.
    pub fn state(&self) -> CacheState {
        self.shared.state.borrow().clone()
    }

    /// Bytes of the objects held.
    pub fn bytes(&self) -> usize {
        self.shared.bytes()
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

    /// As [`SourceCache::subscribe`], once there is something: waits for a list, however long that takes.
    pub async fn subscribed(&self) -> (OrdMap<ObjectKey, Arc<Object>>, u64, Follower) {
        loop {
            self.synced().await;
            // It may have let go meanwhile.
            if let Some(subscribed) = self.subscribe() {
                return subscribed;
            }
        }
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

    /// All objects as they are now. None while there are none to be had.
    pub(crate) fn objects(&self) -> Option<OrdMap<ObjectKey, Arc<Object>>> {
        let content = self.shared.content.lock();
        Some(content.as_ref()?.objects.clone())
    }

    /// Up to where the source is known to have had nothing after a position.
    pub fn quiet_after(&self, position: u64) -> u64 {
        let Some(history) = self.history() else {
            return position;
        };
        if history.floor().position(0) > position {
            return position;
        }
        let mut quiet = history.position().position(0);
        history.each(|change| {
            let later = change.cause(0) > position;
            if later {
                let at = change.position().position(0);
                // What was not seen one by one may have come right after.
                let merged = change.is_merged() || change.hole_up_to(0).is_some();
                quiet = if merged { at } else { at - 1 };
            }
            !later
        });
        quiet.max(position)
    }

    /// The changes of the last minutes. None before the first list.
    pub fn history(&self) -> Option<Arc<History>> {
        Some(self.shared.content.lock().as_ref()?.history.clone())
    }

    /// The position up to which all is known; 0 before the first list.
    pub fn position(&self) -> u64 {
        self.shared.position()
    }
}

impl Shared {
    /// The position up to which all is known; 0 before the first list.
    pub(crate) fn position(&self) -> u64 {
        let content = self.content.lock();
        let history = content.as_ref().map(|content| &content.history);
        history.map_or(0, |history| history.position().position(0))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn weigh(&self, old: Option<&Arc<Object>>, new: Option<&Arc<Object>>) {
        self.add_bytes(new.map_or(0, |object| object.len()));
        self.remove_bytes(old.map_or(0, |object| object.len()));
    }

    /// Counts bytes of a list that is under way; [`ByteBudget::enforce`] follows.
    pub(crate) fn add_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.budget.take(bytes);
    }

    fn remove_bytes(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.budget.give_back(bytes);
    }

    /// Lets go of everything, and says so. Gives the bytes that were held.
    pub(crate) fn let_go(&self) -> usize {
        let mut guard = self.content.lock();
        let content = guard.take();
        let bytes = self.bytes.swap(0, Ordering::Relaxed);
        self.budget.give_back(bytes);
        // Before its history ends: who follows it finds out why.
        self.state.send_modify(|state| {
            state.synced = false;
            state.too_large = true;
        });
        drop(guard);
        if let Some(content) = content {
            content.history.end();
        }
        bytes
    }

    /// Begins to hold objects again after [`Self::let_go`].
    pub(crate) fn begin_anew(&self) {
        self.state.send_modify(|state| state.too_large = false);
    }

    /// Whether a list is complete.
    pub(crate) fn synced(&self) -> bool {
        self.state.borrow().synced
    }

    /// Forgets what was counted of a list that came to nothing.
    pub(crate) fn forget_bytes(&self) {
        self.budget.give_back(self.bytes.swap(0, Ordering::Relaxed));
    }

    /// Whether it has let go.
    pub(crate) fn is_too_large(&self) -> bool {
        self.state.borrow().too_large
    }

    /// Waits until it has let go.
    pub(crate) async fn too_large(&self) {
        // The sender lives in self.
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|state| state.too_large).await;
    }

    /// Upstream was heard of.
    pub(crate) fn heard(&self) {
        *self.heard.lock() = Instant::now();
        self.state.send_if_modified(|state| {
            let changed = state.stale || state.error.is_some();
            state.stale = false;
            state.error = None;
            changed
        });
    }

    pub(crate) fn report(&self, error: &UpstreamError) {
        let stale = self.heard.lock().elapsed() >= SILENCE;
        self.state.send_modify(|state| {
            state.error = Some(error.to_string());
            state.stale = stale;
        });
    }

    /// Takes over a whole list: at first as it is, later as the changes that led to it, so that nobody who follows has
    /// to begin anew.
    ///
    /// `gapless` when nothing can have come and gone between the last message and the list.
    pub(crate) fn replace(
        &self,
        listed: OrdMap<ObjectKey, Arc<Object>>,
        position: u64,
        gapless: bool,
    ) {
        let mut guard = self.content.lock();
        match guard.as_mut() {
            // It had to let go since the last page came: what was listed must not be held after all.
            None if self.is_too_large() => return,
            None => {
                // Its bytes were counted page by page; what came twice is held once.
                let bytes = listed.values().map(|object| object.len()).sum();
                let counted = self.bytes();
                self.add_bytes(bytes);
                self.remove_bytes(counted);
                let floor = ResourceVersion::single(position);
                *guard = Some(Content {
                    objects: listed,
                    history: Arc::new(History::new(floor, Bounds::default())),
                });
            }
            Some(content) => {
                let reached = content.history.position().position(0);
                let mut changes = difference(&content.objects, &listed, reached, position);
                if gapless && changes.len() == 1 {
                    changes.clear();
                }
                for change in &changes {
                    self.weigh(change.old(), change.new_object());
                }
                content.objects = listed;
                let position = ResourceVersion::single(position);
                content.history.append(changes, position);
            }
        }
        // Under the lock: what lets go right after must not be called synced.
        self.state.send_modify(|state| state.synced = true);
        drop(guard);
        self.budget.enforce();
    }

    /// The resource is not there, or no longer: there are no objects, and no position to watch from.
    pub(crate) fn gone(&self) {
        let held = self.content.lock().as_ref().map(|content| {
            let reached = content.history.position().position(0);
            (reached, content.objects.is_empty())
        });
        match held {
            None => self.replace(OrdMap::new(), 0, false),
            // The loss is a change that has no position of its own; the next one is never used for an object of it,
            // for making the resource anew takes one too.
            Some((reached, false)) => self.replace(OrdMap::new(), reached + 1, false),
            Some((_, true)) => {}
        }
    }

    pub(crate) fn apply(&self, kind: EventType, object: Arc<Object>) {
        let mut guard = self.content.lock();
        let Some(content) = guard.as_mut() else {
            return;
        };
        let position = object.resource_version().clone();
        let reached = content.history.position();
        let held = content.objects.get(object.key());
        let known = match kind {
            EventType::Deleted => held.is_none(),
            _ => held.is_some_and(|held| *held.resource_version() == position),
        };
        // Told again after a reconnect. Several changes of one transaction have the same position.
        if reached > position || (reached == position && known) {
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
        drop(guard);
        self.budget.enforce();
    }

    pub(crate) fn advance(&self, position: u64) {
        if let Some(content) = self.content.lock().as_ref() {
            let position = ResourceVersion::single(position);
            if !content.history.position().covers(&position) {
                content.history.append([], position);
            }
        }
    }
}

/// The changes between two states, at positions after `reached` and up to `position`.
///
/// What came between is not known, neither of the objects that went nor of those that changed more than once: until
/// all has been told, nobody may claim to have seen more than before. So the changes stay at the old position, and only
/// what comes after them is at the new one.
fn difference(
    old: &OrdMap<ObjectKey, Arc<Object>>,
    new: &OrdMap<ObjectKey, Arc<Object>>,
    reached: u64,
    position: u64,
) -> Vec<Arc<Change>> {
    let change = |before: Option<&Arc<Object>>, after: Option<&Arc<Object>>| {
        let version = ResourceVersion::single(reached);
        let change = Change::new(version, &[position], before.cloned(), after.cloned());
        Arc::new(change.merged())
    };
    // Also when nothing is different: what came and went between may have been seen elsewhere.
    let (from, to) = (
        ResourceVersion::single(reached),
        ResourceVersion::single(position),
    );
    let mut changes = vec![Arc::new(Change::hole(from, &to))];
    let gone = old.iter().filter(|(key, _)| !new.contains_key(*key));
    changes.extend(gone.map(|(_, object)| change(Some(object), None)));
    let mut changed: Vec<_> = new
        .iter()
        .map(|(key, object)| (old.get(key), object))
        .filter(|(before, object)| {
            before.is_none_or(|o| o.resource_version() != object.resource_version())
        })
        .collect();
    changed.sort_by_key(|(_, object)| object.resource_version());
    changes.extend(
        changed
            .into_iter()
            .map(|(before, object)| change(before, Some(object))),
    );
    changes
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
        let changes = difference(&old, &new, 4, 12);
        let told: Vec<_> = changes
            .iter()
            .skip(1)
            .map(|change| {
                let (old, new) = (change.old().is_some(), change.new_object().is_some());
                (change.key().unwrap().name.to_string(), old, new)
            })
            .collect();
        assert_eq!(
            told,
            [
                ("c".to_owned(), true, false),
                ("d".to_owned(), true, false),
                ("e".to_owned(), false, true),
                ("b".to_owned(), true, true),
            ]
        );
        assert_eq!(changes[0].hole_up_to(0), Some(12));
        // Who has been told some of them may lack any other.
        assert!(
            changes
                .iter()
                .all(|change| change.position().position(0) == 4)
        );
        assert!(changes.iter().all(|change| change.cause(0) == 12));
    }
}
