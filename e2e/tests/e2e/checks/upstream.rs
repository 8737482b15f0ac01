//! What a read costs upstream, as kube-apiserver's audit log counts it.

use std::fs;
use std::time::Duration;

use joinery_e2e::Environment;
use serde_json::{Value, json};

use crate::client::Client;
use crate::fixtures::{Namespace, TASKS, VIEW, event, events_of, eventually, names_of, task};
use crate::shared::{Shared, count};

/// As documented: a chunk of a live view's selector makes a URL of at most so many bytes.
const URL_BOUND: usize = 8 * 1024;
/// A uid and the comma behind it, percent-encoded.
const UID: usize = 36 + 3;
/// What else is in the URL, at most.
const HEAD: usize = 400;

/// A list from the caches costs nothing, whatever its resourceVersion, nor does a changed Event. A live one costs one list of the Tasks
/// and the chunks of one list of Events, and says the same.
pub(crate) fn a_cached_list_costs_no_upstream_list_and_a_live_one_two(environment: &Shared) {
    let _gate = environment.alone();
    let namespace = Namespace::new(environment.kubectl(), "counted");
    let many = count(1000).max(250);
    let made = create_tasks(environment, &namespace.name, many);
    let path = format!("{VIEW}/namespaces/{}/combinedtasks", namespace.name);
    let client = Client::direct(environment);
    eventually("an Event of each Task", || {
        let list = client.get(&path).json();
        let items = list["items"].as_array()?;
        (items.len() == many && items.iter().all(|item| !events_of(item).is_empty())).then_some(())
    });

    let before = lists(environment);
    let list = client.get(&path).json();
    client.get(&format!("{path}?resourceVersion=0"));
    client.get(&format!("{path}?limit=10"));
    client.get(&format!("{VIEW}/combinedtasks"));
    namespace.create(&event(&namespace.name, "alone", &made));
    let name = made["metadata"]["name"].as_str().unwrap();
    eventually("the Event alone", || {
        let combined = client.get(&format!("{path}/{name}")).json();
        names_of(events_of(&combined))
            .contains(&"alone")
            .then_some(())
    });
    let cost = lists(environment).split_off(before.len());
    assert!(cost.is_empty(), "cached reads listed upstream: {cost:#?}");
    assert_eq!(list["items"].as_array().unwrap().len(), many);

    let host = environment.side_host("live").unwrap();
    fs::write(
        host.plugin_dir().join("combined_tasks.yaml"),
        "mode: live\n",
    )
    .unwrap();
    let live_client = Client::of_kubeconfig(host.direct());
    eventually("live reading", || {
        let before = lists(environment).len();
        live_client.get(&path);
        (lists(environment).len() > before).then_some(())
    });
    let before = lists(environment);
    let live = live_client.get(&path).json();
    let cost = lists(environment).split_off(before.len());
    let of = |resource: &str| cost.iter().filter(|list| list.resource == resource).count();
    let chunks = (many * UID).div_ceil(URL_BOUND - HEAD);
    assert_eq!(of("tasks"), 1, "{cost:#?}");
    assert!((1..=chunks).contains(&of("events")), "{cost:#?}");
    assert_eq!(cost.len(), of("tasks") + of("events"), "{cost:#?}");
    for list in &cost {
        assert!(list.uri_length <= URL_BOUND, "{list:?}");
    }

    let cached = client.get(&path).json();
    assert_eq!(without_version(cached), without_version(live));

    let odd = odd_events(environment, &namespace.name, &made);
    let admin = Client::admin(environment);
    let of_task = format!("{path}/{name}");
    eventually("the odd Events", || {
        let combined = client.get(&of_task).json();
        let terminating = combined.to_string().contains("deletionTimestamp");
        (events_of(&combined).len() >= odd.len() + 2 && terminating).then_some(())
    });
    // Byte for byte: live reading has Events as protobuf, the caches have them as JSON.
    let (cached, live) = (client.get(&path).text(), live_client.get(&path).text());
    let (cached, live) = (without_view_versions(&cached), without_view_versions(&live));
    assert!(cached.contains("\\u003cb\\u003e"), "{cached}");
    if let Some(at) = (0..cached.len()).find(|at| cached.as_bytes()[*at] != live.as_bytes()[*at]) {
        let around = at.saturating_sub(300)..cached.len().min(at + 100);
        panic!(
            "cached: {}\nlive: {}",
            String::from_utf8_lossy(&cached.as_bytes()[around.clone()]),
            String::from_utf8_lossy(&live.as_bytes()[around.start..around.end.min(live.len())])
        );
    }
    assert_eq!(cached.len(), live.len());
    for name in odd {
        let path = format!("/api/v1/namespaces/{}/events/{name}", namespace.name);
        let free = json!({"metadata": {"finalizers": null}}).to_string();
        let merge = [("Content-Type", "application/merge-patch+json")];
        assert_eq!(admin.send("PATCH", &path, &merge, free).status, 200);
    }
}

/// Events that have all that an Event can have, or hardly anything, one of them being deleted.
fn odd_events(environment: &Environment, namespace: &str, task: &Value) -> Vec<&'static str> {
    let plain = |name: &str| event(namespace, name, task);
    let mut full = plain("odd-full");
    let uid = task["metadata"]["uid"].clone();
    let owner = |name: &str| json!({"apiVersion": "tasks.example.com/v1", "kind": "Task", "name": name, "uid": uid});
    let mut controller = owner("controller");
    controller["controller"] = true.into();
    controller["blockOwnerDeletion"] = false.into();
    full["metadata"]["labels"]["z.example.com/last"] = "".into();
    full["metadata"]["labels"]["a"] = "first".into();
    full["metadata"]["annotations"] = json!({
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "note": "<b>&amp; \"quoted\" \\ \u{2028}\u{2029} \t\r\n\u{8}\u{c}\u{1}\u{7f} ü € 💥",
    });
    full["metadata"]["ownerReferences"] = json!([owner("plain"), controller]);
    full["metadata"]["finalizers"] = json!(["example.com/one", "example.com/two"]);
    full["involvedObject"]["fieldPath"] = "spec.details".into();
    full["involvedObject"]["resourceVersion"] = "7".into();
    full["message"] = "<b>bold</b> & more".into();
    full["eventTime"] = "2030-01-01T00:00:01.000001Z".into();
    full["series"] = json!({"count": 3, "lastObservedTime": "2030-01-01T00:00:02.500000Z"});
    full["action"] = "Seen".into();
    full["related"] = json!({"kind": "Task", "namespace": namespace, "name": "other"});
    full["reportingComponent"] = "example.com/e2e".into();
    full["reportingInstance"] = "e2e-1".into();
    full["source"]["host"] = "here".into();
    let mut bare = plain("odd-bare");
    for member in [
        "reason",
        "message",
        "type",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "source",
    ] {
        bare.as_object_mut().unwrap().remove(member);
    }
    let mut going = plain("odd-going");
    going["metadata"]["finalizers"] = json!(["example.com/one"]);
    let mut annotated = plain("odd-annotated");
    annotated["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": "{}"});
    let client = Client::admin(environment);
    let events = format!("/api/v1/namespaces/{namespace}/events");
    let json = [("Content-Type", "application/json")];
    for odd in [&full, &bare, &going, &annotated] {
        let answer = client.send("POST", &events, &json, odd.to_string());
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    let going = format!("{events}/odd-going");
    assert_eq!(client.send("DELETE", &going, &[], "").status, 200);
    vec!["odd-full", "odd-bare", "odd-going", "odd-annotated"]
}

/// A text without the versions of views, which are longer than those of sources can be.
fn without_view_versions(text: &str) -> String {
    let mut parts = text.split("\"resourceVersion\":\"");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.find('"').unwrap_or_default();
        out.push_str("\"resourceVersion\":\"");
        out.push_str(if digits > 19 { &part[digits..] } else { part });
    }
    out
}

/// Creates them all by one connection, and gives the last.
fn create_tasks(environment: &Environment, namespace: &str, many: usize) -> Value {
    let mut connection = Client::admin(environment).connect();
    let path = format!("{TASKS}/namespaces/{namespace}/tasks");
    let mut last = Value::Null;
    for number in 0..many {
        let body = task(namespace, &format!("counted-{number}"), 1).to_string();
        let answer = connection
            .send("POST", &path, &[("Content-Type", "application/json")], body)
            .unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
        last = answer.json();
    }
    last
}

/// A list that a host made.
#[derive(Debug)]
struct UpstreamList {
    resource: String,
    uri_length: usize,
    #[expect(dead_code, reason = "shown when the test fails")]
    uri: String,
}

/// All that hosts made so far.
fn lists(environment: &Environment) -> Vec<UpstreamList> {
    // The log is written when the answer is complete, a moment after it arrived.
    std::thread::sleep(Duration::from_millis(200));
    let log = fs::read_to_string(&environment.control_plane_logs().unwrap().audit).unwrap();
    log.lines()
        .map(|line| {
            let entry: Value = serde_json::from_str(line).unwrap();
            let uri = entry["requestURI"].as_str().unwrap_or_default();
            UpstreamList {
                resource: entry["objectRef"]["resource"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
                uri_length: uri.len(),
                uri: uri.chars().take(200).collect(),
            }
        })
        .collect()
}

/// What cached and live reading have in common: everything else.
fn without_version(mut list: Value) -> Value {
    list["metadata"] = json!({});
    for item in list["items"].as_array_mut().unwrap() {
        item["metadata"]["resourceVersion"].take();
    }
    list
}
