//! The recipes of docs/plugins/recipes.md, one module each, as three views of one plugin.
//!
//! They are written for reading: each object is parsed whole. Where thousands of objects are joined, do as
//! `plugins/combined-tasks` does: borrow what is needed, and insert the rest by reference.

mod enrichment;
mod many_to_many;
mod nested;

use joinery_sdk::{
    ApiResource, Column, Composed, Description, Failure, Group, GroupVersionResource, Plugin,
    Relation, Selection, Shape, Side, Source, View, ViewShape,
};
use serde_json::{Value, json};

const GROUP: &str = "recipes.example.com";

/// The plugin; there is nothing to set.
pub struct Recipes;

impl Plugin for Recipes {
    fn configure(_settings: &str) -> Result<Self, String> {
        Ok(Self)
    }

    fn describe(&self) -> Description {
        Description {
            resources: vec![
                many_to_many::resource(),
                nested::resource(),
                enrichment::resource(),
            ],
            // One source may stand in the views of several.
            sources: vec![
                source("", "configmaps", &[]),
                source("apps", "deployments", &[]),
                source("", "events", &["/involvedObject/uid", "/type"]),
                source("", "nodes", &["/metadata/labels"]),
                source(
                    "",
                    "pods",
                    &[
                        "/metadata/ownerReferences",
                        "/spec/nodeName",
                        "/spec/volumes",
                        "/status/phase",
                    ],
                ),
                source(
                    "apps",
                    "replicasets",
                    &["/metadata/annotations", "/metadata/ownerReferences"],
                ),
            ],
        }
    }
}

impl View for Recipes {
    fn keys(&self, relation: &str, side: Side, object: &[u8]) -> Vec<String> {
        let object = parsed(object);
        match relation {
            many_to_many::USERS => many_to_many::keys(side, &object),
            nested::REPLICA_SETS | nested::PODS => nested::keys(side, &object),
            enrichment::EVENTS => enrichment::event_keys(side, &object),
            enrichment::NODE => enrichment::node_keys(side, &object),
            _ => Vec::new(),
        }
    }

    fn query(&self, relation: &str, keys: &[String]) -> Selection {
        match relation {
            enrichment::NODE => enrichment::node_query(keys),
            // Too much rather than too little: what is not related by its keys, the host leaves out.
            _ => Selection::All,
        }
    }

    fn combine(&self, resource: &str, group: &Group) -> Result<Option<Composed>, Failure> {
        let primary = parsed(&group.primary);
        let (kind, status) = match resource {
            "configmapuses" => ("ConfigMapUse", many_to_many::status(group)),
            "rollouts" => ("Rollout", nested::status(group)),
            _ => ("PodPlacement", enrichment::status(&primary, group)),
        };
        let object = json!({
            "apiVersion": format!("{GROUP}/v1"),
            "kind": kind,
            // The view's object is its primary's: the same namespace, name and uid.
            "metadata": {
                "namespace": primary["metadata"]["namespace"],
                "name": primary["metadata"]["name"],
                "uid": primary["metadata"]["uid"],
            },
            "status": status,
        });
        Ok(Some(Composed {
            text: object.to_string().into_bytes(),
            inserts: Vec::new(),
        }))
    }
}

joinery_sdk::export_view!(Recipes);

/// A view with these relations. The name of a relation's source is the plural of its resource.
fn view(
    kind: &str,
    plural: &str,
    columns: Vec<Column>,
    primary: &str,
    relations: Vec<Relation>,
) -> ApiResource {
    let schema = json!({"type": "object", "properties": {
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    ApiResource {
        group: GROUP.into(),
        version: "v1".into(),
        kind: kind.into(),
        plural: plural.into(),
        namespaced: true,
        schema: schema.to_string(),
        columns,
        shape: Shape::View(ViewShape {
            primary: primary.into(),
            relations,
        }),
        ..ApiResource::default()
    }
}

fn source(group: &str, plural: &str, reads: &[&str]) -> Source {
    let nothing_else = ["/metadata/name"];
    let reads = if reads.is_empty() {
        &nothing_else[..]
    } else {
        reads
    };
    Source {
        name: plural.into(),
        gvr: GroupVersionResource::new(group, "v1", plural),
        reads: reads.iter().map(|pointer| (*pointer).into()).collect(),
        ..Source::default()
    }
}

fn parsed(object: &[u8]) -> Value {
    // The host gives objects; one that is none is related to nothing.
    serde_json::from_slice(object).unwrap_or_default()
}

/// The text at a JSON pointer.
fn text(object: &Value, pointer: &str) -> Option<String> {
    Some(object.pointer(pointer)?.as_str()?.to_owned())
}

/// What the items of the array at `items` have at `pointer`.
fn each(object: &Value, items: &str, pointer: &str) -> Vec<String> {
    let items = object.pointer(items).and_then(Value::as_array);
    items
        .into_iter()
        .flatten()
        .filter_map(|item| text(item, pointer))
        .collect()
}
