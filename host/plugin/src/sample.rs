//! Whether a view answers alike each time it is asked.
//!
//! Two instances are asked about made-up objects, one of them twice. The objects have many labels and fields, so that
//! whoever walks over a hash map, or counts calls, shows it. A guest may fail on them, as long as it always does.

use bytes::Bytes;
use joinery_view::{Branch, Group, Side, SourceSpec, ViewSpec};
use serde_json::{Map, Value, json};

use crate::pool::Instance;

/// Objects of each source.
const OBJECTS: usize = 3;

/// Everything a plugin answers to the sample, in words that can be compared: one line a question.
pub(crate) async fn answers(
    instance: &mut Instance,
    views: &[ViewSpec],
) -> wasmtime::Result<Vec<String>> {
    let mut answers = Vec::new();
    let Instance { store, exports, .. } = instance;
    let declared = exports.describe(store).await?;
    answers.push(format!("describe: {declared:?}"));
    for view in views {
        let objects: Vec<Vec<Bytes>> = view.sources.iter().map(objects).collect();
        for relation in &view.relations {
            let name = &relation.name;
            let parent = relation
                .parent
                .map_or(0, |parent| view.relations[parent].source);
            let keys = exports
                .keys(store, name, Side::Parent, &objects[parent])
                .await?;
            answers.push(format!("keys of {name}: {keys:?}"));
            let child = exports
                .keys(store, name, Side::Child, &objects[relation.source])
                .await?;
            answers.push(format!("keys of {name}: {child:?}"));
            let query = exports.query(store, name, &keys.concat()).await?;
            answers.push(format!("query of {name}: {query:?}"));
        }
        let groups = groups(view, &objects);
        let combined = exports.combine(store, &view.resource, &groups).await?;
        answers.push(format!("combine of {}: {combined:?}", view.resource));
    }
    Ok(answers)
}

fn groups(view: &ViewSpec, objects: &[Vec<Bytes>]) -> Vec<Group> {
    let branch = |relation: &joinery_view::Relation| {
        let objects = objects[relation.source].clone();
        let parents = match relation.parent {
            None => vec![Vec::new(); objects.len()],
            Some(_) => vec![vec![0]; objects.len()],
        };
        Branch {
            objects,
            parents,
            omitted: 1,
        }
    };
    let group = |primary: &Bytes| Group {
        primary: primary.clone(),
        branches: view.relations.iter().map(branch).collect(),
    };
    objects[0].iter().map(group).collect()
}

/// Objects that have something at each pointer that the source reads.
fn objects(source: &SourceSpec) -> Vec<Bytes> {
    let many = |of: &str| -> Map<String, Value> {
        (0..12)
            .map(|n| (format!("{of}-{n}"), Value::from(format!("{of}-value-{n}"))))
            .collect()
    };
    let object = |n: usize| {
        let mut object = json!({
            "apiVersion": source.gvr.api_version(),
            "kind": "Sample",
            "metadata": {
                "name": format!("{}-{n}", source.name),
                "namespace": "sample",
                "uid": format!("00000000-0000-4000-8000-00000000000{n}"),
                "resourceVersion": format!("{}", n + 1),
                "creationTimestamp": format!("2026-01-0{}T00:00:00Z", n + 1),
                "labels": many("label"),
                "annotations": many("annotation"),
            },
            "spec": many("spec"),
            "status": many("status"),
        });
        for pointer in &source.reads {
            fill(&mut object, pointer, n);
        }
        // Values and strings only: this cannot fail.
        Bytes::from(object.to_string())
    };
    (0..OBJECTS).map(object).collect()
}

/// Puts something where the pointer leads, unless there is something already.
fn fill(object: &mut Value, pointer: &str, n: usize) {
    let mut at = object;
    for name in pointer.split('/').skip(1) {
        let name = name.replace("~1", "/").replace("~0", "~");
        let Value::Object(fields) = at else { return };
        at = fields
            .entry(name)
            .or_insert_with(|| Value::Object(Map::new()));
    }
    if matches!(at, Value::Object(fields) if fields.is_empty()) {
        let time = pointer.ends_with("Time") || pointer.ends_with("Timestamp");
        *at = if time {
            Value::from(format!("2026-01-1{n}T00:00:00Z"))
        } else {
            Value::from(format!("value-{n}"))
        };
    }
}
