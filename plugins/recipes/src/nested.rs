//! Nested relations: the ReplicaSets of a Deployment, and of each of them its Pods.

use joinery_sdk::{ApiResource, Column, Group, Relation, Side};
use serde_json::{Value, json};

use crate::{each, parsed, text, view};

pub(crate) const REPLICA_SETS: &str = "replica-sets";
pub(crate) const PODS: &str = "pods-of-replica-sets";

pub(crate) fn resource() -> ApiResource {
    let columns = vec![Column::new(
        "Revisions",
        "integer",
        ".status.count",
        "ReplicaSets.",
    )];
    let replica_sets = Relation {
        name: REPLICA_SETS.into(),
        source: "replicasets".into(),
        limit: 20,
        ..Relation::default()
    };
    let pods = Relation {
        name: PODS.into(),
        source: "pods".into(),
        // Children of children: their parents are what the relation of this name has found.
        parent: Some(REPLICA_SETS.into()),
        limit: 500,
        ..Relation::default()
    };
    view(
        "Rollout",
        "rollouts",
        columns,
        "deployments",
        vec![replica_sets, pods],
    )
}

/// The same on both levels: whoever owns goes by its uid, whoever is owned by its owners' uids.
pub(crate) fn keys(side: Side, object: &Value) -> Vec<String> {
    match side {
        Side::Parent => text(object, "/metadata/uid").into_iter().collect(),
        Side::Child => each(object, "/metadata/ownerReferences", "/uid"),
    }
}

pub(crate) fn status(group: &Group) -> Value {
    let [replica_sets, pods] = &group.branches[..] else {
        return Value::Null;
    };
    let revisions =
        replica_sets
            .objects
            .iter()
            .enumerate()
            .map(|(position, set)| {
                // For each Pod, the positions of its parents among the ReplicaSets.
                let of_this = pods
                    .parents
                    .iter()
                    .map(|parents| parents.contains(&(position as u32)));
                let pods: Vec<Value> = pods
            .objects
            .iter()
            .zip(of_this)
            .filter(|(_, of_this)| *of_this)
            .map(|(pod, _)| parsed(pod))
            .map(|pod| json!({"name": pod["metadata"]["name"], "phase": pod["status"]["phase"]}))
            .collect();
                let set = parsed(set);
                json!({
                    "replicaSet": set["metadata"]["name"],
                    "revision": set["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
                    "pods": pods,
                })
            });
    let revisions: Vec<Value> = revisions.collect();
    json!({"count": revisions.len(), "revisions": revisions})
}

#[cfg(test)]
mod tests {
    use joinery_sdk::Branch;

    use super::*;

    #[test]
    fn pods_stand_under_their_own_replica_set() {
        let named = |name: &str| json!({"metadata": {"name": name}}).to_string().into_bytes();
        let group = Group {
            branches: vec![
                Branch {
                    objects: vec![named("old"), named("new")],
                    ..Branch::default()
                },
                Branch {
                    objects: vec![named("p"), named("q")],
                    parents: vec![vec![1], vec![0]],
                    ..Branch::default()
                },
            ],
            ..Group::default()
        };
        let status = status(&group);
        assert_eq!(status["revisions"][0]["pods"][0]["name"], "q");
        assert_eq!(status["revisions"][1]["pods"][0]["name"], "p");
    }
}
