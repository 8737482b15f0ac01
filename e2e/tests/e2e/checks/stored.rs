//! ClusterTasks and CustomTasks: create, read, list, watch, delete.

use std::time::Duration;

use serde_json::json;

use crate::client::Client;
use crate::fixtures::{Namespace, VIEW, custom_task, text};
use crate::shared::Shared;

const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn a_custom_task_is_created_read_listed_watched_and_deleted(environment: &Shared) {
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "custom");
    let client = Client::admin(environment);
    let path = format!("{VIEW}/namespaces/{}/customtasks", namespace.name);
    let empty = client.get(&path).json();
    assert_eq!(
        (text(&empty, "/kind"), &empty["items"]),
        ("CustomTaskList", &json!([]))
    );
    let from = text(&empty, "/metadata/resourceVersion").to_owned();

    let made = namespace.create(&custom_task(&namespace.name, "made"));
    assert!(!text(&made, "/metadata/uid").is_empty());
    assert_eq!(namespace.get("customtasks", "made")["spec"]["priority"], 4);
    assert!(namespace.run(&["get", "customtasks"]).contains("made"));
    namespace.run(&[
        "patch",
        "customtask",
        "made",
        "--type=merge",
        "-p",
        r#"{"spec":{"priority":8}}"#,
    ]);
    namespace.run(&["delete", "customtask", "made"]);

    let mut watch = client
        .watch(&format!("{path}?watch=true&resourceVersion={from}"))
        .unwrap();
    for expected in ["ADDED", "MODIFIED", "DELETED"] {
        let frame = watch
            .next(PATIENCE)
            .unwrap_or_else(|| panic!("no {expected}"));
        assert_eq!(
            (text(&frame, "/type"), text(&frame, "/object/metadata/name")),
            (expected, "made")
        );
    }
}

pub(crate) fn a_cluster_task_is_created_read_listed_and_deleted(environment: &Shared) {
    let _gate = environment.in_common();
    let kubectl = environment.kubectl();
    let object = json!({
        "apiVersion": "aggregated.tasks.example.com/v1",
        "kind": "ClusterTask",
        "metadata": { "name": "shared-kind-of-task" },
        "spec": { "priority": 2, "details": "made by a test", "deadlineAfter": "24h" },
    });
    kubectl
        .run_with_input(["create", "-f", "-"], &object.to_string())
        .unwrap();
    let got = kubectl
        .json(["get", "clustertasks", "shared-kind-of-task", "-o", "json"])
        .unwrap();
    assert_eq!(got["spec"]["deadlineAfter"], "24h", "{got:#}");
    assert!(
        kubectl
            .run(["get", "ctask"])
            .unwrap()
            .contains("shared-kind-of-task")
    );
    kubectl
        .run(["delete", "clustertask", "shared-kind-of-task"])
        .unwrap();
    let after = kubectl
        .output(["get", "clustertasks", "shared-kind-of-task"])
        .unwrap();
    assert!(String::from_utf8_lossy(&after.stderr).contains("NotFound"));
}

/// Everything in a deleted namespace goes, and does not come back with a namesake.
pub(crate) fn a_deleted_namespace_takes_its_objects_with_it(environment: &Shared) {
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "doomed");
    namespace.create(&custom_task(&namespace.name, "doomed"));
    namespace.task("doomed");
    namespace.combined("doomed", "the controller's first Event", |events| {
        !events.is_empty()
    });
    let name = namespace.name.as_str();
    environment
        .kubectl()
        .run(["delete", "namespace", name, "--timeout=60s"])
        .unwrap();

    environment
        .kubectl()
        .run(["create", "namespace", name])
        .unwrap();
    for resource in ["customtasks", "tasks", "combinedtasks", "events"] {
        let left = environment
            .kubectl()
            .run(["get", resource, "-n", name, "-o", "name"])
            .unwrap();
        assert_eq!(left, "", "{resource} of the namesake that is gone");
    }
}
