//! What is joined: Tasks, and Events about them, like those that the Task controller writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::client::{Ask, JSON, Target};

pub(crate) const NAMESPACE: &str = "default";
const TASKS: &str = "/apis/tasks.example.com/v1/namespaces/default/tasks";
const EVENTS: &str = "/api/v1/namespaces/default/events";
/// Requests at once.
const AT_ONCE: usize = 32;

pub(crate) fn task_name(number: usize) -> String {
    format!("task-{number:06}")
}

/// Tasks with their uids.
pub(crate) struct Data {
    uids: Vec<String>,
}

impl Data {
    /// Creates Tasks, each with Events, and gives their uids.
    pub(crate) async fn create(target: &Target, tasks: usize, events: usize) -> Result<Data> {
        let mut data = Data { uids: Vec::new() };
        data.grow(target, tasks, events).await?;
        Ok(data)
    }

    /// Creates Tasks until there are so many, each with Events.
    pub(crate) async fn grow(
        &mut self,
        target: &Target,
        tasks: usize,
        events: usize,
    ) -> Result<()> {
        let first = self.uids.len();
        let answers = all(target, tasks.saturating_sub(first), move |number| {
            let name = task_name(first + number);
            Ask::write("POST", TASKS, JSON, task(&name).to_string())
        })
        .await?;
        for answer in answers {
            let answer: Value = serde_json::from_slice(&answer)?;
            let uid = answer.pointer("/metadata/uid").and_then(Value::as_str);
            self.uids.push(uid.context("a Task has no uid")?.to_owned());
        }
        let uids: Arc<[String]> = self.uids[first..].into();
        all(target, uids.len() * events, move |number| {
            let (task, event) = (number / events, number % events);
            let name = format!("{}.{event:04}", task_name(first + task));
            self::event(&name, first + task, &uids[task], "TaskUpdated", "")
        })
        .await?;
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.uids.len()
    }

    /// A further Event about a Task, with a mark in its message.
    pub(crate) fn marked(&self, task: usize, name: &str, mark: &str) -> Ask {
        event(name, task, &self.uids[task], "TaskMarked", mark)
    }
}

/// A Task as a user and the controller write it.
fn task(name: &str) -> Value {
    json!({
        "apiVersion": "tasks.example.com/v1", "kind": "Task",
        "metadata": {
            "name": name, "namespace": NAMESPACE,
            "labels": {"tasks.example.com/team": "platform"},
            "annotations": {"tasks.example.com/requested-by": "on-call"},
        },
        "spec": {
            "priority": 5, "deadline": "2097-11-11T11:11:11Z", "taskState": "Pending",
            "details": "Write the runbook for a full disk: what to look at first, what may be deleted, whom to wake.",
        },
    })
}

/// An Event of about a kilobyte, as the controller's recorder writes it.
fn event(name: &str, task: usize, uid: &str, reason: &str, mark: &str) -> Ask {
    let now = "2026-01-01T00:00:00Z";
    let object = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"tasks.example.com/task-uid": uid}},
        "involvedObject": {
            "apiVersion": "tasks.example.com/v1", "kind": "Task", "namespace": NAMESPACE, "name": task_name(task), "uid": uid,
        },
        "reason": reason, "type": "Normal", "action": "Reconcile", "count": 1,
        "firstTimestamp": now,
        // What is marked comes last.
        "lastTimestamp": if mark.is_empty() { now } else { "2026-01-02T00:00:00Z" },
        "message": format!(
            "The spec changed: priority is 5 and was 3, deadline is 2097-11-11T11:11:11Z and was unset, taskState is Pending. {mark}"
        ),
        "reportingComponent": "tasks.example.com/joinery-controller", "reportingInstance": "joinery-controller-0",
        "source": {"component": "joinery-controller"},
    });
    Ask::write("POST", EVENTS, JSON, object.to_string())
}

/// Sends many writes, several at once; gives the answers in order.
async fn all(
    target: &Target,
    count: usize,
    ask: impl Fn(usize) -> Ask + Send + Sync + 'static,
) -> Result<Vec<Bytes>> {
    let (ask, next) = (Arc::new(ask), Arc::new(AtomicUsize::new(0)));
    let workers = (0..AT_ONCE.min(count)).map(|_| {
        let (ask, next, target) = (ask.clone(), next.clone(), target.clone());
        let work = tokio::spawn(async move {
            let mut connection = target.connect().await?;
            let mut answers = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return Ok::<_, anyhow::Error>(answers);
                }
                answers.push((number, connection.must(&ask(number)).await?));
            }
        });
        async { work.await? }
    });
    let mut answers: Vec<_> = try_join_all(workers).await?.into_iter().flatten().collect();
    ensure!(answers.len() == count, "not all writes were sent");
    answers.sort_by_key(|(number, _)| *number);
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}
