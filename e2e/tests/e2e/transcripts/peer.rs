//! The custom resources that ours are compared with: the same schema, columns and selectable fields under other names of the same
//! length, so that kubectl lines its columns up alike.

use serde_json::{Value, json};

use crate::client::Client;
use crate::fixtures::{VIEW, eventually};
use crate::shared::Shared;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CUSTOM_TASK: &str = include_str!("../../../../plugins/custom-task/src/schema.json");
const CLUSTER_TASK: &str = include_str!("../../../../plugins/cluster-task/src/schema.json");

/// Our words and the peer's.
const WORDS: [(&str, &str); 8] = [
    (
        "aggregated.tasks.example.com",
        "comparison.tasks.example.com",
    ),
    ("CustomTask", "MirrorTask"),
    ("customtask", "mirrortask"),
    ("cutask", "mitask"),
    ("ClusterTask", "ClusterTwin"),
    ("clustertask", "clustertwin"),
    ("ctask", "ctwin"),
    ("alltasks", "alltwins"),
];

pub(super) fn in_its_words(text: &str) -> String {
    WORDS
        .iter()
        .fold(text.to_owned(), |text, (ours, its)| text.replace(ours, its))
}

pub(super) fn in_our_words(text: &str) -> String {
    WORDS
        .iter()
        .fold(text.to_owned(), |text, (ours, its)| text.replace(its, ours))
}

/// A definition; dropped with it.
pub(super) struct Peer {
    admin: Client,
    path: String,
}

impl Peer {
    /// Makes the twin of the resource that a transcript is about.
    pub(super) fn create(environment: &Shared, transcript: &str) -> Peer {
        let admin = Client::admin(environment);
        let definition = match transcript {
            "custom_task" => custom_task(),
            _ => cluster_task(),
        };
        let headers = [("Content-Type", "application/json")];
        let answer = admin.send("POST", DEFINITIONS, &headers, definition.to_string());
        assert_eq!(answer.status, 201, "{}", answer.text());
        let plural = definition["spec"]["names"]["plural"].as_str().unwrap();
        let served = in_its_words(&format!("{VIEW}/{plural}"));
        eventually("the peer to be served", || {
            (admin.get(&served).status == 200).then_some(())
        });
        // What kubectl explain and validation read.
        eventually("the peer in OpenAPI", || {
            let group = in_its_words(VIEW);
            let document = admin.get(&format!("/openapi/v3{group}"));
            (document.status == 200 && document.text().contains(plural)).then_some(())
        });
        let path = format!(
            "{DEFINITIONS}/{}",
            definition["metadata"]["name"].as_str().unwrap()
        );
        Peer { admin, path }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.admin.send("DELETE", &self.path, &[], "");
    }
}

fn custom_task() -> Value {
    let columns = json!([
        { "name": "Priority", "type": "integer", "jsonPath": ".spec.priority" },
        { "name": "Deadline", "type": "string", "jsonPath": ".spec.deadline" },
        { "name": "State", "type": "string", "jsonPath": ".spec.taskState" },
        { "name": "Cluster Task", "type": "string", "jsonPath": ".spec.clusterTaskRef.name" },
        { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
    ]);
    let selectable = json!([
        { "jsonPath": ".spec.priority" },
        { "jsonPath": ".spec.taskState" },
        { "jsonPath": ".spec.clusterTaskRef.name" },
    ]);
    definition(
        "CustomTask",
        "cutask",
        "Namespaced",
        CUSTOM_TASK,
        json!({ "status": {} }),
        columns,
        selectable,
    )
}

fn cluster_task() -> Value {
    let columns = json!([
        { "name": "Priority", "type": "integer", "jsonPath": ".spec.priority" },
        { "name": "Deadline After", "type": "string", "jsonPath": ".spec.deadlineAfter" },
        { "name": "Suspended", "type": "boolean", "jsonPath": ".spec.suspended" },
        { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
    ]);
    let selectable = json!([{ "jsonPath": ".spec.priority" }, { "jsonPath": ".spec.suspended" }]);
    definition(
        "ClusterTask",
        "ctask",
        "Cluster",
        CLUSTER_TASK,
        json!({}),
        columns,
        selectable,
    )
}

fn definition(
    kind: &str,
    short: &str,
    scope: &str,
    schema: &str,
    subresources: Value,
    columns: Value,
    selectable: Value,
) -> Value {
    let mut schema: Value = serde_json::from_str(schema).unwrap();
    // Its description is refused: kube-apiserver has one of its own.
    schema["properties"]["metadata"] = json!({ "type": "object" });
    let kind = in_its_words(kind);
    let singular = kind.to_ascii_lowercase();
    let plural = format!("{singular}s");
    let group = in_its_words("aggregated.tasks.example.com");
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group,
            "scope": scope,
            "names": {
                "plural": plural, "singular": singular, "kind": kind, "listKind": format!("{kind}List"),
                "shortNames": [in_its_words(short)], "categories": [in_its_words("alltasks")],
            },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema },
                "subresources": subresources,
                "additionalPrinterColumns": columns,
                "selectableFields": selectable,
            }],
        },
    })
}
