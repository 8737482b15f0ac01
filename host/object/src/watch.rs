//! What changed: the bounded history that every watch reads, and its events.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::RwLock;
use smallvec::SmallVec;
use tokio::sync::watch;

use crate::key::ObjectKey;
use crate::object::Object;
use crate::resource_version::ResourceVersion;
use crate::status::Status;

/// The type of a watch event that carries an object. Bookmarks and errors carry none of a resource's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// The object is new, or has entered the selection.
    Added,
    /// The object is another than before.
    Modified,
    /// The object is gone, or has left the selection.
    Deleted,
}

impl EventType {
    /// As it stands on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One change of one object. Shared by all watchers, so that what is sent is encoded once.
#[derive(Debug)]
pub struct Change {
    position: ResourceVersion,
    causes: SmallVec<[u64; 2]>,
    old: Option<Arc<Object>>,
    new: Option<Arc<Object>>,
    silent: bool,
    merged: bool,
    exchanged: bool,
    failure: Option<Box<Status>>,
    deleted: OnceLock<Arc<Object>>,
    frames: [OnceLock<Bytes>; 3],
    at: Instant,
}

/// So long after an exchange of the logic, those who come are told of it whatever they have seen: other replicas may
/// have been later.
const EXCHANGE: Duration = Duration::from_secs(60);

impl Change {
    /// A change that leads to `position`: one who has been told everything up to this change, itself included, lacks
    /// nothing of what the sources had up to there. `causes` has for each source the last position that may show in the
    /// object after the change, which can be beyond; one who has seen as much of all sources does not lack it.
    pub fn new(
        position: ResourceVersion,
        causes: &[u64],
        old: Option<Arc<Object>>,
        new: Option<Arc<Object>>,
    ) -> Self {
        Self {
            position,
            causes: SmallVec::from_slice(causes),
            old,
            new,
            silent: false,
            merged: false,
            exchanged: false,
            failure: None,
            deleted: OnceLock::new(),
            frames: Default::default(),
            at: Instant::now(),
        }
    }

    /// The object is here as it was before. Only one who saw the sources come in another order may know it otherwise.
    pub fn silent(mut self) -> Self {
        self.silent = true;
        self
    }

    /// Stands for changes that were not seen one by one: what was selected before is not known, so who does not select
    /// the object now is told that it left, whether or not he had it.
    pub fn merged(mut self) -> Self {
        self.merged = true;
        self
    }

    /// Nothing changed but the logic that makes the objects, so no version tells who has seen it.
    pub fn exchanged(mut self) -> Self {
        self.exchanged = true;
        self
    }

    /// See [`Change::silent`].
    pub fn is_silent(&self) -> bool {
        self.silent
    }

    /// See [`Change::merged`].
    pub fn is_merged(&self) -> bool {
        self.merged
    }

    /// The object can no longer be made: watches that showed it end with this status.
    pub fn failed(mut self, status: Status) -> Self {
        self.failure = Some(Box::new(status));
        self
    }

    /// Why the object can no longer be made.
    pub fn failure(&self) -> Option<&Status> {
        self.failure.as_deref()
    }

    /// The version after the change: a watch from it delivers all that came later.
    pub fn position(&self) -> &ResourceVersion {
        &self.position
    }

    /// The object before, none if it was not there.
    pub fn old(&self) -> Option<&Arc<Object>> {
        self.old.as_ref()
    }

    /// The object after, none if it is gone.
    pub fn new_object(&self) -> Option<&Arc<Object>> {
        self.new.as_ref()
    }

    /// The last position of a source that may show in the object after the change.
    pub fn cause(&self, source: usize) -> u64 {
        self.causes.get(source).copied().unwrap_or_default()
    }

    /// When the change was made known here.
    pub fn at(&self) -> Instant {
        self.at
    }

    /// The key of the object.
    ///
    /// A change has at least one of the two objects; without both there is nothing to tell.
    pub fn key(&self) -> Option<&ObjectKey> {
        self.new.as_ref().or(self.old.as_ref()).map(|o| o.key())
    }

    /// Whether one who has seen `version` lacks this change.
    pub fn is_news_at(&self, version: &ResourceVersion) -> bool {
        let lacks = |(source, cause): (usize, &u64)| *cause > version.position(source);
        // Who is past the exchange has seen it, unless he comes from a replica where it took place later.
        let unseen = || self.at.elapsed() < EXCHANGE || self.position.covers(version);
        self.causes.iter().enumerate().any(lacks) || (self.exchanged && unseen())
    }

    /// What a watcher that selects objects is told: leaving the selection is DELETED with the old object at the new
    /// version, entering it is ADDED (k8s.io/apiserver/pkg/storage/cacher). Of a silent change nothing is told.
    pub fn event(&self, selects: impl Fn(&Object) -> bool) -> Option<(EventType, Arc<Object>)> {
        if self.silent {
            return None;
        }
        self.event_again(selects)
    }

    /// As [`Change::event`], of a silent change too: for one who came from elsewhere.
    pub fn event_again(
        &self,
        selects: impl Fn(&Object) -> bool,
    ) -> Option<(EventType, Arc<Object>)> {
        let before = self.selected_before(&selects);
        let after = self.new.as_ref().filter(|new| selects(new));
        match (before, after) {
            (false, Some(new)) => Some((EventType::Added, new.clone())),
            (true, Some(new)) => {
                let same = self.old.as_ref().is_some_and(|old| old.uid() == new.uid());
                let kind = if same {
                    EventType::Modified
                } else {
                    EventType::Added
                };
                Some((kind, new.clone()))
            }
            (true, None) => self.deleted_object().map(|gone| (EventType::Deleted, gone)),
            (false, None) => None,
        }
    }

    /// Whether a watcher that selects objects may have had the object before.
    pub fn selected_before(&self, selects: impl Fn(&Object) -> bool) -> bool {
        let old = self.old.as_ref();
        old.is_some_and(|old| self.merged || selects(old))
    }

    /// The object as a DELETED event shows it: its last state, at the version of its removal.
    pub fn deleted_object(&self) -> Option<Arc<Object>> {
        let old = self.old.as_ref()?;
        Some(
            self.deleted
                .get_or_init(|| Arc::new(old.at(self.position.clone())))
                .clone(),
        )
    }

    /// The event as a line of JSON, made once for all watchers.
    pub fn frame(&self, kind: EventType, object: &Object) -> Bytes {
        self.frames[kind as usize]
            .get_or_init(|| frame(kind, object))
            .clone()
    }

    /// The least version from which the change is not missed, once it is forgotten. `reached` is later.
    fn without(&self, reached: &ResourceVersion) -> ResourceVersion {
        let mut positions: SmallVec<[u64; 2]> = SmallVec::from_slice(self.position.positions());
        for (position, cause) in positions.iter_mut().zip(&self.causes) {
            *position = (*position).max(*cause);
        }
        if self.exchanged
            && let Some(at) = (0..positions.len()).find(|at| reached.position(*at) > positions[*at])
        {
            positions[at] += 1;
        }
        ResourceVersion::of_positions(&positions)
    }

    fn weight(&self) -> usize {
        // A new state shares nothing with the next one in the worst case.
        self.new.as_ref().map_or(0, |o| o.len()) + 256
    }
}

/// A watch event as a line of JSON (metav1.WatchEvent).
pub fn frame(kind: EventType, object: &Object) -> Bytes {
    let mut line = BytesMut::with_capacity(object.len() + 48);
    line.put_slice(b"{\"type\":\"");
    line.put_slice(kind.as_str().as_bytes());
    line.put_slice(b"\",\"object\":");
    object.write_to(&mut line);
    line.put_slice(b"}\n");
    line.freeze()
}

/// How much a [`History`] remembers. The oldest changes go when any bound is passed.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Number of changes.
    pub changes: usize,
    /// Bytes of the objects in them.
    pub bytes: usize,
    /// Age of a change.
    pub age: Duration,
}

impl Default for Bounds {
    /// What kube-apiserver's etcd keeps by default is five minutes.
    fn default() -> Self {
        Self {
            changes: 100_000,
            bytes: 64 << 20,
            age: Duration::from_secs(300),
        }
    }
}

/// The last changes of a resource, in order. One writer appends; any number of [`Follower`]s read.
#[derive(Debug)]
pub struct History {
    bounds: Bounds,
    ring: RwLock<Ring>,
    head: watch::Sender<u64>,
}

/// The sequence number of the first change ever appended: below it there is room for what is put in front later.
const ROOM: u64 = 1 << 32;

#[derive(Debug)]
struct Ring {
    changes: VecDeque<Arc<Change>>,
    /// The sequence number of the first change that is still there.
    first: u64,
    bytes: usize,
    /// All that came after this is still there.
    floor: ResourceVersion,
    /// The version up to which all changes have been appended.
    position: ResourceVersion,
}

/// A follower that was slower than the history is long, or a version that is older than it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {asked} ({floor})")]
pub struct TooOld {
    /// What was asked for.
    pub asked: ResourceVersion,
    /// What is still there.
    pub floor: ResourceVersion,
}

impl History {
    /// An empty history: all that follows comes after `floor`.
    pub fn new(floor: ResourceVersion, bounds: Bounds) -> Self {
        Self {
            bounds,
            ring: RwLock::new(Ring {
                changes: VecDeque::new(),
                first: ROOM,
                bytes: 0,
                position: floor.clone(),
                floor,
            }),
            head: watch::channel(ROOM).0,
        }
    }

    /// Adds changes in their order; `position` is the version reached with them, also when there are none.
    pub fn append(
        &self,
        changes: impl IntoIterator<Item = Arc<Change>>,
        position: ResourceVersion,
    ) {
        let mut ring = self.ring.write();
        for change in changes {
            ring.bytes += change.weight();
            ring.changes.push_back(change);
        }
        while let Some(first) = ring.changes.front() {
            let within = ring.changes.len() <= self.bounds.changes
                && ring.bytes <= self.bounds.bytes
                && first.at.elapsed() <= self.bounds.age;
            // Who has seen just the position of an exchange cannot be told from who has seen it.
            if within || (first.exchanged && first.position.covers(&position)) {
                break;
            }
            if let Some(first) = ring.changes.pop_front() {
                ring.bytes -= first.weight();
                ring.first += 1;
                ring.floor = ring.floor.join(&first.without(&position));
            }
        }
        ring.position = position;
        let head = ring.first + ring.changes.len() as u64;
        drop(ring);
        // Also without changes: those who wait for a version look again.
        self.head.send_replace(head);
    }

    /// Makes known that all changes after `floor` can be had again, after they were put in front.
    ///
    /// `changes` come before all that is there.
    pub fn prepend(&self, changes: Vec<Arc<Change>>, floor: ResourceVersion) {
        let mut ring = self.ring.write();
        ring.bytes += changes.iter().map(|change| change.weight()).sum::<usize>();
        // Followers count from the front: they must not meet what is older than they are.
        let count = changes.len() as u64;
        for change in changes.into_iter().rev() {
            ring.changes.push_front(change);
        }
        ring.first -= count;
        ring.floor = floor;
    }

    /// Whether this very version lies on the way that the changes took here.
    pub fn passed(&self, version: &ResourceVersion) -> bool {
        let ring = self.ring.read();
        ring.position == *version
            || ring.floor == *version
            || ring.changes.iter().any(|c| c.position == *version)
    }

    /// Calls with the changes that are still there, the oldest first, until it returns false.
    pub fn each(&self, mut call: impl FnMut(&Arc<Change>) -> bool) {
        let ring = self.ring.read();
        for change in &ring.changes {
            if !call(change) {
                break;
            }
        }
    }

    /// Ends the history: all who follow are told that they are too old, and nobody can come back to it.
    pub fn end(&self) {
        let mut ring = self.ring.write();
        ring.first += ring.changes.len() as u64 + 1;
        ring.changes.clear();
        ring.bytes = 0;
        let head = ring.first;
        drop(ring);
        self.head.send_replace(head);
    }

    /// The version up to which all changes are known here.
    pub fn position(&self) -> ResourceVersion {
        self.ring.read().position.clone()
    }

    /// All changes after this version are still there.
    pub fn floor(&self) -> ResourceVersion {
        self.ring.read().floor.clone()
    }

    /// Follows from now on. What was appended before is not seen.
    pub fn follow(self: &Arc<Self>) -> Follower {
        let ring = self.ring.read();
        Follower {
            next: ring.first + ring.changes.len() as u64,
            wake: self.head.subscribe(),
            history: self.clone(),
        }
    }

    /// What one who has seen `version` lacks, and a follower for all that comes after it.
    ///
    /// # Errors
    /// [`TooOld`] when some of it has been forgotten.
    pub fn since(
        self: &Arc<Self>,
        version: &ResourceVersion,
    ) -> Result<(Vec<Arc<Change>>, Follower), TooOld> {
        let ring = self.ring.read();
        if !version.covers(&ring.floor) {
            return Err(TooOld {
                asked: version.clone(),
                floor: ring.floor.clone(),
            });
        }
        let missed = ring
            .changes
            .iter()
            .filter(|change| change.is_news_at(version))
            .cloned()
            .collect();
        let follower = Follower {
            next: ring.first + ring.changes.len() as u64,
            wake: self.head.subscribe(),
            history: self.clone(),
        };
        Ok((missed, follower))
    }

    /// Waits until all changes up to `version` are known here.
    ///
    /// Returns whether that came to be within `patience`.
    pub async fn wait_for(&self, version: &ResourceVersion, patience: Duration) -> bool {
        let mut wake = self.head.subscribe();
        let reached = async {
            while !self.ring.read().position.covers(version) {
                if wake.changed().await.is_err() {
                    // The history itself holds the sender.
                    break;
                }
            }
        };
        tokio::time::timeout(patience, reached).await.is_ok()
    }
}

/// Reads a [`History`] in order, from where it began.
#[derive(Debug)]
pub struct Follower {
    history: Arc<History>,
    next: u64,
    wake: watch::Receiver<u64>,
}

impl Follower {
    /// The changes since the last call, at least one or a risen position, and the version reached with them.
    ///
    /// # Errors
    /// [`TooOld`] when this follower was so slow that changes it has not seen were forgotten.
    pub async fn next(&mut self) -> Result<(Vec<Arc<Change>>, ResourceVersion), TooOld> {
        self.ready().await;
        self.take()
    }

    /// Waits until there is something to take. A wait that is given up loses nothing that [`Follower::take`] would give.
    pub async fn ready(&mut self) {
        if self.wake.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// As [`Follower::next`], without waiting.
    ///
    /// # Errors
    /// As [`Follower::next`].
    pub fn take(&mut self) -> Result<(Vec<Arc<Change>>, ResourceVersion), TooOld> {
        let ring = self.history.ring.read();
        if self.next < ring.first {
            return Err(TooOld {
                asked: ring.position.clone(),
                floor: ring.floor.clone(),
            });
        }
        let from = (self.next - ring.first) as usize;
        let changes: Vec<_> = ring.changes.range(from..).cloned().collect();
        self.next += changes.len() as u64;
        Ok((changes, ring.position.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, version: u64) -> Arc<Object> {
        let text = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#);
        Arc::new(Object::parse(text.into()).unwrap())
    }

    fn added(name: &str, version: u64) -> Arc<Change> {
        Arc::new(Change::new(
            ResourceVersion::single(version),
            &[version],
            None,
            Some(object(name, version)),
        ))
    }

    fn names(changes: &[Arc<Change>]) -> Vec<String> {
        changes
            .iter()
            .map(|c| c.key().unwrap().to_string())
            .collect()
    }

    fn history(changes: usize) -> Arc<History> {
        let bounds = Bounds {
            changes,
            ..Bounds::default()
        };
        Arc::new(History::new(ResourceVersion::single(10), bounds))
    }

    #[tokio::test]
    async fn a_follower_sees_each_change_once_and_in_order() {
        let history = history(100);
        let mut follower = history.follow();
        for version in 11..14 {
            history.append(
                [added(&format!("o{version}"), version)],
                ResourceVersion::single(version),
            );
        }
        let (changes, position) = follower.next().await.unwrap();
        assert_eq!(names(&changes), ["o11", "o12", "o13"]);
        assert_eq!(position, ResourceVersion::single(13));
        history.append([added("o14", 14)], ResourceVersion::single(14));
        assert_eq!(names(&follower.next().await.unwrap().0), ["o14"]);
    }

    #[test]
    fn what_came_after_a_version_is_told_while_it_is_remembered() {
        let history = history(2);
        for version in 11..14 {
            history.append(
                [added(&format!("o{version}"), version)],
                ResourceVersion::single(version),
            );
        }
        let (missed, _) = history.since(&ResourceVersion::single(12)).unwrap();
        assert_eq!(names(&missed), ["o13"]);
        assert!(history.since(&ResourceVersion::single(10)).is_err());
        assert!(history.since(&ResourceVersion::single(11)).is_ok());
    }

    #[test]
    fn a_follower_that_is_too_slow_is_told_so() {
        let history = history(2);
        let mut follower = history.follow();
        for version in 11..15 {
            history.append([added("o", version)], ResourceVersion::single(version));
        }
        assert!(follower.take().is_err());
    }

    #[tokio::test]
    async fn a_position_without_changes_ends_a_wait() {
        let history = history(2);
        let version = ResourceVersion::single(20);
        let wait = history.wait_for(&version, Duration::from_secs(5));
        let (reached, ()) = tokio::join!(wait, async {
            tokio::task::yield_now().await;
            history.append([], ResourceVersion::single(20));
        });
        assert!(reached);
        let patience = Duration::from_millis(5);
        assert!(
            !history
                .wait_for(&ResourceVersion::single(21), patience)
                .await
        );
    }

    #[tokio::test]
    async fn the_end_of_a_history_reaches_those_who_wait_for_more() {
        let history = history(9);
        let mut follower = history.follow();
        history.append([added("o11", 11)], ResourceVersion::single(11));
        history.end();
        assert!(follower.next().await.is_err());
    }

    #[test]
    fn who_has_not_seen_what_a_forgotten_change_shows_is_too_old() {
        let history = history(1);
        let shows = |position, cause| {
            let version = ResourceVersion::single(position);
            Arc::new(Change::new(
                version,
                &[cause],
                None,
                Some(object("o", position)),
            ))
        };
        history.append([shows(11, 15), shows(12, 15)], ResourceVersion::single(15));
        history.append([added("o16", 16)], ResourceVersion::single(16));
        assert!(history.since(&ResourceVersion::single(12)).is_err());
        assert!(history.since(&ResourceVersion::single(15)).is_ok());
    }

    #[test]
    fn an_exchange_is_told_while_a_version_cannot_say_who_has_seen_it() {
        let history = history(1);
        let at = |version| ResourceVersion::single(version);
        let exchange = |name| {
            let (old, new) = (Some(object(name, 10)), Some(object(name, 10)));
            Arc::new(Change::new(at(10), &[10], old, new).exchanged())
        };
        history.append([exchange("a"), exchange("b")], at(10));
        let names_since = |version| names(&history.since(&at(version)).unwrap().0);
        assert_eq!(names_since(10), ["a", "b"]);
        history.append([added("c", 11)], at(11));
        assert!(history.since(&at(10)).is_err());
        assert_eq!(names_since(11), Vec::<String>::new());
    }

    #[test]
    fn a_silent_change_is_told_only_again() {
        let change = Change::new(
            ResourceVersion::single(9),
            &[9],
            Some(object("a", 8)),
            Some(object("a", 9)),
        );
        let change = change.silent();
        assert!(change.event(|_| true).is_none());
        assert_eq!(change.event_again(|_| true).unwrap().0, EventType::Modified);
    }

    #[test]
    fn leaving_a_selection_is_deleted_with_the_old_object_at_the_new_version() {
        let change = Change::new(
            ResourceVersion::single(9),
            &[9],
            Some(object("a", 8)),
            Some(object("b", 9)),
        );
        let (kind, object) = change.event(|o| &*o.key().name == "a").unwrap();
        assert_eq!(kind, EventType::Deleted);
        assert_eq!(
            object.bytes(),
            r#"{"metadata":{"name":"a","resourceVersion":"9"}}"#
        );
        assert_eq!(
            change.event(|o| &*o.key().name == "b").unwrap().0,
            EventType::Added
        );
        assert_eq!(change.event(|_| true).unwrap().0, EventType::Modified);
        assert!(change.event(|_| false).is_none());
    }

    #[test]
    fn a_frame_is_one_line_and_made_once() {
        let change = added("a", 11);
        let (kind, object) = change.event(|_| true).unwrap();
        let frame = change.frame(kind, &object);
        assert_eq!(
            frame,
            "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"11\"}}}\n"
        );
        assert!(std::ptr::eq(
            frame.as_ptr(),
            change.frame(kind, &object).as_ptr()
        ));
    }
}
