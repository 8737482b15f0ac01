//! Changes, for as long as they are wanted: each object is made, changed, given a status and deleted, in turn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Client;
use crate::fixtures::{TASKS, VIEW, custom_task, event, task};
use crate::shared::Shared;

/// How many objects of a resource are about at most.
const OBJECTS: usize = 30;
/// Between two changes: a fast client's pace, and not a load test.
const PAUSE: Duration = Duration::from_millis(15);

pub(super) struct Churn<'a> {
    client: Client,
    namespace: &'a str,
}

impl<'a> Churn<'a> {
    pub(super) fn new(environment: &Shared, namespace: &'a str) -> Churn<'a> {
        Churn {
            client: Client::admin(environment),
            namespace,
        }
    }

    /// ClusterTasks and CustomTasks, until it is over; gives how many changes were made. ClusterTasks are of the whole cluster: they are
    /// deleted in the end.
    pub(super) fn stored(&self, over: &AtomicBool) -> usize {
        let tasks = format!("{VIEW}/namespaces/{}/customtasks", self.namespace);
        let cluster_tasks = format!("{VIEW}/clustertasks");
        let mut made = 0;
        let mut number = 0;
        while !over.load(Ordering::Relaxed) {
            let name = format!("churn-{}", number % OBJECTS);
            let one = format!("{tasks}/{name}");
            let cluster_task = format!("{cluster_tasks}/{name}");
            made += match number / OBJECTS % 4 {
                0 => {
                    let object = json!({
                        "apiVersion": "aggregated.tasks.example.com/v1", "kind": "ClusterTask", "metadata": { "name": name },
                        "spec": { "priority": 1 },
                    });
                    self.create(&cluster_tasks, &object)
                        + self.create(&tasks, &custom_task(self.namespace, &name))
                }
                1 => {
                    let spec = json!({ "spec": { "priority": number % 10 } });
                    self.patch(&cluster_task, &spec) + self.patch(&one, &spec)
                }
                2 => {
                    let seen = json!([{ "type": "Seen", "status": "True", "reason": format!("Round{number}") }]);
                    self.patch(
                        &format!("{one}/status"),
                        &json!({ "status": { "conditions": seen } }),
                    )
                }
                _ => self.delete(&one) + self.delete(&cluster_task),
            };
            number += 1;
            thread::sleep(PAUSE);
        }
        for number in 0..OBJECTS {
            self.delete(&format!("{cluster_tasks}/churn-{number}"));
        }
        made
    }

    /// Tasks and their Events, until it is over; gives how many changes were made. These need no host: they go on while it is away.
    pub(super) fn view(&self, over: &AtomicBool) -> usize {
        let tasks = format!("{TASKS}/namespaces/{}/tasks", self.namespace);
        let events = format!("/api/v1/namespaces/{}/events", self.namespace);
        let mut made = 0;
        let mut number = 0;
        while !over.load(Ordering::Relaxed) {
            let name = format!("churn-{}", number % OBJECTS);
            let one = format!("{tasks}/{name}");
            made += match number / OBJECTS % 5 {
                0 => self.create(&tasks, &task(self.namespace, &name, 3)),
                1 => self.patch(&one, &json!({ "spec": { "priority": number % 10 } })),
                2 => {
                    let about = self.client.get(&one).json();
                    self.create(&events, &event(self.namespace, &name, &about))
                }
                3 => self.delete(&format!("{events}/{name}")),
                _ => self.delete(&one),
            };
            number += 1;
            thread::sleep(PAUSE);
        }
        made
    }

    fn create(&self, path: &str, object: &Value) -> usize {
        self.send("POST", path, "application/json", object)
    }

    fn patch(&self, path: &str, patch: &Value) -> usize {
        self.send("PATCH", path, "application/merge-patch+json", patch)
    }

    fn delete(&self, path: &str) -> usize {
        self.send("DELETE", path, "application/json", &json!({}))
    }

    /// 1 when the change was made. A restart of the host makes some fail with 503 and later ones with 404 or 409.
    fn send(&self, method: &str, path: &str, content_type: &str, body: &Value) -> usize {
        let headers = [("Content-Type", content_type)];
        let answer = self.client.send(method, path, &headers, body.to_string());
        let status = answer.status.as_u16();
        assert!(
            answer.status.is_success() || [404, 409, 500, 502, 503].contains(&status),
            "{method} {path}: {status} {}",
            answer.text()
        );
        usize::from(answer.status.is_success())
    }
}
