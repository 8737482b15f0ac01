//! Many to many: a Pod mounts several ConfigMaps, and a ConfigMap is mounted by several Pods.

use joinery_sdk::{ApiResource, Column, Group, Relation, Side};
use serde_json::{Value, json};

use crate::{each, parsed, text, view};

pub(crate) const USERS: &str = "users";

pub(crate) fn resource() -> ApiResource {
    let columns = vec![Column::new(
        "Pods",
        "integer",
        ".status.pods",
        "Mounted by so many.",
    )];
    let users = Relation {
        name: USERS.into(),
        source: "pods".into(),
        limit: 1_000,
        ..Relation::default()
    };
    view(
        "ConfigMapUse",
        "configmapuses",
        columns,
        "configmaps",
        vec![users],
    )
}

pub(crate) fn keys(side: Side, object: &Value) -> Vec<String> {
    match side {
        // A ConfigMap goes by its name. That both are in one namespace, the host sees to.
        Side::Parent => text(object, "/metadata/name").into_iter().collect(),
        // A Pod goes by the names of all that it mounts.
        Side::Child => each(object, "/spec/volumes", "/configMap/name"),
    }
}

pub(crate) fn status(group: &Group) -> Value {
    let pods = group.branches[0].objects.iter().map(|pod| parsed(pod));
    let names: Vec<_> = pods
        .filter_map(|pod| text(&pod, "/metadata/name"))
        .collect();
    json!({"pods": names.len(), "usedBy": names})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_related_to_each_config_map_that_it_mounts() {
        let volumes =
            json!([{"configMap": {"name": "a"}}, {"emptyDir": {}}, {"configMap": {"name": "b"}}]);
        let pod = json!({"spec": {"volumes": volumes}});
        assert_eq!(keys(Side::Child, &pod), ["a", "b"]);
        assert_eq!(
            keys(Side::Parent, &json!({"metadata": {"name": "a"}})),
            ["a"]
        );
        assert!(keys(Side::Child, &json!({})).is_empty());
    }
}
