//! What kube-controller-manager does with stored objects: garbage collection by ownerReferences, counting for quotas, and that nothing
//! outlives its namespace.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::fixtures::{Namespace, VIEW, custom_task, text};
use crate::shared::cluster;

/// The garbage collector looks for new resources every half minute, and waits for its caches.
const PATIENCE: Duration = Duration::from_secs(90);

fn soon<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(Instant::now() < end, "waited {PATIENCE:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The object, if it is there.
fn find(namespace: &Namespace<'_>, resource: &str, name: &str) -> Option<Value> {
    let printed = namespace.run(&["get", resource, name, "--ignore-not-found", "-o", "json"]);
    (!printed.trim().is_empty()).then(|| serde_json::from_str(&printed).unwrap())
}

fn owned_by(mut object: Value, owner: &Value) -> Value {
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": true,
    }]);
    object
}

fn config_map(namespace: &Namespace<'_>, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace.name, "name": name}})
}

/// Waits until the garbage collector knows CustomTasks: it collects one whose owner is not there.
fn wait_for_collector(namespace: &Namespace<'_>) {
    let owner = namespace.create(&config_map(namespace, "collector-owner"));
    namespace.create(&owned_by(custom_task(&namespace.name, "collector"), &owner));
    namespace.run(&["delete", "configmap", "collector-owner"]);
    soon("the garbage collector to look after CustomTasks", || {
        find(namespace, "customtask", "collector")
            .is_none()
            .then_some(())
    });
}

#[test]
fn owners_take_what_they_own_with_them_or_leave_it_as_the_cascade_says() {
    let environment = cluster();
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "owners");
    wait_for_collector(&namespace);
    for cascade in ["background", "foreground", "orphan"] {
        let owner_name = format!("{cascade}-owner");
        let owner = namespace.create(&custom_task(&namespace.name, &owner_name));
        // One of ours, and one of kube-apiserver's own.
        let child = format!("{cascade}-child");
        namespace.create(&owned_by(custom_task(&namespace.name, &child), &owner));
        namespace.create(&owned_by(config_map(&namespace, &child), &owner));
        // Holds the child, so that what happens to the owner meanwhile can be seen.
        let hold = r#"{"metadata":{"finalizers":["example.com/hold"]}}"#;
        let release = r#"{"metadata":{"finalizers":null}}"#;
        namespace.run(&["patch", "customtask", &child, "--type=merge", "-p", hold]);
        let flag = format!("--cascade={cascade}");
        namespace.run(&["delete", "customtask", &owner_name, &flag, "--wait=false"]);
        match cascade {
            "background" => {
                assert!(find(&namespace, "customtask", &owner_name).is_none());
                soon("the child to be deleted", || is_going(&namespace, &child));
            }
            "foreground" => {
                soon("the child to be deleted", || is_going(&namespace, &child));
                let owner = find(&namespace, "customtask", &owner_name).expect("the owner waits");
                assert_eq!(
                    owner["metadata"]["finalizers"],
                    json!(["foregroundDeletion"])
                );
                assert!(!owner["metadata"]["deletionTimestamp"].is_null());
            }
            _ => {
                soon("the owner to go", || {
                    find(&namespace, "customtask", &owner_name)
                        .is_none()
                        .then_some(())
                });
                for resource in ["customtask", "configmap"] {
                    let child = find(&namespace, resource, &child).expect("an orphan stays");
                    assert!(child["metadata"]["ownerReferences"].is_null(), "{child:#}");
                    assert!(
                        child["metadata"]["deletionTimestamp"].is_null(),
                        "{child:#}"
                    );
                }
            }
        }
        namespace.run(&["patch", "customtask", &child, "--type=merge", "-p", release]);
        if cascade != "orphan" {
            for (resource, name) in [
                ("customtask", &owner_name),
                ("customtask", &child),
                ("configmap", &child),
            ] {
                soon(&format!("{resource} {name} to go"), || {
                    find(&namespace, resource, name).is_none().then_some(())
                });
            }
        }
    }
}

fn is_going(namespace: &Namespace<'_>, name: &str) -> Option<()> {
    let child = find(namespace, "customtask", name).expect("it is held");
    (!child["metadata"]["deletionTimestamp"].is_null()).then_some(())
}

/// A namespaced object that names a cluster-scoped owner of ours, and one that is owned by several.
#[test]
fn an_object_with_several_owners_stays_until_the_last_is_gone() {
    let environment = cluster();
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "several");
    wait_for_collector(&namespace);
    let shared = json!({
        "apiVersion": "aggregated.tasks.example.com/v1", "kind": "ClusterTask", "metadata": {"name": format!("{}-owner", namespace.name)},
        "spec": {"priority": 2, "details": "owns"},
    });
    let first = namespace.create(&shared);
    let second = namespace.create(&config_map(&namespace, "second"));
    let mut child = owned_by(custom_task(&namespace.name, "child"), &first);
    let another =
        owned_by(json!({"metadata": {}}), &second)["metadata"]["ownerReferences"][0].clone();
    child["metadata"]["ownerReferences"]
        .as_array_mut()
        .unwrap()
        .push(another);
    namespace.create(&child);

    namespace.run(&["delete", "clustertask", text(&first, "/metadata/name")]);
    soon("the first owner's reference to be taken away", || {
        let child = find(&namespace, "customtask", "child").expect("it has another owner");
        let owners = child["metadata"]["ownerReferences"]
            .as_array()
            .map_or(0, Vec::len);
        (owners == 1).then_some(())
    });
    namespace.run(&["delete", "configmap", "second"]);
    soon("the child to go with the last owner", || {
        find(&namespace, "customtask", "child")
            .is_none()
            .then_some(())
    });
}

#[test]
fn a_resource_quota_counts_custom_tasks() {
    const COUNTED: &str = "count/customtasks.aggregated.tasks.example.com";
    let environment = cluster();
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "quota");
    for name in ["a", "b", "c"] {
        namespace.create(&custom_task(&namespace.name, name));
    }
    let quota = |name: &str| {
        namespace.create(&json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"namespace": namespace.name, "name": name},
            "spec": {"hard": {COUNTED: "5"}},
        }));
    };
    let used = |name: &str| {
        let quota = namespace.get("resourcequota", name);
        quota["status"]["used"][COUNTED].as_str().map(str::to_owned)
    };
    // The controller counts when a quota is new, but only what it knows of by then: it looks for new resources every half minute.
    let mut number = 0;
    let counted = soon("three to be counted", || {
        let name = format!("quota-{number}");
        number += 1;
        quota(&name);
        std::thread::sleep(Duration::from_secs(5));
        (used(&name)? == "3").then_some(name)
    });
    namespace.run(&["delete", "customtask", "c"]);
    soon("a deleted one to be counted no more", || {
        (used(&counted)? == "2").then_some(())
    });
}

/// While a host is away nobody asks it to empty a namespace. When it is back, a namesake is there, and must not show the old objects.
#[test]
fn what_a_host_missed_of_a_namespace_does_not_reappear_in_a_namesake() {
    let environment = cluster();
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "namesake");
    let kept = Namespace::new(environment.kubectl(), "kept");
    let host = environment.side_host("namesake").unwrap();
    let client = Client::of_kubeconfig(host.direct());
    let path =
        |namespace: &Namespace<'_>| format!("{VIEW}/namespaces/{}/customtasks", namespace.name);
    for namespace in [&namespace, &kept] {
        let mut object = custom_task(&namespace.name, "old");
        object["metadata"]["finalizers"] = json!(["example.com/nobody"]);
        let made = client.send(
            "POST",
            &path(namespace),
            &[("content-type", "application/json")],
            object.to_string(),
        );
        assert_eq!(made.status, 201, "{}", made.text());
    }
    // The side host is behind no APIService: the namespace controller does not know of it.
    host.stop();
    environment
        .kubectl()
        .run(["delete", "namespace", &namespace.name, "--timeout=60s"])
        .unwrap();
    environment
        .kubectl()
        .run(["create", "namespace", &namespace.name])
        .unwrap();
    host.begin().unwrap();
    assert_eq!(client.get(&path(&namespace)).json()["items"], json!([]));
    assert_eq!(
        client.get(&path(&kept)).json()["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );

    // And while it is there, but was not asked.
    environment
        .kubectl()
        .run(["delete", "namespace", &kept.name, "--timeout=60s"])
        .unwrap();
    soon("the objects of a namespace that is gone to go", || {
        let items = client.get(&path(&kept)).json();
        items["items"].as_array()?.is_empty().then_some(())
    });
}
