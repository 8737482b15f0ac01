//! What else people type.

use serde_json::{Value, json};

use crate::client::Client;
use crate::fixtures::{Namespace, eventually};
use crate::shared::Shared;

/// The host answers what balancers, kubectl and Prometheus ask of any API server.
pub(crate) fn health_version_and_metrics_are_there(environment: &Shared) {
    let _gate = environment.in_common();
    let host = environment.direct();
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(host.run(["get", "--raw", path]).unwrap(), "ok", "{path}");
    }
    let checks = host.run(["get", "--raw", "/readyz?verbose"]).unwrap();
    assert!(checks.contains("[+]plugins ok"), "{checks}");
    let version = host.json(["get", "--raw", "/version"]).unwrap();
    assert!(
        version["gitVersion"]
            .as_str()
            .is_some_and(|version| version.contains("joinery")),
        "{version}"
    );
    let printed = host.run(["version"]).unwrap();
    assert!(printed.contains("joinery"), "{printed}");
    let metrics = host.run(["get", "--raw", "/metrics"]).unwrap();
    for metric in ["apiserver_request_total{", "# TYPE "] {
        assert!(metrics.contains(metric), "no {metric} in\n{metrics}");
    }
}

/// `kubectl auth can-i` gets an answer.
pub(crate) fn who_may_is_told_by_auth_can_i(environment: &Shared) {
    let _gate = environment.in_common();
    for question in [
        ["list", "combinedtasks"],
        ["create", "customtasks"],
        ["get", "/metrics"],
    ] {
        let answer = environment
            .kubectl()
            .run(["auth", "can-i", question[0], question[1]])
            .unwrap();
        assert_eq!(answer.trim(), "yes", "{question:?}");
    }
    let rules = environment
        .kubectl()
        .run(["auth", "can-i", "--list"])
        .unwrap();
    assert!(rules.contains("[*]"), "{rules}");
}

/// The controller's Events are ordinary Events.
pub(crate) fn the_events_of_a_task_are_listed_by_kubectl(environment: &Shared) {
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "events");
    namespace.task("told");
    eventually("the Event of the creation", || {
        let printed = namespace.run(&["get", "events"]);
        let line = printed.lines().find(|line| line.contains("TaskCreated"))?;
        assert!(
            printed.contains("LAST SEEN") && line.contains("told"),
            "{printed}"
        );
        Some(())
    });
    // The typed client of `kubectl events` asks for protobuf first.
    let printed = namespace.run(&["events", "--for", "task/told"]);
    assert!(printed.contains("TaskCreated"), "{printed}");
}

/// Errors of `kubectl get --raw` are one line that says what is wrong.
pub(crate) fn bad_input_is_one_clear_line(environment: &Shared) {
    let _gate = environment.in_common();
    let tasks = "/apis/aggregated.tasks.example.com/v1/namespaces/default/combinedtasks";
    for (arguments, said) in [
        (
            vec![
                "get",
                "--raw",
                "/apis/aggregated.tasks.example.com/v1/nosuch",
            ],
            "NotFound",
        ),
        (vec!["get", "--raw", &format!("{tasks}?limit=x")], "limit"),
        (
            vec![
                "get",
                "--raw",
                &format!("{tasks}?fieldSelector=spec.nosuch%3D1"),
            ],
            "spec.nosuch",
        ),
        (vec!["get", "combinedtasks", "-l", "a in ("], "a in ("),
        (
            vec!["get", "combinedtask", "nosuch"],
            "\"nosuch\" not found",
        ),
        (
            vec!["delete", "combinedtask", "task-sample-1"],
            "delete is not supported",
        ),
        (
            vec![
                "patch",
                "combinedtask",
                "task-sample-1",
                "--type=merge",
                "-p",
                "{}",
            ],
            "patch is not supported",
        ),
        (
            vec!["patch", "customtask", "order-paper", "-p", "{}"],
            "application/merge-patch+json",
        ),
    ] {
        let output = environment.kubectl().output(&arguments).unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(
            stderr.contains(said) && stderr.trim().lines().count() == 1,
            "{arguments:?}: {stderr}"
        );
    }
}

/// Standalone's own namespaces and ConfigMaps, by typed and untyped clients, applied twice.
pub(crate) fn core_objects_are_created_applied_edited_and_deleted(environment: &Shared) {
    let _gate = environment.in_common();
    let kubectl = environment.kubectl();
    let apply = |object: &Value| {
        kubectl
            .run_with_input(["apply", "-f", "-"], &object.to_string())
            .unwrap()
    };
    let namespace = |labels: Value| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "applied", "labels": labels } });
    assert!(apply(&namespace(json!({ "a": "1", "b": "2" }))).contains("created"));
    assert!(apply(&namespace(json!({ "b": "3", "c": "4" }))).contains("configured"));
    assert!(apply(&namespace(json!({ "b": "3", "c": "4" }))).contains("unchanged"));
    let got = kubectl
        .json(["get", "namespace", "applied", "-o", "json"])
        .unwrap();
    assert_eq!(
        got["metadata"]["labels"],
        json!({ "b": "3", "c": "4", "kubernetes.io/metadata.name": "applied" })
    );

    let config = |data: Value| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "namespace": "applied", "name": "config" }, "data": data });
    apply(&config(json!({ "a": "1", "b": "2" })));
    apply(&config(json!({ "b": "3" })));
    let get = |name: &str| {
        kubectl
            .json(["get", "configmap", name, "-n", "applied", "-o", "json"])
            .unwrap()
    };
    assert_eq!(get("config")["data"], json!({ "b": "3" }));
    kubectl
        .run([
            "patch",
            "configmap",
            "config",
            "-n",
            "applied",
            "-p",
            r#"{"data":{"b":null,"c":"4"}}"#,
        ])
        .unwrap();
    assert_eq!(get("config")["data"], json!({ "c": "4" }));
    kubectl
        .run([
            "create",
            "configmap",
            "typed",
            "-n",
            "applied",
            "--from-literal=key=value",
        ])
        .unwrap();
    assert_eq!(get("typed")["data"], json!({ "key": "value" }));

    kubectl
        .run(["delete", "namespace", "applied", "--timeout=30s"])
        .unwrap();
    let answer = Client::admin(environment).get("/api/v1/namespaces/applied/configmaps/config");
    assert_eq!(answer.status, 404, "{}", answer.text());
    let output = kubectl.output(["delete", "namespace", "default"]).unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("Forbidden"));
}
