//! What a client that lists and then watches relies on: for all three resources.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::Client;
use crate::fixtures::{Namespace, TASKS, VIEW, custom_task, task, text};
use crate::shared::{Shared, count};

const PATIENCE: Duration = Duration::from_secs(15);
/// A machine that compiles beside the tests is slow; what waits for an event waits for as long as none comes.
const AT_ONCE: Duration = Duration::from_secs(3);
const JSON: [(&str, &str); 1] = [("Content-Type", "application/json")];

/// Everything after the list comes, in order, and nothing twice.
pub(crate) fn a_watch_from_a_lists_version_tells_what_came_after_it_once(environment: &Shared) {
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "replayed");
    let client = Client::admin(environment);
    let many = count(2_000);
    // What is watched, what is created for it, and where.
    let kinds = [
        ("customtasks", "customtasks", VIEW),
        ("combinedtasks", "tasks", TASKS),
    ];
    for (resource, plural, group) in kinds {
        let path = format!("{VIEW}/namespaces/{}/{resource}", namespace.name);
        let list = client.get(&path).json();
        let from = text(&list, "/metadata/resourceVersion").to_owned();
        let into = format!("{group}/namespaces/{}/{plural}", namespace.name);
        let mut connection = client.connect();
        let names: Vec<String> = (0..many).map(|number| format!("n{number:04}")).collect();
        for name in &names {
            let object = match plural {
                "tasks" => task(&namespace.name, name, 3),
                _ => custom_task(&namespace.name, name),
            };
            let body = object.to_string();
            let answer = connection.send("POST", &into, &JSON, body).unwrap();
            assert_eq!(answer.status, 201, "{}", answer.text());
        }
        let mut watch = client
            .watch(&format!("{path}?watch=true&resourceVersion={from}"))
            .unwrap();
        let mut added: Vec<String> = Vec::new();
        while added.len() < many {
            let frame = watch
                .next(PATIENCE)
                .unwrap_or_else(|| panic!("{} of {many} {resource} came", added.len()));
            assert!(!text(&frame, "/object/metadata/resourceVersion").is_empty());
            match text(&frame, "/type") {
                "ADDED" => added.push(text(&frame, "/object/metadata/name").to_owned()),
                // The controller's finalizer, status and Events.
                "MODIFIED" => {}
                other => panic!("{other} of {resource}: {frame}"),
            }
        }
        assert_eq!(added, names, "{resource}");
        while let Some(frame) = watch.next(Duration::from_secs(1)) {
            assert_eq!(text(&frame, "/type"), "MODIFIED", "{frame}");
        }
    }
}

/// A list as a watch (KEP-3157) ends with exactly one marked bookmark, however much there is, with every spelling of "now".
pub(crate) fn a_list_as_a_watch_ends_with_one_marked_bookmark(environment: &Shared) {
    const MARK: &str = "/object/metadata/annotations/k8s.io~1initial-events-end";
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "streamed");
    namespace.create(&custom_task(&namespace.name, "one"));
    namespace.task("one");
    for client in [Client::admin(environment), Client::direct(environment)] {
        for resource in ["customtasks", "combinedtasks"] {
            let path = format!(
                "{VIEW}/namespaces/{}/{resource}?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&timeoutSeconds=1",
                namespace.name
            );
            for (more, objects) in [
                ("", 1),
                ("&resourceVersion=", 1),
                ("&resourceVersion=0", 1),
                ("&labelSelector=nobody%3Dhas", 0),
                ("&fieldSelector=metadata.name%3Done", 1),
                ("&fieldSelector=metadata.name%3Dtwo", 0),
            ] {
                let mut watch = client
                    .watch(&format!("{path}&resourceVersionMatch=NotOlderThan{more}"))
                    .unwrap_or_else(|answer| panic!("{more}: {}", answer.text()));
                for _ in 0..objects {
                    let frame = watch.next(PATIENCE).expect("the object");
                    assert_eq!(text(&frame, "/type"), "ADDED", "{more}: {frame}");
                }
                let frame = watch.next(AT_ONCE).expect("the bookmark");
                assert_eq!(
                    (text(&frame, "/type"), text(&frame, MARK)),
                    ("BOOKMARK", "true"),
                    "{resource} {more}: {frame}"
                );
                for field in ["kind", "apiVersion"] {
                    assert!(frame["object"][field].is_string(), "{frame}");
                }
                assert!(!text(&frame, "/object/metadata/resourceVersion").is_empty());
                while let Some(frame) = watch.next(PATIENCE) {
                    assert_eq!(text(&frame, MARK), "", "a second one: {frame}");
                }
            }
            let answer = client.get(&path);
            assert_eq!(
                (answer.status.as_u16(), text(&answer.json(), "/reason")),
                (422, "Invalid"),
                "without resourceVersionMatch"
            );
        }
    }
}

/// The answer to a watch begins before there is anything to tell, and what there is to tell is told whole, at once.
pub(crate) fn an_idle_watch_is_answered_at_once(environment: &Shared) {
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "idle");
    let maker = Client::admin(environment);
    for (number, client) in [Client::admin(environment), Client::direct(environment)]
        .into_iter()
        .enumerate()
    {
        for resource in ["customtasks", "combinedtasks"] {
            let path = format!("{VIEW}/namespaces/{}/{resource}", namespace.name);
            let from = client.get(&path).json();
            let from = text(&from, "/metadata/resourceVersion");
            let begun = Instant::now();
            let mut watch = client
                .watch_as(
                    &format!("{path}?watch=true&resourceVersion={from}"),
                    // A watch is not compressed: a compressor would hold its events back.
                    &[("Accept-Encoding", "gzip")],
                )
                .unwrap();
            assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
            let name = format!("told-{number}");
            let (into, object) = if resource == "customtasks" {
                (path, custom_task(&namespace.name, &name))
            } else {
                let into = format!("{TASKS}/namespaces/{}/tasks", namespace.name);
                (into, task(&namespace.name, &name, 3))
            };
            let made = maker.send("POST", &into, &JSON, object.to_string());
            assert_eq!(made.status, 201, "{}", made.text());
            watch.expect("the new object", AT_ONCE, |frame| {
                text(frame, "/type") == "ADDED" && text(frame, "/object/metadata/name") == name
            });
        }
    }
}

/// Every operator of selectors, in lists and watches; in a watch an object that comes to match is added, one that ceases to is deleted.
pub(crate) fn selectors_of_every_form_select_in_lists_and_watches(environment: &Shared) {
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "selected");
    let client = Client::admin(environment);
    let labels = [
        ("matches", json!({ "a": "x", "c": "y", "d": "", "e": "g" })),
        ("wrong-a", json!({ "a": "z", "d": "" })),
        ("has-b", json!({ "a": "x", "b": "", "d": "" })),
        ("has-no-d", json!({ "a": "x" })),
        ("wrong-c", json!({ "a": "y", "c": "z", "d": "" })),
        ("wrong-e", json!({ "a": "y", "d": "", "e": "f" })),
    ];
    for (name, labels) in &labels {
        for mut object in [
            custom_task(&namespace.name, name),
            task(&namespace.name, name, 3),
        ] {
            object["metadata"]["labels"] = labels.clone();
            namespace.create(&object);
        }
    }
    // a in (x,y),c notin (z),!b,d,e!=f
    let selector = "a%20in%20%28x%2Cy%29%2Cc%20notin%20%28z%29%2C%21b%2Cd%2Ce%21%3Df";
    for (resource, labelled) in [("customtasks", "customtask"), ("combinedtasks", "task")] {
        let path = format!("{VIEW}/namespaces/{}/{resource}", namespace.name);
        let selected = format!("{path}?labelSelector={selector}");
        let list = crate::fixtures::eventually("the objects", || {
            let list = client.get(&selected).json();
            (!list["items"].as_array()?.is_empty()).then_some(list)
        });
        let names: Vec<&str> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| text(item, "/metadata/name"))
            .collect();
        assert_eq!(names, ["matches"]);

        let from = text(&list, "/metadata/resourceVersion");
        let mut watch = client
            .watch(&format!("{selected}&watch=true&resourceVersion={from}"))
            .unwrap();
        namespace.run(&["label", labelled, "has-b", "b-"]);
        watch.expect("one that comes to match", PATIENCE, |frame| {
            text(frame, "/type") == "ADDED" && text(frame, "/object/metadata/name") == "has-b"
        });
        namespace.run(&["label", labelled, "matches", "d-"]);
        watch.expect("one that ceases to", PATIENCE, |frame| {
            text(frame, "/type") == "DELETED" && text(frame, "/object/metadata/name") == "matches"
        });
        namespace.run(&["label", labelled, "has-b", "b="]);
        namespace.run(&["label", labelled, "matches", "d="]);

        for field in [
            "metadata.name%3Dwrong-a".to_owned(),
            format!(
                "metadata.name%3Dwrong-a,metadata.namespace%3D{}",
                namespace.name
            ),
        ] {
            let list = client.get(&format!("{path}?fieldSelector={field}")).json();
            assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{field}");
        }
        let answer = client.get(&format!("{path}?fieldSelector=spec.nosuch%3D1"));
        assert_eq!(
            (answer.status.as_u16(), text(&answer.json(), "/reason")),
            (400, "BadRequest")
        );
    }
    let path = format!("{VIEW}/namespaces/{}/customtasks", namespace.name);
    let gone = client.send(
        "DELETE",
        &format!("{path}?labelSelector={selector}"),
        &[],
        "",
    );
    assert_eq!(gone.status, 200, "{}", gone.text());
    let left = client.get(&path).json();
    assert_eq!(left["items"].as_array().map(Vec::len), Some(5), "{left:#}");
}
