//! The custom resources of kube-apiserver that ours are compared with: the schemas are the guests' own files; what else the guests describe
//! (columns, selectable fields) stands here, and an answer shows it if the guests' differ.

use serde_json::{Value, json};

use super::target::PEER;
use crate::client::Client;
use crate::fixtures::eventually;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CUSTOM_TASK: &str = include_str!("../../../../../plugins/custom-task/src/schema.json");
const CLUSTER_TASK: &str = include_str!("../../../../../plugins/cluster-task/src/schema.json");

/// The definitions; dropped with them.
pub(super) struct Peer<'a> {
    admin: &'a Client,
}

impl<'a> Peer<'a> {
    pub(super) fn create(admin: &'a Client) -> Peer<'a> {
        let custom = definition(
            (PEER.plural, PEER.kind, "ptask"),
            "Namespaced",
            CUSTOM_TASK,
            &[
                (
                    "Priority",
                    "integer",
                    ".spec.priority",
                    "From 0 to 10; more is more urgent.",
                ),
                (
                    "Deadline",
                    "string",
                    ".spec.deadline",
                    "When the task is to be finished.",
                ),
                ("State", "string", ".spec.taskState", "Pending or Finished."),
                (
                    "Cluster Task",
                    "string",
                    ".spec.clusterTaskRef.name",
                    "Where missing fields come from.",
                ),
                (
                    "Age",
                    "date",
                    ".metadata.creationTimestamp",
                    "Since when the PeerTask exists.",
                ),
            ],
            &[
                ".spec.priority",
                ".spec.taskState",
                ".spec.clusterTaskRef.name",
            ],
            true,
        );
        let cluster = definition(
            (PEER.cluster_plural, PEER.cluster_kind, "pctask"),
            "Cluster",
            CLUSTER_TASK,
            &[
                (
                    "Priority",
                    "integer",
                    ".spec.priority",
                    "From 0 to 10; more is more urgent.",
                ),
                (
                    "Deadline After",
                    "string",
                    ".spec.deadlineAfter",
                    "Time from creation to deadline.",
                ),
                (
                    "Suspended",
                    "boolean",
                    ".spec.suspended",
                    "Whether new PeerTasks may refer to it.",
                ),
                (
                    "Age",
                    "date",
                    ".metadata.creationTimestamp",
                    "Since when the PeerClusterTask exists.",
                ),
            ],
            &[".spec.priority", ".spec.suspended"],
            false,
        );
        for definition in [custom, cluster] {
            let answer = admin.send(
                "POST",
                DEFINITIONS,
                &[("Content-Type", "application/json")],
                definition.to_string(),
            );
            assert_eq!(answer.status, 201, "{}", answer.text());
        }
        for plural in [PEER.plural, PEER.cluster_plural] {
            eventually(plural, || {
                let path = format!("/apis/{}/v1/{plural}", PEER.group);
                (admin.get(&path).status == 200).then_some(())
            });
        }
        Peer { admin }
    }
}

impl Drop for Peer<'_> {
    fn drop(&mut self) {
        for plural in [PEER.plural, PEER.cluster_plural] {
            let path = format!("{DEFINITIONS}/{plural}.{}", PEER.group);
            self.admin.send("DELETE", &path, &[], "");
        }
    }
}

fn definition(
    (plural, kind, short): (&str, &str, &str),
    scope: &str,
    schema: &str,
    columns: &[(&str, &str, &str, &str)],
    selectable: &[&str],
    has_status: bool,
) -> Value {
    let mut schema: Value = serde_json::from_str(schema).unwrap();
    // Its description is refused: kube-apiserver has one of its own.
    schema["properties"]["metadata"] = json!({"type": "object"});
    let columns: Vec<Value> = columns
        .iter()
        .map(|(name, kind, path, description)| {
            json!({"name": name, "type": kind, "jsonPath": path, "description": description})
        })
        .collect();
    let selectable: Vec<Value> = selectable
        .iter()
        .map(|path| json!({"jsonPath": path}))
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{}", PEER.group)},
        "spec": {
            "group": PEER.group,
            "scope": scope,
            "names": {
                "plural": plural,
                "singular": kind.to_ascii_lowercase(),
                "kind": kind,
                "listKind": format!("{kind}List"),
                "shortNames": [short],
                "categories": ["alltasks"],
            },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": if has_status { json!({"status": {}}) } else { json!({}) },
                "additionalPrinterColumns": columns,
                "selectableFields": selectable,
            }],
        },
    })
}
