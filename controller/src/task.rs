//! The Task as far as the controller reads it.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use kube::core::{NamespaceResourceScope, Resource};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

/// The API group of Task.
pub const GROUP: &str = "tasks.example.com";

/// The version of Task that the controller reads and writes.
pub const VERSION: &str = "v1";

/// The finalizer with which the controller holds a Task until TaskDeleted is written.
pub const FINALIZER: &str = "tasks.example.com/finalizer";

/// The label on Events whose value is the uid of the Task that they are about.
pub const TASK_UID_LABEL: &str = "tasks.example.com/task-uid";

/// A Task (`tasks.example.com/v1`, namespaced).
///
/// Only what the controller reads stands here, and it is read leniently: one
/// Task that an older schema let in must not stop the watch on all others. A
/// Task is therefore never written as a whole, only patched.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// What is wanted of the Task.
    #[serde(default, deserialize_with = "lenient")]
    pub spec: TaskSpec,
    /// What this controller has observed.
    #[serde(default, deserialize_with = "lenient")]
    pub status: TaskStatus,
}

/// The part of a Task's spec that decides which Events are written.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct TaskSpec {
    /// When the Task has to be finished, an RFC 3339 timestamp.
    #[serde(default, deserialize_with = "lenient")]
    pub deadline: Option<String>,
    /// `Pending` (also when left out) or `Finished`.
    #[serde(default, deserialize_with = "lenient")]
    pub task_state: Option<String>,
}

impl TaskSpec {
    /// Whether the Task is done.
    pub fn is_finished(&self) -> bool {
        self.task_state.as_deref() == Some("Finished")
    }
}

/// The status that the controller writes.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TaskStatus {
    /// The `metadata.generation` that was handled last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The controller's conditions and, untouched, those of others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The last Event of each reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub emitted_events: Vec<EmittedEvent>,
}

/// A record that an Event was written, kept in the Task's status.
///
/// There is one entry a reason, so the record does not grow with the Task's life.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct EmittedEvent {
    /// The Event's reason, such as `TaskUpdated`.
    pub reason: String,
    /// The `metadata.generation` that the Event was about.
    pub generation: i64,
    /// When it was written, to the second.
    pub time: Time,
}

impl TaskStatus {
    /// The record of the last Event with this reason.
    pub fn emitted(&self, reason: &str) -> Option<&EmittedEvent> {
        self.emitted_events
            .iter()
            .find(|event| event.reason == reason)
    }

    /// Records an Event in the place of an earlier one with its reason.
    pub fn record(&mut self, event: EmittedEvent) {
        match self
            .emitted_events
            .iter_mut()
            .find(|known| known.reason == event.reason)
        {
            Some(known) => *known = event,
            None => self.emitted_events.push(event),
        }
    }

    /// Whether the condition of this type is `True`.
    pub fn is_true(&self, type_: &str) -> bool {
        self.conditions
            .iter()
            .any(|condition| condition.type_ == type_ && condition.status == "True")
    }

    /// Sets a condition in the place of an earlier one of its type.
    ///
    /// `lastTransitionTime` stays what it was when `status` does not change, as
    /// the API conventions ask.
    pub fn set_condition(&mut self, mut condition: Condition) {
        match self
            .conditions
            .iter_mut()
            .find(|known| known.type_ == condition.type_)
        {
            Some(known) => {
                if known.status == condition.status {
                    condition.last_transition_time = known.last_transition_time.clone();
                }
                *known = condition;
            }
            None => self.conditions.push(condition),
        }
    }
}

impl Resource for Task {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "Task".into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        VERSION.into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        "tasks".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Reads a value of the wrong shape as the default instead of failing.
fn lenient<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn condition(status: &str, at: &str) -> Condition {
        Condition {
            type_: "Overdue".into(),
            status: status.into(),
            last_transition_time: Time(at.parse().unwrap()),
            message: String::new(),
            observed_generation: Some(1),
            reason: "Because".into(),
        }
    }

    #[test]
    fn a_task_with_a_malformed_spec_and_status_is_still_read() {
        let task: Task = serde_json::from_value(json!({
            "metadata": {"name": "t", "finalizers": [FINALIZER]},
            "spec": {"deadline": 7, "taskState": "Finished", "priority": "high"},
            "status": "broken",
        }))
        .unwrap();
        assert_eq!(task.spec.deadline, None);
        assert!(task.spec.is_finished());
        assert_eq!(task.status, TaskStatus::default());
    }

    #[test]
    fn a_task_without_spec_and_status_is_read() {
        let task: Task = serde_json::from_value(json!({"metadata": {"name": "t"}})).unwrap();
        assert!(!task.spec.is_finished());
    }

    #[test]
    fn the_path_of_a_task_names_group_version_namespace_and_plural() {
        assert_eq!(
            Task::url_path(&(), Some("a")),
            "/apis/tasks.example.com/v1/namespaces/a/tasks"
        );
    }

    #[test]
    fn the_record_keeps_one_entry_a_reason() {
        let mut status = TaskStatus::default();
        for generation in 1..=100 {
            for reason in ["TaskUpdated", "TaskFinished"] {
                let time = Time("2026-01-01T00:00:00Z".parse().unwrap());
                status.record(EmittedEvent {
                    reason: reason.into(),
                    generation,
                    time,
                });
            }
        }
        assert_eq!(status.emitted_events.len(), 2);
        assert_eq!(status.emitted("TaskUpdated").unwrap().generation, 100);
        assert_eq!(status.emitted("TaskDeleted"), None);
    }

    #[test]
    fn a_condition_keeps_its_transition_time_until_its_status_changes() {
        let mut status = TaskStatus::default();
        status.set_condition(condition("False", "2026-01-01T00:00:00Z"));
        status.set_condition(condition("False", "2026-01-02T00:00:00Z"));
        assert_eq!(
            status.conditions,
            [condition("False", "2026-01-01T00:00:00Z")]
        );
        assert!(!status.is_true("Overdue"));

        status.set_condition(condition("True", "2026-01-03T00:00:00Z"));
        assert_eq!(
            status.conditions,
            [condition("True", "2026-01-03T00:00:00Z")]
        );
        assert!(status.is_true("Overdue"));
    }
}
