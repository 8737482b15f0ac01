//! Random writes, reads and watches of a stored resource against a model that is too simple to be wrong: all objects at
//! each revision. What is read comes from the watch cache, from the store behind it, or from both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use joinery_object::{
    DeleteOptions, EventType, Object, ObjectKey, PatchOptions, Status, WriteOptions,
};
use joinery_resource::{PatchType, Resource, StoredResource, Watch, WatchItem, Written};
use joinery_store::{Embedded, Store};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{Host, admin, bytes, json, list_options, version, widget};

const NAMESPACES: [&str; 2] = ["default", "kube-system"];
const NAMES: [&str; 3] = ["a", "a-1", "b"];
const COLORS: [&str; 2] = ["red", "blue"];

/// One step of a run. Revisions are given as distances back from the newest.
#[derive(Clone, Debug)]
enum Step {
    /// Creates, or patches if it is there.
    Write {
        at: Place,
        color: usize,
        size: u8,
    },
    Delete(Place),
    Collect {
        selection: Selection,
    },
    List {
        selection: Selection,
        read: Read,
        limit: usize,
    },
    /// A watch that is read to its present end at once.
    Catch {
        selection: Selection,
        back: u64,
    },
    /// A watch that stays open until the end of the run.
    Follow(Selection),
    Compact {
        back: u64,
    },
    /// The watch cache is lost, as by a restart of the host.
    Reopen,
}

#[derive(Clone, Copy, Debug)]
enum Read {
    Latest,
    Any,
    NotOlderThan(u64),
    Exact(u64),
}

#[derive(Clone, Copy, Debug)]
struct Place {
    namespace: usize,
    name: usize,
}

impl Place {
    fn key(self) -> ObjectKey {
        ObjectKey::new(Some(NAMESPACES[self.namespace]), NAMES[self.name])
    }
}

#[derive(Clone, Copy, Debug)]
struct Selection {
    namespace: Option<usize>,
    /// By field or by label.
    color: Option<(bool, usize)>,
}

impl Selection {
    fn namespace(self) -> Option<&'static str> {
        self.namespace.map(|index| NAMESPACES[index])
    }

    fn query(self) -> String {
        match self.color {
            None => String::new(),
            Some((true, color)) => format!("&fieldSelector=spec.color%3D{}", COLORS[color]),
            Some((false, color)) => format!("&labelSelector=color%3D{}", COLORS[color]),
        }
    }

    fn matches(self, (key, thing): (&Key, &Thing)) -> bool {
        self.namespace().is_none_or(|namespace| key.0 == namespace)
            && self.color.is_none_or(|(_, color)| thing.color == color)
    }
}

/// Namespace and name.
type Key = (String, String);
/// All objects at one revision.
type Map = BTreeMap<Key, Thing>;

#[derive(Clone, Debug, PartialEq)]
struct Thing {
    uid: String,
    color: usize,
    size: u8,
    revision: u64,
}

fn key_of(object: &Object) -> Key {
    let key = object.key();
    (
        key.namespace.as_deref().unwrap_or_default().to_owned(),
        key.name.to_string(),
    )
}

fn thing(object: &Object) -> Thing {
    let value = json(object);
    let color = value["spec"]["color"].as_str().unwrap();
    Thing {
        uid: value["metadata"]["uid"].as_str().unwrap().to_owned(),
        color: COLORS.iter().position(|known| *known == color).unwrap(),
        size: u8::try_from(value["spec"]["size"].as_u64().unwrap()).unwrap(),
        revision: version(object),
    }
}

/// What a watch told: kind, key, and the object with the version of the change.
type Event = (EventType, Key, Thing);

fn event(item: WatchItem) -> Result<Event, u16> {
    match item {
        WatchItem::Event { kind, object, .. } => Ok((kind, key_of(&object), thing(&object))),
        WatchItem::Error(status) => Err(status.code),
        WatchItem::Bookmark { .. } => panic!("no bookmark was asked for"),
    }
}

/// The objects at each revision from `first` on.
struct Model {
    first: u64,
    maps: Vec<Map>,
    floor: u64,
}

impl Model {
    fn newest(&self) -> u64 {
        self.first + self.maps.len() as u64 - 1
    }

    fn at(&self, revision: u64) -> &Map {
        &self.maps[usize::try_from(revision - self.first).unwrap()]
    }

    fn back(&self, back: u64) -> u64 {
        self.newest().saturating_sub(back).max(self.first)
    }

    fn selected(&self, revision: u64, selection: Selection) -> Map {
        let of = self.at(revision).iter();
        of.filter(|entry| selection.matches(*entry))
            .map(|(key, thing)| (key.clone(), thing.clone()))
            .collect()
    }

    /// What a watcher of the selection is told of all changes after a revision.
    fn events(&self, after: u64, selection: Selection) -> Vec<Event> {
        (after + 1..=self.newest())
            .flat_map(|revision| {
                let before = self.selected(revision - 1, selection);
                let now = self.selected(revision, selection);
                let mut events = Vec::new();
                for (key, thing) in &now {
                    match before.get(key) {
                        Some(old) if old == thing => {}
                        Some(old) if old.uid == thing.uid => {
                            events.push((EventType::Modified, key.clone(), thing.clone()));
                        }
                        _ => events.push((EventType::Added, key.clone(), thing.clone())),
                    }
                }
                for (key, thing) in before {
                    if !now.contains_key(&key) {
                        // As it was selected, at the version of the change.
                        events.push((EventType::Deleted, key, Thing { revision, ..thing }));
                    }
                }
                events
            })
            .collect()
    }

    fn put(&mut self, written: &Written) {
        let mut map = self.at(self.newest()).clone();
        let (key, thing) = (key_of(&written.object), thing(&written.object));
        if map.get(&key) == Some(&thing) {
            return;
        }
        assert_eq!(thing.revision, self.newest() + 1);
        map.insert(key, thing);
        self.maps.push(map);
    }
}

struct Run {
    host: Host,
    store: Arc<dyn Store>,
    widgets: Arc<StoredResource>,
    model: Model,
    followers: Vec<Follower>,
}

/// An open watch and how far it has been read.
struct Follower {
    selection: Selection,
    watch: Watch,
    seen: u64,
}

impl Run {
    async fn start() -> Self {
        let store: Arc<dyn Store> = Arc::new(Embedded::temporary().unwrap());
        let host = Host::on(store.clone(), Default::default()).await;
        let widgets = host.widgets().await;
        let first = store.revision().await.unwrap();
        Self {
            host,
            store,
            widgets,
            model: Model {
                first,
                maps: vec![Map::new()],
                floor: 1,
            },
            followers: Vec::new(),
        }
    }

    async fn write(&mut self, at: Place, color: usize, size: u8) {
        let (key, color) = (at.key(), COLORS[color]);
        let mut object = widget(NAMES[at.name], json!({"size": size, "color": color}));
        object["metadata"]["labels"] = json!({"color": color});
        let there = self.model.at(self.model.newest()).contains_key(&(
            NAMESPACES[at.namespace].to_owned(),
            NAMES[at.name].to_owned(),
        ));
        let written = if there {
            let options = PatchOptions::default();
            let patch = bytes(&object);
            self.widgets
                .patch(&admin(), &key, None, PatchType::Merge, patch, &options)
                .await
        } else {
            let namespace = Some(NAMESPACES[at.namespace]);
            let options = WriteOptions::default();
            self.widgets
                .create(&admin(), namespace, None, bytes(&object), &options)
                .await
        };
        self.model.put(&written.unwrap());
    }

    async fn delete(&mut self, at: Place) {
        let key = (
            NAMESPACES[at.namespace].to_owned(),
            NAMES[at.name].to_owned(),
        );
        let outcome = self
            .widgets
            .delete(&admin(), &at.key(), &DeleteOptions::default())
            .await;
        let mut map = self.model.at(self.model.newest()).clone();
        match (map.remove(&key), outcome) {
            (None, Err(status)) => assert_eq!(status.code, 404),
            (Some(_), Ok(written)) => {
                assert!(written.removed);
                self.model.maps.push(map);
            }
            (there, outcome) => panic!("{there:?}, but {:?}", outcome.map(|_| "deleted")),
        }
    }

    /// In which order they go is not said: the store tells.
    async fn collect(&mut self, selection: Selection) {
        let expected = self.model.selected(self.model.newest(), selection);
        let before = self.store.revision().await.unwrap();
        let options = list_options(&selection.query());
        let namespace = selection.namespace();
        let list = self
            .widgets
            .delete_collection(&admin(), namespace, &options, &DeleteOptions::default())
            .await
            .unwrap();
        assert_eq!(list.items.len(), expected.len());
        let mut watch = self
            .store
            .watch(joinery_store::KeyRange::all(), before)
            .await
            .unwrap();
        while let joinery_store::WatchEvent::Change(change) = watch.next().await.unwrap().unwrap() {
            let mut map = self.model.at(self.model.newest()).clone();
            let key = (
                change.key.namespace().to_owned(),
                change.key.name().to_owned(),
            );
            assert!(map.remove(&key).is_some() && expected.contains_key(&key));
            self.model.maps.push(map);
        }
    }

    async fn list(&self, selection: Selection, read: Read, limit: usize) {
        let newest = self.model.newest();
        let (revision, version) = match read {
            Read::Latest => (newest, String::new()),
            Read::Any => (newest, "&resourceVersion=0".to_owned()),
            Read::NotOlderThan(back) => {
                let revision = self.model.back(back);
                let not_older = "resourceVersionMatch=NotOlderThan";
                (newest, format!("&resourceVersion={revision}&{not_older}"))
            }
            Read::Exact(back) => {
                let revision = self.model.back(back);
                let exact = "resourceVersionMatch=Exact";
                (revision, format!("&resourceVersion={revision}&{exact}"))
            }
        };
        let expected = self.model.selected(revision, selection);
        let mut found = Vec::new();
        let mut page = format!("limit={limit}{}{version}", selection.query());
        loop {
            let options = list_options(&page);
            let answer = self
                .widgets
                .list(&admin(), selection.namespace(), &options)
                .await;
            let list = match answer {
                Ok(list) => list,
                Err(status) => {
                    self.assert_compacted(&status, revision);
                    return;
                }
            };
            // Of every page, and of a read of the latest too: all that was written has been awaited.
            assert_eq!(list.resource_version.position(0), revision);
            found.extend(list.items.iter().map(|item| (key_of(item), thing(item))));
            let Some(token) = list.continue_token else {
                break;
            };
            assert!(limit > 0 && list.items.len() == limit);
            let left = expected.len() - found.len();
            assert!(list.remaining.is_none_or(|said| said == left as u64));
            page = format!("limit={limit}{}&continue={token}", selection.query());
        }
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
    }

    fn assert_compacted(&self, status: &Status, revision: u64) {
        assert_eq!(status.code, 410, "{status:?}");
        assert!(
            revision < self.model.floor,
            "{revision} is not below the floor, {}",
            self.model.floor
        );
    }

    async fn watch(&self, selection: Selection, after: u64) -> Watch {
        let query = format!("watch=1&resourceVersion={after}{}", selection.query());
        self.widgets
            .watch(&admin(), selection.namespace(), &list_options(&query))
            .await
            .unwrap()
    }

    async fn catch(&self, selection: Selection, back: u64) {
        let after = self.model.back(back);
        let mut watch = self.watch(selection, after).await;
        self.read(&mut watch, selection, after).await;
    }

    /// Reads what is due, and no more is told. Whether the watch goes on: not if it was told that it is too old.
    async fn read(&self, watch: &mut Watch, selection: Selection, after: u64) -> bool {
        for expected in self.model.events(after, selection) {
            let next = tokio::time::timeout(Duration::from_secs(10), watch.next()).await;
            match event(next.expect("an event is missing").expect("it ended")) {
                Ok(told) => assert_eq!(told, expected),
                Err(code) => {
                    assert_eq!(code, 410);
                    assert!(after < self.model.floor, "{after} is not compacted");
                    return false;
                }
            }
        }
        match watch.next().now_or_never() {
            None => true,
            Some(Some(item)) => {
                let told = event(item);
                assert!(after < self.model.floor, "{told:?} is one too many");
                assert_eq!(told, Err(410));
                false
            }
            Some(None) => panic!("it ended"),
        }
    }

    /// All open watches have told all there is, and begin anew in the same place.
    async fn settle(&mut self, reopen: bool) {
        let newest = self.model.newest();
        let mut followers = std::mem::take(&mut self.followers);
        for follower in &mut followers {
            // A watch that was overtaken by its history may end; it never skips.
            let goes_on = self
                .read(&mut follower.watch, follower.selection, follower.seen)
                .await;
            follower.seen = newest;
            if !goes_on {
                follower.watch = self.watch(follower.selection, newest).await;
            }
        }
        if reopen {
            self.widgets = self.host.widgets().await;
            for follower in &mut followers {
                follower.watch = self.watch(follower.selection, newest).await;
            }
        }
        self.followers = followers;
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Write { at, color, size } => self.write(at, color, size).await,
            Step::Delete(at) => self.delete(at).await,
            Step::Collect { selection } => self.collect(selection).await,
            Step::List {
                selection,
                read,
                limit,
            } => self.list(selection, read, limit).await,
            Step::Catch { selection, back } => self.catch(selection, back).await,
            Step::Follow(selection) => {
                let seen = self.model.newest();
                let watch = self.watch(selection, seen).await;
                self.followers.push(Follower {
                    selection,
                    watch,
                    seen,
                });
            }
            Step::Compact { back } => {
                let floor = self.model.back(back);
                self.store.compact(floor).await.unwrap();
                self.model.floor = self.model.floor.max(floor);
            }
            Step::Reopen => self.settle(true).await,
        }
    }
}

fn places() -> impl Strategy<Value = Place> {
    (0..NAMESPACES.len(), 0..NAMES.len()).prop_map(|(namespace, name)| Place { namespace, name })
}

fn selections() -> impl Strategy<Value = Selection> {
    let color = (any::<bool>(), 0..COLORS.len());
    (
        prop::option::of(0..NAMESPACES.len()),
        prop::option::of(color),
    )
        .prop_map(|(namespace, color)| Selection { namespace, color })
}

fn steps() -> impl Strategy<Value = Step> {
    let read = prop_oneof![
        Just(Read::Latest),
        Just(Read::Any),
        (0..20_u64).prop_map(Read::NotOlderThan),
        (0..20_u64).prop_map(Read::Exact),
    ];
    prop_oneof![
        12 => (places(), 0..COLORS.len(), 0..4_u8)
            .prop_map(|(at, color, size)| Step::Write { at, color, size }),
        4 => places().prop_map(Step::Delete),
        1 => selections().prop_map(|selection| Step::Collect { selection }),
        5 => (selections(), read, 0..3_usize)
            .prop_map(|(selection, read, limit)| Step::List { selection, read, limit }),
        4 => (selections(), 0..25_u64).prop_map(|(selection, back)| Step::Catch { selection, back }),
        2 => selections().prop_map(Step::Follow),
        1 => (0..15_u64).prop_map(|back| Step::Compact { back }),
        1 => Just(Step::Reopen),
    ]
}

/// A number of cases: a twentieth of it but with `JOINERY_TEST_FULL=1`.
fn cases(full: u32) -> u32 {
    if std::env::var("JOINERY_TEST_FULL").is_ok_and(|value| value == "1") {
        full
    } else {
        full.div_ceil(20)
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(640), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn a_stored_resource_does_what_the_model_does(steps in prop::collection::vec(steps(), 1..100)) {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(async {
                let mut run = Run::start().await;
                for step in steps {
                    run.step(step).await;
                }
                run.settle(false).await;
            });
    }
}
