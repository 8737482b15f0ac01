//! The objects that all connections share.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use joinery_object::{
    EventType, FieldSelector, GroupVersionResource, LabelSelector, Object, ObjectKey,
    ResourceVersion, Status, canonical,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::upstream::{Page, Query, UpstreamError, UpstreamEvent};

/// Revisions begin here, as with an API server that has kept something already.
const FIRST_REVISION: u64 = 100;

pub(super) struct Objects {
    state: Mutex<State>,
    wake: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    revisions: BTreeMap<usize, u64>,
    tables: HashMap<GroupVersionResource, Table>,
    uids: u64,
    /// The rest of a list and its position, by continue token.
    pages: HashMap<String, (Vec<Arc<Object>>, u64)>,
}

struct Table {
    api_version: String,
    kind: String,
    counter: usize,
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    log: Vec<Entry>,
    compacted: u64,
}

/// An object before and after.
type Turn = (Option<Arc<Object>>, Option<Arc<Object>>);

struct Entry {
    position: u64,
    /// None: a bookmark.
    change: Option<Turn>,
}

impl Default for Objects {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            wake: watch::channel(0).0,
        }
    }
}

/// What a list or a watch selects.
pub(super) struct Selection {
    namespace: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    pub(super) fn new(query: &Query) -> Result<Self, UpstreamError> {
        let refused = |error| UpstreamError::Refused(Status::from(error));
        Ok(Self {
            namespace: query.namespace.clone(),
            labels: query.label_selector.parse().map_err(refused)?,
            fields: query.field_selector.parse().map_err(refused)?,
        })
    }

    fn has(&self, object: &Object) -> bool {
        let key = object.key();
        let namespace = key.namespace.as_deref();
        let here = self.namespace.is_none() || self.namespace.as_deref() == namespace;
        let fields = |field: &str| match field {
            "metadata.name" => Some(&*key.name),
            "metadata.namespace" => Some(namespace.unwrap_or_default()),
            _ => None,
        };
        here && self.labels.matches(|label| object.label(label)) && self.fields.matches(fields)
    }

    fn event(
        &self,
        old: Option<&Arc<Object>>,
        new: Option<&Arc<Object>>,
        at: u64,
    ) -> Option<UpstreamEvent> {
        let old = old.filter(|old| self.has(old));
        let (kind, object) = match (old, new.filter(|new| self.has(new))) {
            (None, None) => return None,
            (None, Some(new)) => (EventType::Added, new.clone()),
            (Some(_), Some(new)) => (EventType::Modified, new.clone()),
            // As an API server has it: the last state that was selected, at the version of the change.
            (Some(old), None) => {
                let gone = old.at(ResourceVersion::single(at));
                (EventType::Deleted, Arc::new(gone))
            }
        };
        Some(UpstreamEvent::Change(kind, object))
    }
}

fn missing(gvr: &GroupVersionResource) -> UpstreamError {
    UpstreamError::NoSuchResource(gvr.to_string())
}

impl State {
    fn table(&self, gvr: &GroupVersionResource) -> Result<&Table, UpstreamError> {
        self.tables.get(gvr).ok_or_else(|| missing(gvr))
    }

    fn revision(&self, counter: usize) -> u64 {
        self.revisions
            .get(&counter)
            .copied()
            .unwrap_or(FIRST_REVISION)
    }

    fn next_revision(&mut self, counter: usize) -> u64 {
        let next = self.revision(counter) + 1;
        self.revisions.insert(counter, next);
        next
    }
}

impl Objects {
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.wake.subscribe()
    }

    pub(super) fn wake(&self) {
        self.wake.send_modify(|count| *count += 1);
    }

    pub(super) fn install(&self, gvr: &GroupVersionResource, kind: &str, counter: usize) {
        let mut state = self.state.lock();
        let table = Table {
            api_version: gvr.api_version(),
            kind: kind.to_owned(),
            counter,
            objects: BTreeMap::new(),
            log: Vec::new(),
            compacted: state.next_revision(counter),
        };
        state.tables.insert(gvr.clone(), table);
    }

    pub(super) fn uninstall(&self, gvr: &GroupVersionResource) {
        self.state.lock().tables.remove(gvr);
        self.wake();
    }

    pub(super) fn put(&self, gvr: &GroupVersionResource, mut object: Value) -> Arc<Object> {
        let mut state = self.state.lock();
        let counter = state
            .table(gvr)
            .unwrap_or_else(|error| panic!("{error}"))
            .counter;
        let revision = state.next_revision(counter);
        state.uids += 1;
        let uids = state.uids;
        let table = state.tables.get_mut(gvr).unwrap_or_else(|| panic!("{gvr}"));
        let metadata = object["metadata"].clone();
        let text = |name: &str| metadata[name].as_str();
        let key = ObjectKey::new(text("namespace"), text("name").unwrap_or_default());
        let old = table.objects.get(&key).cloned();
        let mut set = |name: &str, value: &str| object["metadata"][name] = json!(value);
        set("resourceVersion", &revision.to_string());
        if let Some(old) = &old {
            set("uid", old.uid());
            set("creationTimestamp", old.created());
        } else {
            let made_up = format!("{:08x}-0000-4000-8000-000000000000", uids);
            set("uid", text("uid").unwrap_or(&made_up));
            let minute = revision / 60 % 60;
            let time = format!("2026-01-01T00:{minute:02}:{:02}Z", revision % 60);
            set(
                "creationTimestamp",
                text("creationTimestamp").unwrap_or(&time),
            );
        }
        let bytes = canonical(
            object.to_string().as_bytes(),
            &table.api_version,
            &table.kind,
        )
        .and_then(Object::parse);
        let object = Arc::new(bytes.unwrap_or_else(|error| panic!("{error}: {object}")));
        table.objects.insert(key, object.clone());
        table.log.push(Entry {
            position: revision,
            change: Some((old, Some(object.clone()))),
        });
        drop(state);
        self.wake();
        object
    }

    pub(super) fn delete(&self, gvr: &GroupVersionResource, key: &ObjectKey) -> bool {
        let mut state = self.state.lock();
        let Ok(counter) = state.table(gvr).map(|table| table.counter) else {
            return false;
        };
        let Some(old) = state
            .tables
            .get_mut(gvr)
            .and_then(|table| table.objects.remove(key))
        else {
            return false;
        };
        let position = state.next_revision(counter);
        if let Some(table) = state.tables.get_mut(gvr) {
            table.log.push(Entry {
                position,
                change: Some((Some(old), None)),
            });
        }
        drop(state);
        self.wake();
        true
    }

    pub(super) fn pass(&self, gvr: &GroupVersionResource, revisions: u64) {
        let mut state = self.state.lock();
        let counter = state
            .table(gvr)
            .map(|table| table.counter)
            .unwrap_or_default();
        let next = state.revision(counter) + revisions;
        state.revisions.insert(counter, next);
    }

    pub(super) fn revision(&self, gvr: &GroupVersionResource) -> u64 {
        let state = self.state.lock();
        let counter = state
            .table(gvr)
            .map(|table| table.counter)
            .unwrap_or_default();
        state.revision(counter)
    }

    pub(super) fn compact(&self, gvr: &GroupVersionResource) {
        let now = self.revision(gvr);
        if let Some(table) = self.state.lock().tables.get_mut(gvr) {
            table.compacted = now;
        }
    }

    pub(super) fn bookmark(&self, gvr: &GroupVersionResource) {
        let position = self.revision(gvr);
        if let Some(table) = self.state.lock().tables.get_mut(gvr) {
            table.log.push(Entry {
                position,
                change: None,
            });
        }
        self.wake();
    }

    pub(super) fn get(
        &self,
        gvr: &GroupVersionResource,
        key: &ObjectKey,
    ) -> Result<Option<Arc<Object>>, UpstreamError> {
        Ok(self.state.lock().table(gvr)?.objects.get(key).cloned())
    }

    pub(super) fn list(
        &self,
        gvr: &GroupVersionResource,
        query: &Query,
    ) -> Result<Page, UpstreamError> {
        let selection = Selection::new(query)?;
        let mut state = self.state.lock();
        let table = state.table(gvr)?;
        let (mut items, position) = match &query.continue_token {
            Some(token) => {
                let page = state.pages.get(token).cloned();
                page.ok_or_else(|| UpstreamError::Expired(format!("no such page: {token}")))?
            }
            None => {
                let selected = table
                    .objects
                    .values()
                    .filter(|object| selection.has(object));
                (selected.cloned().collect(), state.revision(table.counter))
            }
        };
        let mut page = Page {
            position,
            ..Page::default()
        };
        let limit = query.limit as usize;
        if limit > 0 && items.len() > limit {
            let rest = items.split_off(limit);
            page.remaining = Some(rest.len() as u64);
            let token = format!("page-{}", state.pages.len());
            state.pages.insert(token.clone(), (rest, position));
            page.continue_token = Some(token);
        }
        page.items = items;
        Ok(page)
    }

    /// The keys of all that was selected at a position.
    pub(super) fn keys_at(
        &self,
        gvr: &GroupVersionResource,
        query: &Query,
        position: u64,
    ) -> Result<Vec<ObjectKey>, UpstreamError> {
        let selection = Selection::new(query)?;
        self.begin(gvr, position)?;
        let state = self.state.lock();
        let table = state.table(gvr)?;
        let mut objects = table.objects.clone();
        let later = table.log.iter().rev();
        let later = later.take_while(|entry| entry.position > position);
        for (old, new) in later.filter_map(|entry| entry.change.as_ref()) {
            match (old, new) {
                (Some(old), _) => objects.insert(old.key().clone(), old.clone()),
                (None, Some(new)) => objects.remove(new.key()),
                (None, None) => None,
            };
        }
        let selected = objects.values().filter(|object| selection.has(object));
        Ok(selected.map(|object| object.key().clone()).collect())
    }

    /// Where a watch begins in the log.
    pub(super) fn begin(
        &self,
        gvr: &GroupVersionResource,
        after: u64,
    ) -> Result<usize, UpstreamError> {
        let state = self.state.lock();
        let table = state.table(gvr)?;
        if after < table.compacted {
            let why = format!("too old resource version: {after} ({})", table.compacted);
            return Err(UpstreamError::Expired(why));
        }
        Ok(table.log.partition_point(|entry| entry.position <= after))
    }

    /// The next message of a watch, up to a position.
    pub(super) fn read(
        &self,
        gvr: &GroupVersionResource,
        next: &mut usize,
        limit: u64,
        selection: &Selection,
    ) -> Option<UpstreamEvent> {
        let state = self.state.lock();
        let table = state.table(gvr).ok()?;
        while let Some(entry) = table.log.get(*next).filter(|entry| entry.position <= limit) {
            *next += 1;
            let event = match &entry.change {
                None => Some(UpstreamEvent::Bookmark(entry.position)),
                Some((old, new)) => selection.event(old.as_ref(), new.as_ref(), entry.position),
            };
            if event.is_some() {
                return event;
            }
        }
        None
    }

    /// The position of the nth entry of the log after another, or of the last, and how many that are.
    pub(super) fn nth_after(
        &self,
        gvr: &GroupVersionResource,
        after: u64,
        messages: usize,
    ) -> (u64, usize) {
        let state = self.state.lock();
        let Ok(table) = state.table(gvr) else {
            return (after, 0);
        };
        let entries = table.log.iter().filter(|entry| entry.position > after);
        let through: Vec<u64> = entries.take(messages).map(|entry| entry.position).collect();
        (through.last().copied().unwrap_or(after), through.len())
    }
}
