//! Objects that are kept elsewhere and seen here: given resource versions of this host's own, so that they can be
//! listed and watched as any others.
//!
//! A version counts the changes that were seen, from the microseconds since 1970 at which this host began: so it rises
//! across restarts too, and who comes with one from before is told to list again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use joinery_object::{
    Bounds, Change, Follower, History, ListOptions, Object, ObjectKey, Objects, ResourceVersion,
    Status,
};
use parking_lot::Mutex;

use crate::resource::{List, Watch, WatchItem};
use crate::selection::Selection;
use crate::stream::{added, follow};

/// So many objects that went are remembered, for readings that began before they did.
const GONE: usize = 10_000;

/// When a reading began: of two, the later knows better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// All that has been seen.
pub(crate) struct Observed {
    history: Arc<History>,
    state: Mutex<State>,
}

struct State {
    objects: Objects,
    position: u64,
    ticket: u64,
    /// Which reading said last what an object is, or that it is gone.
    said: HashMap<ObjectKey, Ticket>,
}

impl State {
    fn next(&mut self) -> u64 {
        self.position = (self.position + 1).max(now());
        self.position
    }
}

/// Microseconds since 1970.
fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_micros()).unwrap_or_default()
        })
}

impl Observed {
    pub(crate) fn new() -> Self {
        let position = now();
        let floor = ResourceVersion::single(position);
        Self {
            history: Arc::new(History::new(floor, Bounds::default())),
            state: Mutex::new(State {
                objects: Objects::new(),
                position,
                ticket: 0,
                said: HashMap::new(),
            }),
        }
    }

    /// Nobody sees more of it: who watches is told to list again.
    pub(crate) fn end(&self) {
        self.history.end();
    }

    /// To be taken before a reading begins, and after a write has ended: what was read before that is older.
    pub(crate) fn ticket(&self) -> Ticket {
        let mut state = self.state.lock();
        state.ticket += 1;
        Ticket(state.ticket)
    }

    /// All there is, in one namespace or in all: what is not among them is gone.
    pub(crate) fn saw_all(
        &self,
        ticket: Ticket,
        namespace: Option<&str>,
        objects: impl IntoIterator<Item = Object>,
    ) {
        let mut state = self.state.lock();
        let mut seen = HashMap::new();
        for object in objects {
            seen.insert(object.key().clone(), object);
        }
        let in_scope = |key: &ObjectKey| match namespace {
            None => true,
            Some(namespace) => key.namespace.as_deref() == Some(namespace),
        };
        let gone: Vec<ObjectKey> = state
            .objects
            .keys()
            .filter(|key| in_scope(key) && !seen.contains_key(key))
            .cloned()
            .collect();
        let mut changes: Vec<_> = gone
            .into_iter()
            .filter_map(|key| change(&mut state, ticket, key, None))
            .collect();
        for (key, object) in seen {
            changes.extend(change(&mut state, ticket, key, Some(object)));
        }
        self.append(&mut state, changes);
    }

    /// One object, or that there is none; gives what is known of it now.
    pub(crate) fn saw(
        &self,
        ticket: Ticket,
        key: &ObjectKey,
        object: Option<Object>,
    ) -> Option<Arc<Object>> {
        let mut state = self.state.lock();
        let changes = change(&mut state, ticket, key.clone(), object);
        self.append(&mut state, changes);
        state.objects.get(key).cloned()
    }

    fn append(&self, state: &mut State, changes: impl IntoIterator<Item = Arc<Change>>) {
        let mut changes = changes.into_iter().peekable();
        if changes.peek().is_some() {
            self.history
                .append(changes, ResourceVersion::single(state.position));
        }
        if state.said.len() > state.objects.len() + GONE {
            let State { said, objects, .. } = state;
            said.retain(|key, _| objects.contains_key(key));
        }
    }

    /// What is known of one object.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.state.lock().objects.get(key).cloned()
    }

    /// All objects, the version they are at, and all that follows.
    fn subscribe(&self) -> (Objects, ResourceVersion, Follower) {
        let state = self.state.lock();
        let version = ResourceVersion::single(state.position);
        (state.objects.clone(), version, self.history.follow())
    }

    /// What is selected. All of it: `limit` is a hint, and there is nothing here that a page would spare.
    ///
    /// # Errors
    /// 410 for a version that is over and asked for exactly, 504 for one that has not come.
    pub(crate) fn list(
        &self,
        selection: &Selection,
        options: &ListOptions,
    ) -> Result<List, Status> {
        let (objects, resource_version, _) = self.subscribe();
        if let Some(asked) = self.asked(options.resource_version.as_deref())?
            && options.is_exact()
            && asked != resource_version
        {
            return Err(Status::expired(format!(
                "only the present version can be had, {resource_version}, not {asked}"
            )));
        }
        Ok(List {
            items: selection.of(&objects, None).cloned().collect(),
            resource_version,
            continue_token: None,
            remaining: None,
            warnings: Vec::new(),
        })
    }

    /// The changes of what is selected.
    ///
    /// # Errors
    /// 504 for a version that has not come.
    pub(crate) fn watch(
        &self,
        selection: Selection,
        options: &ListOptions,
    ) -> Result<Watch, Status> {
        let asked = self.asked(options.resource_version.as_deref())?;
        let initial = options.send_initial_events.unwrap_or(asked.is_none());
        if let Some(version) = asked.filter(|_| !initial) {
            let state = self.state.lock();
            let position = ResourceVersion::single(state.position);
            let (missed, follower) = match self.history.since(&version) {
                Ok(since) => since,
                Err(error) => {
                    let error = WatchItem::from(error);
                    return Ok(Box::pin(futures::stream::iter([error])));
                }
            };
            drop(state);
            let head = missed
                .iter()
                .filter_map(|change| crate::stream::event(change, &|o| selection.matches(o)))
                .collect();
            let selects = move |object: &Object| selection.matches(object);
            return Ok(follow(head, position, follower, selects, options));
        }
        let (objects, version, follower) = self.subscribe();
        let mut head = Vec::new();
        if initial {
            head = added(selection.of(&objects, None).cloned());
            if options.send_initial_events == Some(true) && options.allow_watch_bookmarks {
                head.push(WatchItem::Bookmark {
                    version: version.clone(),
                    initial_events_end: true,
                });
            }
        }
        let selects = move |object: &Object| selection.matches(object);
        Ok(follow(head, version, follower, selects, options))
    }

    /// The version that is asked for; none for any.
    ///
    /// # Errors
    /// 400 for what is no version, 504 for one that has not come.
    pub(crate) fn asked(&self, text: Option<&str>) -> Result<Option<ResourceVersion>, Status> {
        let Some(text) = text.filter(|text| !matches!(*text, "" | "0")) else {
            return Ok(None);
        };
        let version = ResourceVersion::parse(text, 1)
            .map_err(|error| Status::bad_request(format!("resourceVersion: {error}")))?;
        let current = self.state.lock().position;
        if version.position(0) > current {
            return Err(Status::too_large_resource_version(text, current));
        }
        Ok(Some(version))
    }
}

/// The change that a reading found, if it is one, and no later reading has said better.
fn change(
    state: &mut State,
    ticket: Ticket,
    key: ObjectKey,
    object: Option<Object>,
) -> Option<Arc<Change>> {
    if state.said.get(&key).is_some_and(|said| *said > ticket) {
        return None;
    }
    state.said.insert(key.clone(), ticket);
    let old = state.objects.get(&key).cloned();
    let new = match (&old, object) {
        (None, None) => return None,
        (Some(old), Some(new)) if old.same_but_version(&new) => return None,
        (_, new) => new,
    };
    let position = state.next();
    let version = ResourceVersion::single(position);
    let new = new.map(|new| Arc::new(new.at(version.clone())));
    match &new {
        Some(new) => state.objects.insert(key, new.clone()),
        None => state.objects.remove(&key),
    };
    Some(Arc::new(Change::new(version, &[position], old, new)))
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;
    use crate::fields::Fields;

    fn object(name: &str, value: u8) -> Object {
        let text = format!(r#"{{"metadata":{{"name":"{name}","uid":"u"}},"value":{value}}}"#);
        Object::parse_at(text.into(), ResourceVersion::single(0)).unwrap()
    }

    fn selection() -> Selection {
        let (labels, fields) = (Default::default(), Default::default());
        Selection::new(None, labels, fields, &Fields::default()).unwrap()
    }

    fn listed(observed: &Observed) -> Vec<String> {
        let list = observed.list(&selection(), &ListOptions::default());
        let items = list.unwrap().items;
        items.iter().map(|o| o.key().to_string()).collect()
    }

    #[test]
    fn what_is_no_longer_among_all_is_gone_and_what_is_the_same_no_change() {
        let observed = Observed::new();
        observed.saw_all(observed.ticket(), None, [object("a", 1), object("b", 1)]);
        let before = observed.subscribe().1;
        observed.saw_all(observed.ticket(), None, [object("b", 1), object("a", 1)]);
        assert_eq!(observed.subscribe().1, before);
        observed.saw_all(observed.ticket(), None, [object("b", 2)]);
        assert_eq!(listed(&observed), ["b"]);
        assert!(observed.subscribe().1.position(0) > before.position(0));
    }

    #[test]
    fn a_reading_that_began_earlier_and_ended_later_changes_nothing() {
        let observed = Observed::new();
        let early = observed.ticket();
        let late = observed.ticket();
        let key = object("a", 0).key().clone();
        observed.saw(late, &key, Some(object("a", 2)));
        let known = observed.saw(early, &key, Some(object("a", 1))).unwrap();
        assert!(known.same_but_version(&object("a", 2)));
        observed.saw_all(early, None, []);
        assert_eq!(listed(&observed), ["a"]);
    }

    #[tokio::test]
    async fn a_watch_from_a_version_tells_what_came_after_it() {
        let observed = Observed::new();
        observed.saw_all(observed.ticket(), None, [object("a", 1), object("b", 1)]);
        let version = observed.subscribe().1.to_string();
        observed.saw_all(observed.ticket(), None, [object("a", 2)]);
        let options = ListOptions {
            resource_version: Some(version),
            ..ListOptions::default()
        };
        let mut watch = observed.watch(selection(), &options).unwrap();
        let mut told = Vec::new();
        for _ in 0..2 {
            let Some(WatchItem::Event { kind, object, .. }) = watch.next().await else {
                panic!("no event");
            };
            told.push(format!("{} {}", kind.as_str(), object.key()));
        }
        assert_eq!(told, ["DELETED b", "MODIFIED a"]);
    }

    #[tokio::test]
    async fn a_version_of_an_earlier_run_is_expired_and_one_of_the_future_too_large() {
        let observed = Observed::new();
        let watch = |version: u64| {
            let options = ListOptions {
                resource_version: Some(version.to_string()),
                ..ListOptions::default()
            };
            observed.watch(selection(), &options)
        };
        let mut early = watch(7).unwrap();
        assert!(matches!(early.next().await, Some(WatchItem::Error(status)) if status.code == 410));
        let future = watch(observed.subscribe().1.position(0) + 1);
        assert_eq!(future.err().unwrap().code, 504);
    }
}
