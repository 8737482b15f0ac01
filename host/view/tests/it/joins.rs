//! Joins by configuration: which relations there are, what relates, and what the result shows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use joinery_object::{GroupVersionResource, Status};
use joinery_view::{
    CombineResult, Composed, Group, Join, JoinError, Reach, Relation, Selection, Side, SourceSpec,
    ViewSpec,
};
use parking_lot::Mutex;
use serde_json::Value;

pub(crate) const UID_LABEL: &str = "tasks.example.com/task-uid";

pub(crate) fn tasks() -> GroupVersionResource {
    GroupVersionResource::new("tasks.example.com", "v1", "tasks")
}

pub(crate) fn events() -> GroupVersionResource {
    GroupVersionResource::new("", "v1", "events")
}

pub(crate) fn logs() -> GroupVersionResource {
    GroupVersionResource::new("logs.example.com", "v1", "logs")
}

/// Where an object's keys stand.
#[derive(Clone, Copy)]
pub(crate) enum Keys {
    Uid,
    Label(&'static str),
    /// An array of strings.
    Strings(&'static str),
}

impl Keys {
    fn of(self, object: &Value) -> Vec<String> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        match self {
            Self::Uid => text(&object["metadata"]["uid"]).into_iter().collect(),
            Self::Label(label) => text(&object["metadata"]["labels"][label])
                .into_iter()
                .collect(),
            Self::Strings(pointer) => {
                let values = object.pointer(pointer).and_then(Value::as_array);
                values.into_iter().flatten().filter_map(text).collect()
            }
        }
    }
}

/// What the result shows of its inputs.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Shows {
    /// All bytes.
    Everything,
    /// The names of the children, and those only of a primary that is not `spec.quiet`. Of a primary that is
    /// `spec.hidden` there is no object at all.
    Names,
}

pub(crate) struct NativeJoin {
    spec: ViewSpec,
    keys: Vec<(Keys, Keys)>,
    shows: Shows,
    /// Shown in each object, unless it is 0.
    pub(crate) generation: u32,
    /// See [`Join::related_bytes`].
    pub(crate) related_bytes: usize,
    /// The primaries of all groups that were combined.
    pub(crate) combined: Mutex<Vec<String>>,
    pub(crate) key_calls: AtomicU32,
}

fn source(name: &str, gvr: GroupVersionResource, label_selector: &str) -> SourceSpec {
    SourceSpec {
        name: name.to_owned(),
        gvr,
        label_selector: label_selector.to_owned(),
        field_selector: String::new(),
        reads: Vec::new(),
        optional: false,
    }
}

fn relation(
    name: &str,
    source: usize,
    parent: Option<usize>,
    reach: Reach,
    limit: u32,
) -> Relation {
    Relation {
        name: name.to_owned(),
        source,
        parent,
        reach,
        limit,
    }
}

impl NativeJoin {
    fn new(sources: Vec<SourceSpec>, relations: Vec<Relation>, keys: Vec<(Keys, Keys)>) -> Self {
        Self {
            spec: ViewSpec {
                resource: GroupVersionResource::new(
                    "aggregated.tasks.example.com",
                    "v1",
                    "combinedtasks",
                ),
                kind: "CombinedTask".to_owned(),
                sources,
                relations,
            },
            keys,
            shows: Shows::Everything,
            generation: 0,
            related_bytes: usize::MAX,
            combined: Mutex::default(),
            key_calls: AtomicU32::new(0),
        }
    }

    /// 1:n: the Events of a Task carry its uid.
    pub(crate) fn task_events(limit: u32) -> Self {
        let mut tasks = source("tasks", tasks(), "");
        tasks.reads = vec!["/metadata/labels".to_owned(), "/spec".to_owned()];
        Self::new(
            vec![tasks, source("events", events(), UID_LABEL)],
            vec![relation("events", 1, None, Reach::SameNamespace, limit)],
            vec![(Keys::Uid, Keys::Label(UID_LABEL))],
        )
    }

    /// n:m: a Task and a log are related when they share a word.
    pub(crate) fn task_logs(reach: Reach) -> Self {
        Self::new(
            vec![source("tasks", tasks(), ""), source("logs", logs(), "")],
            vec![relation("logs", 1, None, reach, 1000)],
            vec![(Keys::Strings("/spec/words"), Keys::Strings("/spec/words"))],
        )
    }

    /// Three levels: the Events of a Task, and the logs that share a word with one of them.
    pub(crate) fn task_event_logs() -> Self {
        Self::new(
            vec![
                source("tasks", tasks(), ""),
                source("events", events(), UID_LABEL),
                source("logs", logs(), ""),
            ],
            vec![
                relation("events", 1, None, Reach::SameNamespace, 1000),
                relation("logs", 2, Some(0), Reach::SameNamespace, 1000),
            ],
            vec![
                (Keys::Uid, Keys::Label(UID_LABEL)),
                (Keys::Strings("/spec/words"), Keys::Strings("/spec/words")),
            ],
        )
    }

    pub(crate) fn showing(mut self, shows: Shows) -> Self {
        self.shows = shows;
        self
    }

    pub(crate) fn related_bytes(mut self, bytes: usize) -> Self {
        self.related_bytes = bytes;
        self
    }

    pub(crate) fn generation(mut self, generation: u32) -> Self {
        self.generation = generation;
        self
    }

    /// The primaries that were combined since the last call, sorted.
    pub(crate) fn take_combined(&self) -> Vec<String> {
        let mut combined = std::mem::take(&mut *self.combined.lock());
        combined.sort();
        combined
    }

    fn combine_one(&self, group: &Group) -> Result<CombineResult, JoinError> {
        let primary = read(&group.primary);
        let children = || group.branches.iter().flat_map(|b| &b.objects).map(read);
        let marked = |object: &Value| object["spec"]["trap"] == true;
        if marked(&primary) || children().any(|child| marked(&child)) {
            return Err(JoinError::Trapped("unreachable".to_owned()));
        }
        if primary["spec"]["refuse"] == true {
            return Ok(Err(Status::bad_request("refused")));
        }
        let mut text = String::from(
            "{\"apiVersion\":\"aggregated.tasks.example.com/v1\",\"kind\":\"CombinedTask\",\"metadata\":{",
        );
        for name in ["name", "namespace", "uid"] {
            if let Some(value) = primary["metadata"][name].as_str() {
                text += &format!("\"{name}\":\"{value}\",");
            }
        }
        text += &format!("\"labels\":{}}}", primary["metadata"]["labels"]);
        if self.generation > 0 {
            text += &format!(",\"generation\":{}", self.generation);
        }
        let mut inserts = Vec::new();
        match self.shows {
            Shows::Names => {
                if primary["spec"]["hidden"] == true {
                    return Ok(Ok(None));
                }
                let names: Vec<_> = children().map(|c| c["metadata"]["name"].clone()).collect();
                if primary["spec"]["quiet"] != true {
                    text += &format!(",\"names\":{}", Value::from(names));
                }
            }
            Shows::Everything => {
                text += ",\"task\":";
                inserts.push((text.len() as u32, 0));
                let mut input = 1;
                for branch in &group.branches {
                    text += &format!(",\"omitted{input}\":{},\"of{input}\":[", branch.omitted);
                    for (index, _) in branch.objects.iter().enumerate() {
                        if index > 0 {
                            text.push(',');
                        }
                        let parents = branch.parents.get(index).cloned().unwrap_or_default();
                        text += &format!("{{\"parents\":{},\"object\":", Value::from(parents));
                        inserts.push((text.len() as u32, input));
                        text.push('}');
                        input += 1;
                    }
                    text.push(']');
                }
            }
        }
        text.push('}');
        Ok(Ok(Some(Composed {
            text: text.into(),
            inserts,
        })))
    }
}

fn read(bytes: &Bytes) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[async_trait]
impl Join for NativeJoin {
    fn spec(&self) -> &ViewSpec {
        &self.spec
    }

    fn related_bytes(&self) -> usize {
        self.related_bytes
    }

    async fn keys(
        &self,
        relation: usize,
        side: Side,
        objects: Vec<Bytes>,
    ) -> Result<Vec<Vec<String>>, JoinError> {
        self.key_calls.fetch_add(1, Ordering::Relaxed);
        let objects: Vec<Value> = objects.iter().map(read).collect();
        if objects
            .iter()
            .any(|object| object["spec"]["trapKeys"] == true)
        {
            return Err(JoinError::Trapped("no keys".to_owned()));
        }
        let (parent, child) = self.keys[relation];
        let keys = match side {
            Side::Parent => parent,
            Side::Child => child,
        };
        Ok(objects.iter().map(|object| keys.of(object)).collect())
    }

    async fn query(&self, relation: usize, keys: Vec<String>) -> Result<Selection, JoinError> {
        Ok(match self.keys[relation].1 {
            Keys::Label(label) => Selection::Selector {
                label_selector: format!("{label} in ({})", keys.join(",")),
                field_selector: String::new(),
            },
            _ => Selection::All,
        })
    }

    async fn combine(&self, groups: Vec<Group>) -> Result<Vec<CombineResult>, JoinError> {
        let names = groups.iter().map(|group| {
            let primary = read(&group.primary);
            primary["metadata"]["name"].as_str().unwrap().to_owned()
        });
        self.combined.lock().extend(names);
        groups.iter().map(|group| self.combine_one(group)).collect()
    }
}

/// As the engine takes it.
pub(crate) fn shared(join: NativeJoin) -> Arc<NativeJoin> {
    Arc::new(join)
}
