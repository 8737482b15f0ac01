//! A guest for the tests of the host. It serves a view and a stored resource; its settings say how its description is
//! wrong or how it is impure, and the names of the objects that it is given how it misbehaves.

mod misbehave;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use joinery_sdk::{
    Admission, ApiResource, Column, Composed, Composer, Description, Failure, Group,
    GroupVersionResource, Kubernetes, ListOptions, Plugin, Reach, Relation, Review, Selection,
    Shape, Side, Source, Verdict, View, ViewShape, parse_settings,
};
use serde::Deserialize;
use serde_json::Value;

/// The plugin.
pub struct TestGuest {
    settings: Settings,
    calls: AtomicU64,
}

/// Each is optional.
#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    /// `refuse`, or one of [`misbehave`]'s words.
    configure: String,
    /// One of [`misbehave`]'s words.
    describe: String,
    /// `hash`, `counter` or `random`.
    impure: String,
    group: String,
    version: String,
    /// Its things are described in this version too.
    second_version: Option<String>,
    plural: String,
    categories: Vec<String>,
    schema: String,
    column_type: String,
    selectable: Vec<String>,
    primary: String,
    parent: Option<String>,
    limit: u32,
    any_namespace: bool,
    label_selector: String,
    reads: Vec<String>,
    options: Vec<(String, String)>,
    /// Without resources at all.
    nothing: bool,
    /// Told in what `combine` makes.
    generation: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            configure: String::new(),
            describe: String::new(),
            impure: String::new(),
            group: "test.example.com".into(),
            version: "v1".into(),
            second_version: None,
            plural: "things".into(),
            categories: Vec::new(),
            schema: r#"{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"}}}}}"#
                .into(),
            column_type: "integer".into(),
            selectable: vec![".spec.size".into()],
            primary: "pods".into(),
            parent: None,
            limit: 10,
            any_namespace: false,
            label_selector: String::new(),
            reads: Vec::new(),
            options: Vec::new(),
            nothing: false,
            generation: 0,
        }
    }
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    labels: HashMap<String, String>,
}

fn read(object: &[u8]) -> Metadata {
    match serde_json::from_slice::<Object>(object) {
        Ok(object) => object.metadata,
        Err(error) => panic!("unreadable: {error}"),
    }
}

impl Plugin for TestGuest {
    fn configure(settings: &str) -> Result<Self, String> {
        let settings: Settings = parse_settings(settings)?;
        if settings.configure == "refuse" {
            return Err("these settings are refused".into());
        }
        misbehave::as_told(&settings.configure);
        Ok(Self {
            settings,
            calls: AtomicU64::new(0),
        })
    }

    fn describe(&self) -> Description {
        misbehave::as_told(&self.settings.describe);
        if self.settings.nothing {
            return Description::default();
        }
        let s = &self.settings;
        let base = ApiResource {
            group: s.group.clone(),
            version: s.version.clone(),
            namespaced: true,
            schema: s.schema.clone(),
            categories: s.categories.clone(),
            columns: vec![Column::new("Size", &s.column_type, ".spec.size", "")],
            selectable_fields: s.selectable.clone(),
            options: s.options.clone(),
            ..ApiResource::default()
        };
        let relation = |name: &str, parent| Relation {
            name: name.into(),
            source: "secrets".into(),
            parent,
            reach: if s.any_namespace {
                Reach::AnyNamespace
            } else {
                Reach::SameNamespace
            },
            limit: s.limit,
        };
        let view = ViewShape {
            primary: s.primary.clone(),
            relations: vec![
                relation("uses", None),
                relation("further", s.parent.clone()),
            ],
        };
        let source = |name: &str| Source {
            name: name.into(),
            gvr: GroupVersionResource::new("", "v1", name),
            label_selector: s.label_selector.clone(),
            reads: s.reads.clone(),
            ..Source::default()
        };
        let things = ApiResource {
            kind: "Thing".into(),
            plural: s.plural.clone(),
            shape: Shape::View(view),
            ..base.clone()
        };
        let items = ApiResource {
            kind: "Item".into(),
            plural: "items".into(),
            shape: Shape::Stored,
            ..base
        };
        let again = s.second_version.clone().map(|version| ApiResource {
            version,
            ..things.clone()
        });
        Description {
            resources: [things, items].into_iter().chain(again).collect(),
            sources: vec![source("secrets"), source("pods")],
        }
    }
}

impl View for TestGuest {
    fn keys(&self, relation: &str, side: Side, object: &[u8]) -> Vec<String> {
        let metadata = read(object);
        misbehave::as_told(&metadata.name);
        match self.settings.impure.as_str() {
            // A hash map walks in another order each time it is made.
            "hash" => return metadata.labels.into_keys().collect(),
            "counter" => return vec![self.calls.fetch_add(1, Ordering::Relaxed).to_string()],
            "random" => return vec![misbehave::random().to_string()],
            _ => {}
        }
        if metadata.name == "giant" {
            return vec![misbehave::giant()];
        }
        vec![format!("{relation} {side:?} {}", metadata.name)]
    }

    fn query(&self, _relation: &str, keys: &[String]) -> Selection {
        if let Some(key) = keys.first() {
            misbehave::as_told(key);
        }
        Selection::All
    }

    fn combine(&self, resource: &str, group: &Group) -> Result<Option<Composed>, Failure> {
        let metadata = read(&group.primary);
        misbehave::as_told(&metadata.name);
        match metadata.name.as_str() {
            "none" => return Ok(None),
            "refused" => return Err(Failure::new("Forbidden", "this one is not shown")),
            "odd" => return Err(Failure::new("Odd", "no such reason")),
            _ => {}
        }
        if let Some(text) = misbehave::result(&metadata.name, &metadata.uid) {
            return Ok(Some(Composed {
                text,
                inserts: Vec::new(),
            }));
        }
        let mut out = Composer::new();
        out.begin_object();
        out.key("of").string(&metadata.name);
        out.key("resource").string(resource);
        out.key("generation").integer(self.settings.generation);
        out.key("children").begin_array();
        for (index, branch) in group.branches.iter().enumerate() {
            for position in 0..branch.objects.len() {
                out.insert(group.input(index, position));
            }
        }
        out.end_array();
        out.key("omitted")
            .integer(group.branches.iter().map(|b| b.omitted).sum::<u64>());
        out.end_object();
        Ok(Some(out.finish()))
    }
}

impl Admission for TestGuest {
    /// Says what it was told and what it found, in the place of the object.
    fn admit(
        &self,
        resource: &str,
        review: &Review,
        kubernetes: &dyn Kubernetes,
    ) -> Result<Verdict, Failure> {
        misbehave::as_told(&review.key.name);
        if review.key.name == "refused" {
            let cause = joinery_sdk::Cause::required("spec.size", "say how large");
            return Err(Failure::invalid("Item \"refused\"", vec![cause]));
        }
        let gvr = GroupVersionResource::new("test.example.com", "v1", "items");
        let found = kubernetes.get(&gvr, &review.key)?;
        let list = kubernetes.list(
            &gvr,
            &ListOptions {
                limit: 2,
                ..ListOptions::default()
            },
        )?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let object = serde_json::json!({
            "resource": resource,
            "operation": format!("{:?}", review.operation),
            "user": review.user.name,
            "groups": review.user.groups,
            "now": review.now,
            "found": found.map(text),
            "listed": list.items.into_iter().map(text).collect::<Vec<_>>(),
            "truncated": list.truncated,
            "object": review.object.clone().map(text).map_or(Value::Null, Value::from),
        });
        Ok(Verdict {
            object: Some(object.to_string().into_bytes()),
            warnings: vec!["mind".into()],
        })
    }
}

joinery_sdk::export_view_and_admission!(TestGuest);
