//! Enrichment: a Pod and its Events, and from a third resource, its Node, where it runs.

use joinery_sdk::{ApiResource, Column, Group, ObjectKey, Reach, Relation, Selection, Side};
use serde_json::{Value, json};

use crate::{parsed, text, view};

pub(crate) const EVENTS: &str = "events-of-pods";
pub(crate) const NODE: &str = "node";
const ZONE: &str = "topology.kubernetes.io/zone";

pub(crate) fn resource() -> ApiResource {
    let columns = vec![
        Column::new("Phase", "string", ".status.phase", "Of the Pod."),
        Column::new("Zone", "string", ".status.zone", "Of its Node."),
        Column::new(
            "Warnings",
            "integer",
            ".status.warnings",
            "Events of type Warning.",
        ),
    ];
    let events = Relation {
        name: EVENTS.into(),
        source: "events".into(),
        limit: 100,
        ..Relation::default()
    };
    let node = Relation {
        name: NODE.into(),
        source: "nodes".into(),
        // A Node is in no namespace. The operator must allow it: `anyNamespace: [node]`.
        reach: Reach::AnyNamespace,
        limit: 1,
        ..Relation::default()
    };
    view(
        "PodPlacement",
        "podplacements",
        columns,
        "pods",
        vec![events, node],
    )
}

pub(crate) fn event_keys(side: Side, object: &Value) -> Vec<String> {
    let pointer = match side {
        Side::Parent => "/metadata/uid",
        Side::Child => "/involvedObject/uid",
    };
    text(object, pointer).into_iter().collect()
}

/// One Node has many Pods: each Pod that is scheduled asks for its Node by name.
pub(crate) fn node_keys(side: Side, object: &Value) -> Vec<String> {
    let pointer = match side {
        Side::Parent => "/spec/nodeName",
        Side::Child => "/metadata/name",
    };
    text(object, pointer).into_iter().collect()
}

/// Live reading only: the Nodes of these Pods by name, and not all Nodes.
pub(crate) fn node_query(keys: &[String]) -> Selection {
    let named = |name: &String| ObjectKey {
        namespace: None,
        name: name.clone(),
    };
    Selection::Names(keys.iter().map(named).collect())
}

pub(crate) fn status(pod: &Value, group: &Group) -> Value {
    let [events, node] = &group.branches[..] else {
        return Value::Null;
    };
    let events = events.objects.iter().map(|event| parsed(event));
    let warnings = events.filter(|event| event["type"] == "Warning").count();
    // Not scheduled yet, or its Node is gone: the view shows the Pod all the same.
    let zone = node
        .objects
        .first()
        .map(|node| parsed(node)["metadata"]["labels"][ZONE].clone());
    json!({"phase": pod["status"]["phase"], "zone": zone.unwrap_or_default(), "warnings": warnings})
}

#[cfg(test)]
mod tests {
    use joinery_sdk::Branch;

    use super::*;

    #[test]
    fn a_pod_without_a_node_is_shown_without_a_zone() {
        let group = Group {
            branches: vec![Branch::default(), Branch::default()],
            ..Group::default()
        };
        let pod = json!({"status": {"phase": "Pending"}});
        let shown = status(&pod, &group);
        assert_eq!(
            shown,
            json!({"phase": "Pending", "zone": null, "warnings": 0})
        );
        assert!(node_keys(Side::Parent, &pod).is_empty());
    }

    #[test]
    fn nodes_are_asked_for_by_name() {
        let Selection::Names(names) = node_query(&["a".into(), "b".into()]) else {
            panic!("by name");
        };
        assert_eq!(names[1].name, "b");
        assert_eq!(names[1].namespace, None);
    }
}
