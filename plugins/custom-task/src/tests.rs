use joinery_sdk::{ListOptions, ObjectList};
use serde_json::json;

use super::*;

/// 2026-01-01T00:00:00Z.
const NOW: u64 = 1_767_225_600_000;

/// The ClusterTasks that there are.
struct Cluster(Vec<(&'static str, Value)>);

impl Kubernetes for Cluster {
    fn get(&self, gvr: &GroupVersionResource, key: &ObjectKey) -> Result<Option<Vec<u8>>, Failure> {
        assert_eq!(
            gvr,
            &GroupVersionResource::new("aggregated.tasks.example.com", "v1", "clustertasks")
        );
        assert_eq!(key.namespace, None);
        let found = self.0.iter().find(|(name, _)| *name == key.name);
        Ok(found.map(|(_, task)| task.to_string().into_bytes()))
    }
    fn list(&self, _: &GroupVersionResource, _: &ListOptions) -> Result<ObjectList, Failure> {
        panic!("nothing to list")
    }
}

fn cluster() -> Cluster {
    Cluster(vec![
        (
            "full",
            json!({"metadata": {}, "spec": {"priority": 7, "details": "shared", "deadlineAfter": "1h30m"}}),
        ),
        ("bare", json!({"metadata": {}})),
        (
            "resting",
            json!({"metadata": {}, "spec": {"priority": 1, "suspended": true}}),
        ),
        (
            "going",
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"priority": 1}}),
        ),
    ])
}

fn admit_at(now: u64, object: &Value, old: Option<&Value>) -> Result<Verdict, Failure> {
    let review = Review {
        operation: if old.is_some() {
            Operation::Update
        } else {
            Operation::Create
        },
        key: ObjectKey {
            namespace: Some("default".into()),
            name: "a".into(),
        },
        object: Some(object.to_string().into_bytes()),
        old_object: old.map(|old| old.to_string().into_bytes()),
        now,
        ..Review::default()
    };
    CustomTasks::configure("")
        .unwrap()
        .admit("customtasks", &review, &cluster())
}

/// What is stored.
fn stored(object: &Value, old: Option<&Value>) -> Value {
    match admit_at(NOW, object, old).unwrap().object {
        Some(text) => serde_json::from_slice(&text).unwrap(),
        None => object.clone(),
    }
}

fn task(spec: Value) -> Value {
    json!({"metadata": {"name": "a", "namespace": "default"}, "spec": spec})
}

fn referring(name: &str) -> Value {
    task(json!({"clusterTaskRef": {"name": name}}))
}

#[test]
fn missing_fields_come_from_the_cluster_task() {
    assert_eq!(
        stored(&referring("full"), None)["spec"],
        json!({
            "clusterTaskRef": {"name": "full"}, "priority": 7, "details": "shared",
            "deadline": "2026-01-01T01:30:00Z",
        })
    );
}

#[test]
fn fields_of_its_own_stay() {
    let spec = json!({
        "clusterTaskRef": {"name": "full"}, "priority": 0, "details": "", "deadline": "2027-01-01T00:00:00Z",
    });
    assert_eq!(stored(&task(spec.clone()), None)["spec"], spec);
}

#[test]
fn a_deadline_left_out_again_is_the_same_again() {
    let mut again = referring("full");
    again["metadata"]["creationTimestamp"] = json!("2025-06-01T00:00:00Z");
    let mut complete = again.clone();
    complete["spec"] = stored(&again, None)["spec"].clone();
    let stored = stored(&again, Some(&complete));
    assert_eq!(stored["spec"]["deadline"], "2025-06-01T01:30:00Z");
}

#[test]
fn a_priority_must_come_from_somewhere() {
    for object in [task(json!({})), json!({"metadata": {}}), referring("bare")] {
        let failure = admit_at(NOW, &object, None).unwrap_err();
        assert_eq!(failure.reason, "Invalid");
        assert_eq!(failure.causes[0].reason, "FieldValueRequired");
        assert_eq!(failure.causes[0].field, "spec.priority");
        assert!(
            failure
                .message
                .starts_with("CustomTask.aggregated.tasks.example.com \"a\" is invalid: spec.priority: Required value")
        );
    }
}

#[test]
fn a_deadline_must_be_a_time() {
    let failure =
        admit_at(NOW, &task(json!({"priority": 1, "deadline": "soon"})), None).unwrap_err();
    assert_eq!(failure.causes[0].field, "spec.deadline");
}

#[test]
fn a_past_deadline_is_warned_of_on_create() {
    let object = task(json!({"priority": 1, "deadline": "2025-12-31T23:59:59Z"}));
    assert_eq!(admit_at(NOW, &object, None).unwrap().warnings.len(), 1);
    assert!(
        admit_at(NOW, &object, Some(&object))
            .unwrap()
            .warnings
            .is_empty()
    );
}

#[test]
fn new_references_need_a_cluster_task_that_takes_them() {
    for (name, cause, part) in [
        ("unknown", "FieldValueNotFound", "Not found: \"unknown\""),
        ("resting", "FieldValueForbidden", "suspended"),
        ("going", "FieldValueForbidden", "being deleted"),
    ] {
        let bare = task(json!({"priority": 1}));
        for old in [None, Some(&bare), Some(&referring("full"))] {
            let failure = admit_at(NOW, &referring(name), old).unwrap_err();
            assert_eq!(failure.reason, "Invalid");
            assert_eq!(failure.causes[0].reason, cause);
            assert_eq!(failure.causes[0].field, "spec.clusterTaskRef.name");
            assert!(failure.message.contains(part), "{}", failure.message);
        }
    }
}

#[test]
fn old_references_hold() {
    let resting = referring("resting");
    let other = task(json!({"clusterTaskRef": {"name": "resting"}, "details": "other"}));
    assert_eq!(stored(&other, Some(&resting))["spec"]["priority"], 1);
    let spec = json!({"clusterTaskRef": {"name": "unknown"}, "priority": 2});
    assert_eq!(
        stored(&task(spec.clone()), Some(&referring("unknown")))["spec"],
        spec
    );
}

#[test]
fn a_write_beside_the_spec_takes_nothing_from_the_cluster_task() {
    let before = task(json!({"clusterTaskRef": {"name": "nightly"}, "priority": 2}));
    let mut labelled = before.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(stored(&labelled, Some(&before))["spec"], before["spec"]);
}

#[test]
fn what_is_being_deleted_refers_to_nothing_new() {
    let mut before = task(json!({"priority": 1}));
    before["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut referring = before.clone();
    for unknown in ["unknown", "resting"] {
        referring["spec"]["clusterTaskRef"] = json!({"name": unknown});
        let failure = admit_at(NOW, &referring, Some(&before)).unwrap_err();
        assert_eq!(failure.causes[0].field, "spec.clusterTaskRef.name");
    }
    let mut finished = before.clone();
    finished["spec"]["taskState"] = json!("Finished");
    assert_eq!(
        stored(&finished, Some(&before))["status"]["conditions"][1]["status"],
        "True"
    );
}

#[test]
fn conditions_are_written_and_keep_their_time() {
    let first = stored(&task(json!({"priority": 1, "taskState": "Pending"})), None);
    let conditions = &first["status"]["conditions"];
    assert_eq!(conditions[0]["type"], "Accepted");
    assert_eq!(conditions[0]["status"], "True");
    assert_eq!(conditions[1]["type"], "Finished");
    assert_eq!(conditions[1]["status"], "False");
    assert_eq!(conditions[1]["lastTransitionTime"], "2026-01-01T00:00:00Z");

    let same = admit_at(NOW + 60_000, &first, Some(&first)).unwrap();
    assert_eq!(same.object, None, "nothing to write");

    let mut finished = first.clone();
    finished["spec"]["taskState"] = json!("Finished");
    finished["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "Other", "status": "True"}));
    let verdict = admit_at(NOW + 60_000, &finished, Some(&first)).unwrap();
    let finished: Value = serde_json::from_slice(&verdict.object.unwrap()).unwrap();
    let conditions = &finished["status"]["conditions"];
    assert_eq!(conditions[0]["lastTransitionTime"], "2026-01-01T00:00:00Z");
    assert_eq!(conditions[1]["lastTransitionTime"], "2026-01-01T00:01:00Z");
    assert_eq!(conditions[1]["status"], "True");
    assert_eq!(conditions[2]["type"], "Other");
}

#[test]
fn deletes_status_writes_and_what_is_being_deleted_pass() {
    let plugin = CustomTasks::configure("").unwrap();
    let mut going = task(json!({"clusterTaskRef": {"name": "unknown"}}));
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let review = |operation, subresource: Option<&str>, object: Option<&Value>| Review {
        operation,
        subresource: subresource.map(Into::into),
        object: object.map(|o| o.to_string().into_bytes()),
        old_object: Some(going.to_string().into_bytes()),
        ..Review::default()
    };
    for review in [
        review(Operation::Delete, None, None),
        review(Operation::Update, Some("status"), Some(&task(json!({})))),
        review(Operation::Update, None, Some(&going)),
    ] {
        assert_eq!(
            plugin.admit("customtasks", &review, &cluster()),
            Ok(Verdict::default())
        );
    }
}

#[test]
fn the_schema_knows_what_is_selected_and_shown() {
    let description = CustomTasks::configure("").unwrap().describe();
    let resource = &description.resources[0];
    let schema: Value = serde_json::from_str(&resource.schema).unwrap();
    let paths = resource
        .columns
        .iter()
        .map(|c| &c.json_path)
        .chain(&resource.selectable_fields);
    for path in paths.filter(|p| !p.starts_with(".metadata")) {
        let pointer: String = path
            .split('.')
            .skip(1)
            .map(|name| format!("/properties/{name}"))
            .collect();
        assert!(schema.pointer(&pointer).is_some(), "{path}");
    }
}
