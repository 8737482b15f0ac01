//! Objects that tests make, and namespaces of their own to make them in.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use joinery_e2e::Kubectl;
use serde_json::{Value, json};

/// The view's group and version.
pub(crate) const VIEW: &str = "/apis/aggregated.tasks.example.com/v1";
/// The Tasks' group and version.
pub(crate) const TASKS: &str = "/apis/tasks.example.com/v1";
/// The label by which an Event is its Task's.
pub(crate) const UID_LABEL: &str = "tasks.example.com/task-uid";

/// A namespace of one test, deleted (without waiting) when dropped.
pub(crate) struct Namespace<'a> {
    pub(crate) name: String,
    kubectl: &'a Kubectl,
}

impl<'a> Namespace<'a> {
    pub(crate) fn new(kubectl: &'a Kubectl, purpose: &str) -> Namespace<'a> {
        static NUMBER: AtomicUsize = AtomicUsize::new(1);
        let name = format!("{purpose}-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        kubectl.run(["create", "namespace", &name]).unwrap();
        Namespace { name, kubectl }
    }

    /// Creates a Task and gives it as created.
    pub(crate) fn task(&self, name: &str) -> Value {
        self.create(&task(&self.name, name, 3))
    }

    /// Creates an object and gives it as created.
    pub(crate) fn create(&self, object: &Value) -> Value {
        let printed = self
            .kubectl
            .run_with_input(["create", "-f", "-", "-o", "json"], &object.to_string())
            .unwrap();
        serde_json::from_str(&printed).unwrap()
    }

    /// kubectl in this namespace.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let mut all = vec!["-n", self.name.as_str()];
        all.extend(arguments);
        self.kubectl.run(all).unwrap()
    }

    pub(crate) fn get(&self, resource: &str, name: &str) -> Value {
        self.kubectl
            .json(["get", resource, name, "-n", &self.name, "-o", "json"])
            .unwrap()
    }

    /// Waits until the named CombinedTask's events satisfy `wanted`, and gives it.
    pub(crate) fn combined(
        &self,
        name: &str,
        what: &str,
        mut wanted: impl FnMut(&[Value]) -> bool,
    ) -> Value {
        eventually(what, || {
            let combined = self.get("combinedtasks", name);
            wanted(events_of(&combined)).then_some(combined)
        })
    }
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        let _ = self.kubectl.output([
            "delete",
            "namespace",
            &self.name,
            "--wait=false",
            "--ignore-not-found",
        ]);
    }
}

pub(crate) fn task(namespace: &str, name: &str, priority: u8) -> Value {
    json!({
        "apiVersion": "tasks.example.com/v1",
        "kind": "Task",
        "metadata": { "namespace": namespace, "name": name },
        "spec": { "priority": priority, "deadline": "2099-01-01T00:00:00Z", "details": "made by a test" },
    })
}

pub(crate) fn custom_task(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "aggregated.tasks.example.com/v1",
        "kind": "CustomTask",
        "metadata": { "namespace": namespace, "name": name },
        "spec": { "priority": 4, "deadline": "2099-01-01T00:00:00Z", "details": "made by a test" },
    })
}

/// An Event in `namespace` that says it is about the Task of this uid.
pub(crate) fn event(namespace: &str, name: &str, task: &Value) -> Value {
    let text = |pointer: &str| {
        task.pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let uid = text("/metadata/uid");
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "namespace": namespace, "name": name, "labels": { UID_LABEL: uid } },
        "involvedObject": {
            "apiVersion": "tasks.example.com/v1", "kind": "Task", "namespace": namespace, "name": text("/metadata/name"), "uid": uid,
        },
        "reason": "SeenByTest",
        "message": "a test saw the task",
        "type": "Normal",
        "firstTimestamp": "2030-01-01T00:00:00Z",
        "lastTimestamp": "2030-01-01T00:00:00Z",
        "count": 1,
        "source": { "component": "joinery-e2e" },
    })
}

pub(crate) fn events_of(combined: &Value) -> &[Value] {
    combined
        .pointer("/status/events")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

pub(crate) fn names_of(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .filter_map(|event| event.pointer("/metadata/name")?.as_str())
        .collect()
}

pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Asks until there is an answer; fails the test after 30 s.
pub(crate) fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(Instant::now() < end, "waited 30 s in vain: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
