use std::time::Duration;

use http::Method;
use joinery_controller::{FINALIZER, Task, TaskReconciler};
use kube::runtime::controller::Action;
use serde_json::{Value, json};

use crate::fake::{Fake, failure};

const TASK: &str = "/apis/tasks.example.com/v1/namespaces/n/tasks/t";
const EVENTS: &str = "/api/v1/namespaces/n/events";
const LONG_AGO: &str = "2020-01-01T00:00:00Z";
const FAR_AHEAD: &str = "2099-01-01T00:00:00Z";

struct World {
    fake: Fake,
    reconciler: TaskReconciler,
}

impl World {
    fn with(task: Value) -> Self {
        let fake = Fake::default();
        let mut stored = json!({
            "apiVersion": "tasks.example.com/v1",
            "kind": "Task",
            "metadata": {"name": "t", "namespace": "n", "uid": "u-1", "generation": 1},
            "spec": {"priority": 1, "deadline": FAR_AHEAD, "taskState": "Pending"},
        });
        json_patch::merge(&mut stored, &task);
        fake.put(TASK, stored);
        let reconciler = TaskReconciler::new(fake.client(), "test");
        Self { fake, reconciler }
    }

    fn task(&self) -> Task {
        serde_json::from_value(self.fake.get(TASK).expect("the Task is there")).unwrap()
    }

    fn change(&self, change: Value) {
        let mut task = self.fake.get(TASK).unwrap();
        json_patch::merge(&mut task, &change);
        self.fake.put(TASK, task);
    }

    async fn step(&self) -> Result<Action, joinery_controller::ReconcileError> {
        self.reconciler.reconcile(&self.task()).await
    }

    /// Reconciles, as the watch would make it, until nothing changes any more.
    async fn settle(&self) {
        for _ in 0..10 {
            let before = self.fake.get(TASK);
            let Some(_) = before else { return };
            self.step().await.unwrap();
            if self.fake.get(TASK) == before {
                return;
            }
        }
        panic!("does not settle");
    }

    fn reasons(&self) -> Vec<String> {
        let mut events = self.fake.list(EVENTS);
        events.sort_by_key(|event| event["eventTime"].as_str().unwrap().to_owned());
        events
            .iter()
            .map(|event| event["reason"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn going() -> Value {
    json!({"metadata": {
        "generation": 2, "deletionTimestamp": LONG_AGO, "finalizers": ["somebody.else/finalizer", FINALIZER],
    }})
}

#[tokio::test]
async fn a_new_task_gets_the_finalizer_first_then_its_event_then_its_status() {
    let world = World::with(json!({"metadata": {"finalizers": ["somebody.else/finalizer"]}}));
    world.settle().await;
    assert_eq!(
        world.fake.calls(),
        [
            format!("PATCH {TASK}"),
            format!("POST {EVENTS}"),
            format!("PATCH {TASK}/status")
        ]
    );

    let task = world.fake.get(TASK).unwrap();
    assert_eq!(
        task["metadata"]["finalizers"],
        json!(["somebody.else/finalizer", FINALIZER])
    );
    assert_eq!(task["status"]["observedGeneration"], 1);
    assert_eq!(task["status"]["emittedEvents"][0]["reason"], "TaskCreated");

    let [event] = world.fake.list(EVENTS).try_into().unwrap();
    assert_eq!(
        event["metadata"]["labels"],
        json!({"tasks.example.com/task-uid": "u-1"})
    );
    assert_eq!(event["involvedObject"]["uid"], "u-1");
    assert_eq!(event["involvedObject"]["kind"], "Task");
}

#[tokio::test]
async fn a_settled_task_costs_no_request_also_after_a_restart() {
    let world = World::with(json!({}));
    world.settle().await;
    world.fake.calls();
    let restarted = TaskReconciler::new(world.fake.client(), "another");
    restarted.reconcile(&world.task()).await.unwrap();
    assert_eq!(world.fake.calls(), Vec::<String>::new());
}

#[tokio::test]
async fn expired_events_are_not_written_again() {
    let world = World::with(json!({"spec": {"deadline": LONG_AGO}}));
    world.settle().await;
    assert_eq!(world.reasons(), ["TaskCreated", "TaskOverdue"]);
    for event in world.fake.list(EVENTS) {
        world.fake.remove(&format!(
            "{EVENTS}/{}",
            event["metadata"]["name"].as_str().unwrap()
        ));
    }
    world.settle().await;
    assert_eq!(world.reasons(), Vec::<String>::new());
}

#[tokio::test]
async fn an_event_whose_record_was_lost_is_not_written_twice() {
    let world = World::with(json!({"metadata": {"finalizers": [FINALIZER]}}));
    world.fake.fails(|method, _| {
        (method == Method::PATCH).then(|| failure(500, "InternalError", json!({})))
    });
    world.step().await.unwrap_err();
    world.fake.recovers();
    world.settle().await;
    assert_eq!(world.reasons(), ["TaskCreated"]);
    assert_eq!(
        world.fake.get(TASK).unwrap()["status"]["emittedEvents"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn events_of_one_task_differ_in_the_second_that_readers_order_them_by() {
    let world = World::with(json!({"spec": {"deadline": LONG_AGO}, "metadata": {"generation": 2}}));
    world.settle().await;
    assert_eq!(
        world.reasons(),
        ["TaskCreated", "TaskUpdated", "TaskOverdue"]
    );
    let mut seconds: Vec<_> = world
        .fake
        .list(EVENTS)
        .iter()
        .map(|event| event["lastTimestamp"].as_str().unwrap().to_owned())
        .collect();
    seconds.sort();
    seconds.dedup();
    assert_eq!(seconds.len(), 3, "{seconds:?}");
}

#[tokio::test]
async fn an_edit_and_its_end_are_told() {
    let world = World::with(json!({}));
    world.settle().await;
    world.change(json!({"metadata": {"generation": 2}, "spec": {"taskState": "Finished"}}));
    world.settle().await;
    world.change(going());
    world.settle().await;
    let mut reasons = world.reasons();
    // TaskDeleted waits for no second.
    reasons.sort();
    assert_eq!(
        reasons,
        ["TaskCreated", "TaskDeleted", "TaskFinished", "TaskUpdated"]
    );
}

#[tokio::test]
async fn a_going_task_loses_only_our_finalizer_after_its_event_is_recorded() {
    let world = World::with(going());
    world.settle().await;
    let task = world.fake.get(TASK).unwrap();
    assert_eq!(
        task["metadata"]["finalizers"],
        json!(["somebody.else/finalizer"])
    );
    assert_eq!(task["status"]["emittedEvents"][0]["reason"], "TaskDeleted");
    assert_eq!(world.reasons(), ["TaskDeleted"]);
}

#[tokio::test]
async fn a_going_task_that_only_we_held_is_gone() {
    let world = World::with(
        json!({"metadata": {"deletionTimestamp": LONG_AGO, "finalizers": [FINALIZER]}}),
    );
    world.settle().await;
    assert_eq!(world.fake.get(TASK), None);
}

#[tokio::test]
async fn a_terminating_namespace_that_refuses_events_lets_its_tasks_go() {
    let terminating =
        json!({"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]});
    for (code, reason, details) in [
        (403, "Forbidden", terminating),
        (404, "NotFound", json!({"kind": "namespaces", "name": "n"})),
    ] {
        let world = World::with(going());
        world.fake.fails(move |method, _| {
            (method == Method::POST).then(|| failure(code, reason, details.clone()))
        });
        world.settle().await;
        let task = world.fake.get(TASK).unwrap();
        assert_eq!(
            task["metadata"]["finalizers"],
            json!(["somebody.else/finalizer"]),
            "{code}"
        );
    }
}

#[tokio::test]
async fn a_terminating_namespace_is_no_failure_for_a_task_that_still_lives() {
    let world = World::with(json!({"metadata": {"finalizers": [FINALIZER]}}));
    let terminating =
        json!({"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]});
    world.fake.fails(move |method, _| {
        (method == Method::POST).then(|| failure(403, "Forbidden", terminating.clone()))
    });
    world.step().await.unwrap();
    assert_eq!(
        world.fake.get(TASK).unwrap()["status"],
        Value::Null,
        "nothing is recorded that was not written"
    );
}

#[tokio::test]
async fn an_event_refused_for_another_cause_delays_a_living_task_but_not_a_going_one() {
    let refuse = |method: &Method, _: &str| {
        (method == Method::POST).then(|| failure(403, "Forbidden", json!({})))
    };
    let world = World::with(json!({"metadata": {"finalizers": [FINALIZER]}}));
    world.fake.fails(refuse);
    let error = world.step().await.unwrap_err().to_string();
    assert!(error.contains("TaskCreated of Task n/t"), "{error}");

    let world = World::with(going());
    world.fake.fails(refuse);
    world.settle().await;
    assert_eq!(
        world.fake.get(TASK).unwrap()["metadata"]["finalizers"],
        json!(["somebody.else/finalizer"])
    );
}

#[tokio::test]
async fn a_passing_failure_keeps_the_finalizer_until_the_event_is_written() {
    let world = World::with(going());
    world.fake.fails(|method, _| {
        (method == Method::POST).then(|| failure(500, "InternalError", json!({})))
    });
    world.step().await.unwrap_err();
    assert_eq!(world.task().metadata.finalizers.unwrap().len(), 2);
    world.fake.recovers();
    world.settle().await;
    assert_eq!(world.reasons(), ["TaskDeleted"]);
    assert_eq!(world.task().metadata.finalizers.unwrap().len(), 1);
}

#[tokio::test]
async fn a_decision_on_an_old_state_changes_nothing() {
    let world = World::with(json!({"metadata": {"finalizers": [FINALIZER]}}));
    let old = world.task();
    world.settle().await;
    world.change(json!({"metadata": {"generation": 2}}));
    world.settle().await;
    let now = world.fake.get(TASK);
    let error = world.reconciler.reconcile(&old).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert_eq!(world.fake.get(TASK), now);
    assert_eq!(world.reasons(), ["TaskCreated", "TaskUpdated"]);
}

#[tokio::test]
async fn a_task_that_vanished_meanwhile_is_no_failure() {
    let world = World::with(going());
    let task = world.task();
    world.fake.remove(TASK);
    world.reconciler.reconcile(&task).await.unwrap();
}

#[tokio::test]
async fn waits_after_failures_double_up_to_a_minute_and_start_anew_after_a_success() {
    let world = World::with(json!({"metadata": {"finalizers": [FINALIZER]}}));
    let task = world.task();
    let waits: Vec<_> = (0..9)
        .map(|_| world.reconciler.backoff(&task).as_millis())
        .collect();
    assert_eq!(
        waits,
        [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]
    );
    world.step().await.unwrap();
    assert_eq!(world.reconciler.backoff(&task), Duration::from_millis(500));
}
