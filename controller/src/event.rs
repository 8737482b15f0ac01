//! The core/v1 Events of a Task.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::api::{Api, PostParams};
use kube::{Client, Resource, ResourceExt};
use sha2::{Digest, Sha256};

use crate::api_error::{brief, is_refusal, namespace_is_gone};
use crate::plan::Occurrence;
use crate::task::{TASK_UID_LABEL, Task};

/// `source.component` and, qualified, `reportingComponent` of the Events.
const COMPONENT: &str = "task-controller";
/// `reportingComponent`: a qualified name, as the Event API asks.
const REPORTING_COMPONENT: &str = "tasks.example.com/task-controller";
/// kube-apiserver takes no longer `reportingInstance`; in bytes.
const REPORTING_INSTANCE_MAX: usize = 128;
/// Object names have at most 253 characters.
const NAME_MAX: usize = 253;
/// Bytes of the digest that stand in an Event's name, in hexadecimal.
const NAME_DIGEST_BYTES: usize = 8;

/// Why an Event is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The controller saw the Task for the first time.
    TaskCreated,
    /// The Task has a new generation.
    TaskUpdated,
    /// `spec.taskState` became Finished.
    TaskFinished,
    /// The deadline passed while the Task was Pending.
    TaskOverdue,
    /// The Task is being deleted.
    TaskDeleted,
}

impl Reason {
    /// The Event's `reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::TaskCreated => "TaskCreated",
            Reason::TaskUpdated => "TaskUpdated",
            Reason::TaskFinished => "TaskFinished",
            Reason::TaskOverdue => "TaskOverdue",
            Reason::TaskDeleted => "TaskDeleted",
        }
    }

    /// The Event's `type`: `Normal` or `Warning`.
    pub fn event_type(self) -> &'static str {
        match self {
            Reason::TaskCreated | Reason::TaskUpdated | Reason::TaskFinished => "Normal",
            Reason::TaskOverdue | Reason::TaskDeleted => "Warning",
        }
    }

    /// The Event's `action`: what the controller did, which the Event API asks for.
    fn action(self) -> &'static str {
        match self {
            Reason::TaskCreated => "Adopt",
            Reason::TaskUpdated | Reason::TaskFinished => "Observe",
            Reason::TaskOverdue => "CheckDeadline",
            Reason::TaskDeleted => "Release",
        }
    }

    /// Whether this happens once in a Task's life, whatever its generation is then.
    fn once_in_a_life(self) -> bool {
        matches!(self, Reason::TaskCreated | Reason::TaskDeleted)
    }
}

/// What became of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It stands, from now or from an earlier attempt.
    Stored,
    /// The namespace takes no new objects: it is being deleted, or is gone.
    NamespaceGone,
}

/// An Event could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write Event {reason} of Task {task}: {}", brief(.source))]
pub struct EventError {
    /// The reason of the Event.
    pub reason: &'static str,
    /// Namespace and name of the Task.
    pub task: String,
    /// What the API server or the connection answered.
    #[source]
    pub source: kube::Error,
}

impl EventError {
    /// Whether the server understood the Event and will not take it, so that
    /// trying again is of no use until somebody changes something.
    pub fn is_refusal(&self) -> bool {
        is_refusal(&self.source)
    }
}

/// Writes Events about Tasks.
#[derive(Clone)]
pub struct EventWriter {
    client: Client,
    instance: String,
}

impl EventWriter {
    /// A writer whose Events say they come from `instance` (such as a Pod's name).
    pub fn new(client: Client, instance: &str) -> Self {
        let instance = cut(instance, REPORTING_INSTANCE_MAX).to_owned();
        Self { client, instance }
    }

    /// Writes the Event, once: its name follows from the Task's uid, the
    /// generation and the reason, so a repeated attempt meets its own first one
    /// and that counts as written.
    ///
    /// # Errors
    /// [`EventError`] when the Event was not stored for any other cause than that
    /// its namespace is going.
    pub async fn write(
        &self,
        task: &Task,
        occurrence: &Occurrence,
        now: Timestamp,
    ) -> Result<Written, EventError> {
        let event = build(task, occurrence, &self.instance, now);
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        match api.create(&PostParams::default(), &event).await {
            Ok(_) => Ok(Written::Stored),
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(Written::Stored),
            Err(error) if namespace_is_gone(&error) => Ok(Written::NamespaceGone),
            Err(source) => Err(EventError {
                reason: occurrence.reason.as_str(),
                task: format!("{namespace}/{}", task.name_any()),
                source,
            }),
        }
    }
}

fn build(task: &Task, occurrence: &Occurrence, instance: &str, now: Timestamp) -> Event {
    let uid = task.metadata.uid.clone().unwrap_or_default();
    let reference = ObjectReference {
        resource_version: task.metadata.resource_version.clone(),
        ..task.object_ref(&())
    };
    Event {
        metadata: ObjectMeta {
            name: Some(event_name(task, occurrence)),
            namespace: task.metadata.namespace.clone(),
            labels: Some([(TASK_UID_LABEL.to_owned(), uid)].into()),
            ..ObjectMeta::default()
        },
        involved_object: reference,
        reason: Some(occurrence.reason.as_str().into()),
        message: Some(occurrence.message.clone()),
        type_: Some(occurrence.reason.event_type().into()),
        action: Some(occurrence.reason.action().into()),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        event_time: Some(MicroTime(now)),
        source: Some(EventSource {
            component: Some(COMPONENT.into()),
            host: None,
        }),
        reporting_component: Some(REPORTING_COMPONENT.into()),
        reporting_instance: Some(instance.into()),
        ..Event::default()
    }
}

/// `<task>.<digest>`, the form that Kubernetes' own recorders give Event names.
fn event_name(task: &Task, occurrence: &Occurrence) -> String {
    let uid = task.metadata.uid.as_deref().unwrap_or_default();
    let reason = occurrence.reason;
    // A Task that is edited between the writing of a once-in-a-life Event and its
    // record must not get a second one.
    let generation = if reason.once_in_a_life() {
        0
    } else {
        occurrence.generation
    };
    let digest = Sha256::digest(format!("{uid}/{generation}/{}", reason.as_str()));
    let suffix: String = digest
        .iter()
        .take(NAME_DIGEST_BYTES)
        .map(|byte| format!("{byte:02x}"))
        .collect();

    let name = task.metadata.name.as_deref().unwrap_or_default();
    // A label of a DNS name neither ends in a hyphen nor is empty.
    let name = cut(name, NAME_MAX - 1 - suffix.len()).trim_end_matches(['-', '.']);
    format!("{name}.{suffix}")
}

/// The longest beginning of `text` of at most `max` bytes.
fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn task() -> Task {
        serde_json::from_value(json!({"metadata": {
            "name": "write-runbook", "namespace": "team-a", "uid": "u-1", "resourceVersion": "42", "generation": 3,
        }}))
        .unwrap()
    }

    fn occurrence(reason: Reason, generation: i64) -> Occurrence {
        Occurrence {
            reason,
            generation,
            message: "what happened".into(),
        }
    }

    #[test]
    fn an_event_says_all_that_the_event_api_asks_for() {
        let now: Timestamp = "2026-02-03T04:05:06.123456Z".parse().unwrap();
        let event = build(&task(), &occurrence(Reason::TaskOverdue, 3), "pod-1", now);
        let mut event = serde_json::to_value(event).unwrap();
        let name = event["metadata"]["name"].take();
        assert!(
            name.as_str().unwrap().starts_with("write-runbook."),
            "{name}"
        );
        assert_eq!(
            event,
            json!({
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {
                    "name": null, "namespace": "team-a", "labels": {"tasks.example.com/task-uid": "u-1"},
                },
                "involvedObject": {
                    "apiVersion": "tasks.example.com/v1", "kind": "Task", "name": "write-runbook",
                    "namespace": "team-a", "uid": "u-1", "resourceVersion": "42",
                },
                "type": "Warning",
                "reason": "TaskOverdue",
                "action": "CheckDeadline",
                "message": "what happened",
                "count": 1,
                "firstTimestamp": "2026-02-03T04:05:06Z",
                "lastTimestamp": "2026-02-03T04:05:06Z",
                "eventTime": "2026-02-03T04:05:06.123456Z",
                "source": {"component": "task-controller"},
                "reportingComponent": "tasks.example.com/task-controller",
                "reportingInstance": "pod-1",
            })
        );
    }

    #[test]
    fn deletion_and_lateness_are_warnings_all_else_is_normal() {
        use Reason::{TaskCreated, TaskDeleted, TaskFinished, TaskOverdue, TaskUpdated};
        let types = [
            TaskCreated,
            TaskUpdated,
            TaskFinished,
            TaskOverdue,
            TaskDeleted,
        ]
        .map(Reason::event_type);
        assert_eq!(types, ["Normal", "Normal", "Normal", "Warning", "Warning"]);
    }

    #[test]
    fn the_name_of_an_event_follows_from_uid_generation_and_reason() {
        let name = |reason, generation| event_name(&task(), &occurrence(reason, generation));
        assert_eq!(name(Reason::TaskUpdated, 3), name(Reason::TaskUpdated, 3));
        assert_ne!(name(Reason::TaskUpdated, 3), name(Reason::TaskUpdated, 4));
        assert_ne!(name(Reason::TaskUpdated, 3), name(Reason::TaskOverdue, 3));

        let mut namesake = task();
        namesake.metadata.uid = Some("u-2".into());
        assert_ne!(
            name(Reason::TaskUpdated, 3),
            event_name(&namesake, &occurrence(Reason::TaskUpdated, 3))
        );
    }

    #[test]
    fn creation_and_deletion_have_one_name_in_a_tasks_life() {
        for reason in [Reason::TaskCreated, Reason::TaskDeleted] {
            let name = |generation| event_name(&task(), &occurrence(reason, generation));
            assert_eq!(name(1), name(2));
        }
    }

    #[test]
    fn the_name_of_an_event_is_a_dns_subdomain_also_for_the_longest_task_name() {
        let mut long = task();
        // Cut to size, this name would end in a hyphen.
        long.metadata.name = Some(format!("{}--{}", "a".repeat(235), "b".repeat(16)));
        let name = event_name(&long, &occurrence(Reason::TaskCreated, 1));
        assert!(name.len() <= NAME_MAX, "{}", name.len());
        assert!(name.starts_with(&format!("{}.", "a".repeat(235))), "{name}");
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(cut("aéb", 2), "a");
        assert_eq!(cut("aéb", 3), "aé");
        assert_eq!(cut("aéb", 9), "aéb");
    }
}
