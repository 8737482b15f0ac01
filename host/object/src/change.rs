//! One change of one object, and the events that tell of it.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use smallvec::SmallVec;

use crate::key::{ObjectKey, Scope};
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
    several: bool,
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
            several: false,
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

    /// Stands for several changes, between which the object may have been there, or been another.
    pub fn of_several(mut self) -> Self {
        self.several = true;
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

    /// Not a change, but the place of changes between two versions that were not seen and may have been taken back: who
    /// has seen some of them cannot be told what he lacks.
    pub fn hole(from: ResourceVersion, to: &ResourceVersion) -> Self {
        Self::new(from, to.positions(), None, None)
    }

    /// The position up to which changes of a source were not seen, if this is the place of such.
    pub fn hole_up_to(&self, source: usize) -> Option<u64> {
        (self.is_hole() && self.cause(source) > self.position.position(source))
            .then(|| self.cause(source))
    }

    /// Whether it is the place of changes that were not seen.
    pub fn is_hole(&self) -> bool {
        self.old.is_none() && self.new.is_none()
    }

    /// Whether one who has seen `version` may have seen a part of what is missing here. What he was told may be further
    /// on than his version, so that also counts where the hole begins.
    pub(crate) fn swallows(&self, version: &ResourceVersion) -> bool {
        let mut positions = version.positions().iter().enumerate();
        self.is_hole()
            && positions.any(|(source, seen)| {
                let from = self.position.position(source);
                self.hole_up_to(source)
                    .is_some_and(|to| (from..to).contains(seen))
            })
    }

    /// See [`Change::silent`].
    pub fn is_silent(&self) -> bool {
        self.silent
    }

    /// Whether one who comes from elsewhere must be told of it at any time: a silent change of an object that there is,
    /// or that there was in between. Else only one whose version was none of this replica's own.
    pub fn is_told_again(&self) -> bool {
        self.new.is_some() || self.several
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
    /// A change has at least one of the two objects; only a [`Change::hole`] has neither.
    pub fn key(&self) -> Option<&ObjectKey> {
        self.new.as_ref().or(self.old.as_ref()).map(|o| o.key())
    }

    /// Whether it is of an object in this scope, or there is no saying. What a watcher is told to be gone, for it may have been there in
    /// between, must not be what he never asked for.
    pub fn is_in(&self, scope: &Scope) -> bool {
        self.key().is_none_or(|key| scope.has(key))
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
            (true, None) => {
                let old = self.old.as_ref()?;
                let gone = if selects(old) {
                    self.deleted_object()?
                } else {
                    Arc::new(old.tombstone(self.position.clone()))
                };
                Some((EventType::Deleted, gone))
            }
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

    /// Whether one who has seen just `version` cannot be told from one who has seen this exchange.
    pub(crate) fn stays_at(&self, version: &ResourceVersion) -> bool {
        self.exchanged && self.position.covers(version)
    }

    /// The least version from which the change is not missed, once it is forgotten. `reached` is later.
    pub(crate) fn without(&self, reached: &ResourceVersion) -> ResourceVersion {
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

    pub(crate) fn weight(&self) -> usize {
        // A new state shares nothing with the next one in the worst case; one that is gone is held by nobody else.
        let held = self.new.as_ref().or(self.old.as_ref());
        held.map_or(0, |o| o.len()) + 256
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
    fn who_may_have_had_what_he_does_not_select_is_told_its_name_and_no_more() {
        let text = r#"{"apiVersion":"v1","kind":"T","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"8"},"spec":{"secret":1}}"#;
        let old = Arc::new(Object::parse(text.into()).unwrap());
        let gone = Change::new(ResourceVersion::single(9), &[9], Some(old), None).merged();
        let (kind, told) = gone.event_again(|_| false).unwrap();
        assert_eq!(kind, EventType::Deleted);
        assert_eq!(
            told.bytes(),
            r#"{"apiVersion":"v1","kind":"T","metadata":{"name":"a","namespace":"n","resourceVersion":"9"}}"#
        );
        assert_eq!(
            told.at(ResourceVersion::single(10)).resource_version(),
            &ResourceVersion::single(10)
        );
        let scope = |namespace: Option<&str>, name: Option<&str>| Scope {
            namespace: namespace.map(Into::into),
            name: name.map(Into::into),
        };
        assert!(gone.is_in(&Scope::default()) && gone.is_in(&scope(Some("n"), Some("a"))));
        assert!(!gone.is_in(&scope(Some("m"), None)) && !gone.is_in(&scope(None, Some("b"))));
    }

    #[test]
    fn what_is_gone_weighs_what_it_was() {
        let gone = Change::new(ResourceVersion::single(9), &[9], Some(object("a", 8)), None);
        assert_eq!(gone.weight(), object("a", 8).len() + 256);
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
