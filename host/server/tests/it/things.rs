//! A resource in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use joinery_object::{
    Bounds, Change, DeleteOptions, GroupVersionResource, History, ListOptions, Object, ObjectKey,
    PatchOptions, ResourceVersion, Status, WriteOptions, json_patch, merge_patch,
};
use joinery_resource::{
    Caller, Definition, List, PatchType, Resource, Watch, WatchItem, Written, follow,
};
use joinery_schema::{Column, ColumnType, Columns};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Namespaced things with all verbs, or cluster-scoped ones that can only be read.
pub struct Things {
    definition: Arc<Definition>,
    state: Mutex<State>,
    history: Arc<History>,
}

struct State {
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    version: u64,
}

pub const ALL_VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

impl Things {
    pub fn new(plural: &str, kind: &str, namespaced: bool, verbs: &[&'static str]) -> Arc<Self> {
        let column = |name: &str, column_type, path: &str| Column {
            name: name.to_owned(),
            column_type,
            format: String::new(),
            description: String::new(),
            json_path: path.to_owned(),
            priority: 0,
        };
        let columns = Columns::compile(&[
            column("Size", ColumnType::Integer, ".spec.size"),
            column("Age", ColumnType::Date, ".metadata.creationTimestamp"),
        ])
        .unwrap();
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "description": "What it should be.", "properties": {"size": {"type": "integer"}}},
            "status": {"type": "object", "properties": {"used": {"type": "integer"}}},
        }});
        Arc::new(Self {
            definition: Arc::new(Definition {
                gvr: GroupVersionResource::new("test.example.com", "v1", plural),
                kind: kind.to_owned(),
                list_kind: format!("{kind}List"),
                singular: kind.to_lowercase(),
                short_names: vec![format!("{}x", &plural[..2])],
                categories: Vec::new(),
                namespaced,
                verbs: verbs.to_vec(),
                status_subresource: verbs.contains(&"update"),
                schema: schema.to_string().into(),
                columns,
                selectable_fields: vec![".spec.size".to_owned()],
            }),
            state: Mutex::new(State {
                objects: BTreeMap::new(),
                version: 1000,
            }),
            history: Arc::new(History::new(
                ResourceVersion::single(1000),
                Bounds::default(),
            )),
        })
    }

    pub fn put(&self, namespace: Option<&str>, name: &str, size: u64) {
        let object = json!({"metadata": {"name": name, "namespace": namespace, "labels": {"size": size.to_string()}},
            "spec": {"size": size}});
        self.write(object);
    }

    /// As [`Things::put`], with a longer text in it.
    pub fn put_text(&self, namespace: Option<&str>, name: &str, text: &str) {
        let object = json!({"metadata": {"name": name, "namespace": namespace}, "spec": {"size": 1, "text": text}});
        self.write(object);
    }

    fn write(&self, mut object: Value) -> Arc<Object> {
        let mut state = self.state.lock();
        state.version += 1;
        object["kind"] = self.definition.kind.clone().into();
        object["apiVersion"] = self.definition.gvr.api_version().into();
        object["metadata"]["resourceVersion"] = state.version.to_string().into();
        object["metadata"]["uid"] = "11111111-0000-0000-0000-000000000000".into();
        object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
        if object["metadata"]["namespace"].is_null() {
            object["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("namespace");
        }
        let object = Arc::new(Object::parse(object.to_string().into()).unwrap());
        let old = state.objects.insert(object.key().clone(), object.clone());
        self.tell(&state, old, Some(object.clone()));
        object
    }

    fn tell(&self, state: &State, old: Option<Arc<Object>>, new: Option<Arc<Object>>) {
        let position = ResourceVersion::single(state.version);
        let change = Change::new(position.clone(), &[state.version], old, new);
        self.history.append([Arc::new(change)], position);
    }

    fn selected(&self, namespace: Option<&str>, options: &ListOptions) -> (Vec<Arc<Object>>, u64) {
        let state = self.state.lock();
        let selects = selection(namespace, options);
        let items = state
            .objects
            .values()
            .filter(|o| selects(o))
            .cloned()
            .collect();
        (items, state.version)
    }

    fn find(&self, key: &ObjectKey) -> Result<Arc<Object>, Status> {
        let found = self.state.lock().objects.get(key).cloned();
        found.ok_or_else(|| Status::not_found(&self.definition.gvr, &key.name))
    }

    fn remove(&self, key: &ObjectKey) -> Result<Arc<Object>, Status> {
        let object = self.find(key)?;
        let mut state = self.state.lock();
        state.version += 1;
        state.objects.remove(key);
        self.tell(&state, Some(object.clone()), None);
        Ok(object)
    }
}

fn selection(
    namespace: Option<&str>,
    options: &ListOptions,
) -> impl Fn(&Object) -> bool + Send + Sync + 'static {
    let namespace = namespace.map(str::to_owned);
    let (labels, fields) = (
        options.label_selector.clone(),
        options.field_selector.clone(),
    );
    move |object| {
        namespace
            .as_deref()
            .is_none_or(|n| object.key().namespace.as_deref() == Some(n))
            && labels.matches(|key| object.label(key))
            && fields.matches(|field| match field {
                "metadata.name" => Some(&*object.key().name),
                "metadata.namespace" => object.key().namespace.as_deref(),
                _ => None,
            })
    }
}

fn written(object: Arc<Object>, created: bool) -> Written {
    Written {
        object,
        created,
        removed: false,
        warnings: Vec::new(),
    }
}

#[async_trait]
impl Resource for Things {
    fn definition(&self) -> Arc<Definition> {
        self.definition.clone()
    }

    async fn get(
        &self,
        _: &Caller,
        key: &ObjectKey,
        _: Option<&str>,
    ) -> Result<Arc<Object>, Status> {
        match &*key.name {
            "panic" => panic!("on purpose"),
            "slow" => tokio::time::sleep(Duration::from_secs(600)).await,
            "unavailable" => return Err(Status::service_unavailable("not now").with_retry_after(7)),
            "trap" => return Err(Status::internal("the plugin trapped")),
            _ => {}
        }
        self.find(key)
    }

    async fn list(
        &self,
        _: &Caller,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<List, Status> {
        let (items, version) = self.selected(namespace, options);
        Ok(List {
            items,
            resource_version: ResourceVersion::single(version),
            continue_token: None,
            remaining: None,
            warnings: vec!["one was left out".to_owned()],
        })
    }

    async fn watch(
        &self,
        _: &Caller,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<Watch, Status> {
        let (items, version) = self.selected(namespace, options);
        let position = ResourceVersion::single(version);
        let selects = selection(namespace, options);
        let (head, follower) = match options.resource_version.as_deref() {
            Some(asked) if asked != "0" && options.send_initial_events != Some(true) => {
                let asked = ResourceVersion::parse(asked, 1)
                    .map_err(|e| Status::bad_request(e.to_string()))?;
                let (missed, follower) = self
                    .history
                    .since(&asked)
                    .map_err(|e| Status::expired(e.to_string()))?;
                let head = missed
                    .iter()
                    .filter_map(|change| event(change, &selects))
                    .collect();
                (head, follower)
            }
            _ => {
                let mut head: Vec<_> = items.into_iter().map(added).collect();
                if options.send_initial_events == Some(true) {
                    head.push(WatchItem::Bookmark {
                        version: position.clone(),
                        initial_events_end: true,
                    });
                }
                (head, self.history.follow())
            }
        };
        Ok(follow(head, position, follower, selects, options))
    }

    async fn create(
        &self,
        _: &Caller,
        namespace: Option<&str>,
        name: Option<&str>,
        body: Bytes,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let mut object: Value =
            serde_json::from_slice(&body).map_err(|e| Status::bad_request(e.to_string()))?;
        if let Some(name) = name {
            object["metadata"]["name"] = name.into();
        }
        object["metadata"]["namespace"] = namespace.into();
        object["metadata"]["annotations"]["manager"] = options.field_manager.clone().into();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let key = ObjectKey::new(namespace, name);
        if self.find(&key).is_ok() {
            return Err(Status::already_exists(&self.definition.gvr, &key.name));
        }
        Ok(Written {
            warnings: vec!["unknown field \"spec.x\"".to_owned()],
            ..written(self.write(object), true)
        })
    }

    async fn update(
        &self,
        _: &Caller,
        key: &ObjectKey,
        _: Option<&str>,
        body: Bytes,
        _: &WriteOptions,
    ) -> Result<Written, Status> {
        let object: Value =
            serde_json::from_slice(&body).map_err(|e| Status::bad_request(e.to_string()))?;
        let old = self.find(key)?;
        match object["metadata"]["resourceVersion"].as_str() {
            Some(version) if version == old.resource_version().to_string() => {
                Ok(written(self.write(object), false))
            }
            _ => Err(Status::modified(&self.definition.gvr, &key.name)),
        }
    }

    async fn patch(
        &self,
        _: &Caller,
        key: &ObjectKey,
        _: Option<&str>,
        patch: PatchType,
        body: Bytes,
        _: &PatchOptions,
    ) -> Result<Written, Status> {
        let mut object: Value = serde_json::from_slice(&self.find(key)?.bytes()).unwrap();
        match patch {
            PatchType::Json => json_patch(&mut object, &body)?,
            PatchType::Merge | PatchType::Strategic | PatchType::Apply => {
                merge_patch(&mut object, &body)?
            }
        }
        Ok(written(self.write(object), false))
    }

    async fn delete(
        &self,
        _: &Caller,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<Written, Status> {
        let object = if options.dry_run {
            self.find(key)?
        } else {
            self.remove(key)?
        };
        Ok(Written {
            removed: true,
            ..written(object, false)
        })
    }

    async fn delete_collection(
        &self,
        _: &Caller,
        namespace: Option<&str>,
        selection: &ListOptions,
        _: &DeleteOptions,
    ) -> Result<List, Status> {
        let (items, version) = self.selected(namespace, selection);
        for item in &items {
            self.remove(item.key())?;
        }
        Ok(List {
            items,
            resource_version: ResourceVersion::single(version),
            continue_token: None,
            remaining: None,
            warnings: Vec::new(),
        })
    }
}

fn added(object: Arc<Object>) -> WatchItem {
    WatchItem::Event {
        kind: joinery_object::EventType::Added,
        object,
        change: None,
    }
}

fn event(change: &Arc<Change>, selects: &impl Fn(&Object) -> bool) -> Option<WatchItem> {
    let (kind, object) = change.event(selects)?;
    Some(WatchItem::Event {
        kind,
        object,
        change: Some(change.clone()),
    })
}
