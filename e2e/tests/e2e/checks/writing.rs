//! Writes that must leave no trace, and writes that must not be lost.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Client;
use crate::fixtures::{Namespace, VIEW, custom_task, text};
use crate::shared::{Shared, count};

const QUIET: Duration = Duration::from_secs(2);
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// Every write with dryRun=All answers as the real one does, and nothing has happened.
pub(crate) fn a_dry_run_of_any_write_leaves_no_trace(environment: &Shared) {
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "dry");
    let made = namespace.create(&custom_task(&namespace.name, "stays"));
    let client = Client::admin(environment);
    let path = format!("{VIEW}/namespaces/{}/customtasks", namespace.name);
    let one = format!("{path}/stays");
    let before = client.get(&path).json();
    let from = text(&before, "/metadata/resourceVersion");
    let mut watch = client
        .watch(&format!("{path}?watch=true&resourceVersion={from}"))
        .unwrap();

    let with = |object: &Value, pointer: &str, value: Value| {
        let mut object = object.clone();
        *object.pointer_mut(pointer).unwrap() = value;
        object
    };
    let changed = with(&made, "/spec/priority", json!(9));
    let invalid = with(&made, "/spec/priority", json!(11));
    let stale = with(&changed, "/metadata/resourceVersion", json!("1"));
    let json_patch = json!([{ "op": "replace", "path": "/spec/priority", "value": 9 }]);
    let merge_patch = json!({ "spec": { "priority": 9 } });
    let applied = custom_task(&namespace.name, "stays");
    let body_option = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"] });
    let new = custom_task(&namespace.name, "new");
    let dry = |path: &str| format!("{path}?dryRun=All");
    for (method, path, content_type, body, code) in [
        ("POST", dry(&path), JSON, &new, 201),
        ("POST", dry(&path), JSON, &applied, 409),
        ("PUT", dry(&one), JSON, &changed, 200),
        ("PUT", dry(&one), JSON, &invalid, 422),
        ("PUT", dry(&one), JSON, &stale, 409),
        (
            "PATCH",
            dry(&one),
            "application/json-patch+json",
            &json_patch,
            200,
        ),
        ("PATCH", dry(&one), MERGE, &merge_patch, 200),
        (
            "PATCH",
            dry(&one),
            MERGE,
            &json!({ "spec": { "priority": 11 } }),
            422,
        ),
        (
            "PATCH",
            format!("{one}?dryRun=All&fieldManager=dry&force=true"),
            "application/apply-patch+yaml",
            &applied,
            200,
        ),
        (
            "PATCH",
            dry(&format!("{one}/status")),
            MERGE,
            &json!({ "status": { "conditions": [] } }),
            200,
        ),
        // Options in the body are all there are, in Go too: these have none.
        ("DELETE", dry(&one), JSON, &Value::Null, 200),
        ("DELETE", one.clone(), JSON, &body_option, 200),
        ("DELETE", dry(&path), JSON, &Value::Null, 200),
        ("DELETE", path.clone(), JSON, &body_option, 200),
        (
            "DELETE",
            format!("{one}?dryRun=foo"),
            JSON,
            &Value::Null,
            422,
        ),
        ("POST", format!("{path}?dryRun=foo"), JSON, &new, 422),
    ] {
        let headers = [("Content-Type", content_type)];
        let sent = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let answer = client.send(method, &path, &headers, sent);
        assert_eq!(
            answer.status.as_u16(),
            code,
            "{method} {path} {body}: {}",
            answer.text()
        );
        if method == "PATCH" && body == &merge_patch {
            assert_eq!(answer.json()["spec"]["priority"], 9);
        }
    }
    let manifest = custom_task(&namespace.name, "stays").to_string();
    for command in [
        &[
            "apply",
            "--server-side",
            "--dry-run=server",
            "--force-conflicts",
            "-f",
            "-",
        ][..],
        &["create", "--dry-run=server", "-f", "-"],
    ] {
        // The second is refused: it is there.
        let _ = environment.kubectl().run_with_input(command, &manifest);
    }

    assert_eq!(client.get(&path).json(), before, "also the list's version");
    if let Some(frame) = watch.next(QUIET) {
        panic!("a watch was told: {frame}");
    }
}

/// Clients that read, add one and write, and try again on a conflict: no addition is lost.
pub(crate) fn of_racing_increments_none_is_lost(environment: &Shared) {
    const CLIENTS: usize = 20;
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "counted");
    let mut counter = custom_task(&namespace.name, "counter");
    counter["metadata"]["annotations"] = json!({ "count": "0" });
    namespace.create(&counter);
    let client = Client::admin(environment);
    let path = format!("{VIEW}/namespaces/{}/customtasks/counter", namespace.name);
    let each = count(50);
    let read = |object: &Value| {
        text(object, "/metadata/annotations/count")
            .parse::<usize>()
            .unwrap()
    };
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (client, path) = (&client, &path);
            scope.spawn(move || {
                let mut connection = client.connect();
                for _ in 0..each {
                    loop {
                        let mut object = connection.send("GET", path, &[], "").unwrap().json();
                        let next = (read(&object) + 1).to_string();
                        // Some with the whole object, others with a patch that names the version.
                        let (method, content_type, body) = if number % 2 == 0 {
                            object["metadata"]["annotations"]["count"] = next.into();
                            ("PUT", JSON, object)
                        } else {
                            let version = object["metadata"]["resourceVersion"].take();
                            let patch = json!({ "metadata": { "resourceVersion": version, "annotations": { "count": next } } });
                            ("PATCH", MERGE, patch)
                        };
                        let headers = [("Content-Type", content_type)];
                        let answer = connection
                            .send(method, path, &headers, body.to_string())
                            .unwrap();
                        if answer.status == 200 {
                            break;
                        }
                        let status = answer.json();
                        assert_eq!(
                            (answer.status.as_u16(), text(&status, "/reason")),
                            (409, "Conflict"),
                            "{status}"
                        );
                        assert!(
                            text(&status, "/message")
                                .contains("customtasks.aggregated.tasks.example.com \"counter\""),
                            "{status}"
                        );
                    }
                }
            });
        }
    });
    assert_eq!(read(&client.get(&path).json()), CLIENTS * each);
}
