//! A client as kubectl and informers are: lists, watches, comes back with the last version it was told.

use std::collections::BTreeMap;
use std::sync::Arc;

use joinery_object::{
    Change, EventType, Follower, Object, ObjectKey, ResourceVersion, Scope, Status,
};
use joinery_view::{Replayed, ResumeError, View};

/// An object's text without its resource version, which the host has put in as one piece.
pub(crate) fn text(object: &Object) -> String {
    let text = String::from_utf8(object.bytes().to_vec()).unwrap();
    let version = format!("\"resourceVersion\":\"{}\",", object.resource_version());
    assert!(text.contains(&version), "{text}");
    text.replacen(&version, "", 1)
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Client {
    pub(crate) objects: BTreeMap<ObjectKey, String>,
    pub(crate) version: Option<ResourceVersion>,
    /// As `ADDED ns/name`.
    pub(crate) told: Vec<String>,
}

/// A watch that is under way.
pub(crate) struct Watch {
    /// What has arrived and is not read yet.
    pending: Vec<Replayed>,
    follower: Follower,
    reached: ResourceVersion,
    /// Came with a version, and whether that was none of the view's own.
    settling: Option<bool>,
}

impl Client {
    pub(crate) fn list(view: &View) -> Self {
        let snapshot = view.snapshot();
        let mut client = Self::default();
        for (key, object) in &snapshot.objects {
            assert!(snapshot.version.covers(object.resource_version()));
            client.objects.insert(key.clone(), text(object));
        }
        client.version = Some(snapshot.version);
        client
    }

    pub(crate) async fn watch(&self, view: &View) -> Result<Watch, ResumeError> {
        let version = self.version.clone().unwrap();
        let mut resumed = view.resume(&version, &Scope::default(), |_| true).await?;
        resumed.events.reverse();
        Ok(Watch {
            pending: resumed.events,
            follower: resumed.follower,
            reached: resumed.version,
            settling: Some(resumed.elsewhere),
        })
    }

    /// Lists and watches in one.
    pub(crate) fn subscribe(view: &View) -> (Self, Watch) {
        let (snapshot, follower) = view.subscribe();
        let mut client = Self::default();
        for object in snapshot.objects.values() {
            client.apply(EventType::Added, object);
        }
        client.told.clear();
        let watch = Watch {
            pending: Vec::new(),
            follower,
            reached: snapshot.version,
            settling: None,
        };
        (client, watch)
    }

    fn apply(&mut self, kind: EventType, object: &Object) {
        self.told
            .push(format!("{} {}", kind.as_str(), object.key()));
        match kind {
            EventType::Deleted => self.objects.remove(object.key()),
            _ => self.objects.insert(object.key().clone(), text(object)),
        };
        self.version = Some(object.resource_version().clone());
    }

    /// Reads up to so many events. Returns whether the watch goes on; if not, it ended with an error.
    pub(crate) fn read(&mut self, watch: &mut Watch, most: usize) -> bool {
        watch.fill();
        for _ in 0..most {
            match watch.pending.pop() {
                None => return true,
                Some(Replayed::Event { kind, object, .. }) => self.apply(kind, &object),
                Some(Replayed::Failure(_)) => {
                    self.told.push("ERROR".to_owned());
                    return false;
                }
            }
        }
        true
    }

    /// Reads all there is, and the bookmark after it.
    pub(crate) fn read_all(&mut self, watch: &mut Watch) -> bool {
        let goes_on = self.read(watch, usize::MAX);
        if goes_on {
            self.version = Some(watch.reached.clone());
        }
        goes_on
    }

    /// What it knows, by key.
    pub(crate) fn known(&self) -> Vec<(String, String)> {
        let known = self.objects.iter();
        known
            .map(|(key, text)| (key.to_string(), text.clone()))
            .collect()
    }
}

impl Watch {
    /// As the stream of a watch does for one who came with a version.
    fn fill(&mut self) {
        let (changes, position) = self.follower.take().unwrap();
        let settling = self.settling;
        let again = |change: &Arc<Change>| {
            if settling.is_some() && change.is_hole() {
                return Some(Replayed::Failure(Status::expired("a hole")));
            }
            let told_again = settling.is_some_and(|elsewhere| elsewhere || change.is_told_again());
            let told = match change.is_silent() && told_again {
                true => change.event_again(|_| true),
                false => change.event(|_| true),
            };
            let (kind, object) = told?;
            Some(match change.failure() {
                Some(failure) => Replayed::Failure(failure.clone()),
                None => Replayed::Event {
                    kind,
                    object,
                    change: Some(change.clone()),
                },
            })
        };
        let new: Vec<_> = changes.iter().rev().filter_map(again).collect();
        self.pending.splice(0..0, new);
        self.reached = position;
    }
}
