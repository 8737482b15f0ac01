//! Does what [`decide`] says.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::api_error::{brief, is_refusal};
use crate::event::{EventError, EventWriter, Written};
use crate::plan::{Occurrence, Plan, decide, observed, whole_seconds};
use crate::task::{EmittedEvent, FINALIZER, Task, TaskStatus};

/// Requests in flight at once. Reconciliations themselves are not bounded, for
/// they may wait for the clock.
const CONCURRENT_CALLS: usize = 16;
/// The longest that one request may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The wait after the first failure; it doubles with each further one.
const FIRST_RETRY: Duration = Duration::from_millis(500);
/// The longest wait after a failure.
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// The wait before a second look at a Task that lives in a namespace that is going.
const GOING_NAMESPACE_RECHECK: Duration = Duration::from_secs(60);

/// A reconciliation that has to be repeated.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// An Event could not be written.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The Task's finalizer or status could not be patched.
    #[error("cannot patch the {what} of Task {task}: {}", brief(.source))]
    Patch {
        /// `finalizer` or `status`.
        what: &'static str,
        /// Namespace and name of the Task.
        task: String,
        /// What the API server or the connection answered.
        #[source]
        source: kube::Error,
    },
    /// The API server did not answer in time.
    #[error("no answer from the API server within {} s", CALL_TIMEOUT.as_secs())]
    Timeout,
}

impl ReconcileError {
    /// Whether the Task was changed meanwhile. That is usual: the watch brings
    /// the new state.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Patch { source: kube::Error::Api(status), .. } if status.is_conflict())
    }
}

/// Brings one Task at a time to where [`decide`] wants it.
pub struct TaskReconciler {
    client: Client,
    events: EventWriter,
    calls: Semaphore,
    failures: Mutex<HashMap<String, u32>>,
}

impl TaskReconciler {
    /// A reconciler whose Events name `instance` as their reporter.
    pub fn new(client: Client, instance: &str) -> Self {
        Self {
            events: EventWriter::new(client.clone(), instance),
            client,
            calls: Semaphore::new(CONCURRENT_CALLS),
            failures: Mutex::default(),
        }
    }

    /// Does one step for `task` and says when to look again.
    ///
    /// Every write carries the resourceVersion that the decision was made on, so
    /// a decision on an old state changes nothing.
    ///
    /// # Errors
    /// [`ReconcileError`] when a step failed; all of it may be repeated.
    pub async fn reconcile(&self, task: &Task) -> Result<Action, ReconcileError> {
        let action = match decide(task, Timestamp::now()) {
            Plan::Ignore => Action::await_change(),
            Plan::Adopt => {
                self.adopt(task).await?;
                Action::await_change()
            }
            Plan::Observe { events, recheck } => self.observe(task, &events, recheck).await?,
            Plan::Release { event } => {
                self.release(task, event).await?;
                Action::await_change()
            }
        };
        self.forget(&key(task));
        Ok(action)
    }

    /// How long to wait after one more failure with `task`: doubling, up to a minute.
    pub fn backoff(&self, task: &Task) -> Duration {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(key(task)).or_default();
        let wait = FIRST_RETRY.saturating_mul(1 << (*count).min(16));
        *count += 1;
        wait.min(LONGEST_RETRY)
    }

    /// Drops the count of failures of a Task, by `namespace/name`.
    pub fn forget(&self, key: &str) {
        self.failures
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(key);
    }

    /// The patched Task comes back through the watch, and with it the next step.
    async fn adopt(&self, task: &Task) -> Result<(), ReconcileError> {
        let mut finalizers = task.finalizers().to_vec();
        finalizers.push(FINALIZER.into());
        let _adopted = self
            .patch_finalizers(task, task.resource_version(), &finalizers)
            .await?;
        tracing::debug!(task = key(task), "holds the Task with the finalizer");
        Ok(())
    }

    async fn observe(
        &self,
        task: &Task,
        events: &[Occurrence],
        recheck: Option<Duration>,
    ) -> Result<Action, ReconcileError> {
        let mut status = task.status.clone();
        for event in events {
            wait_for_a_later_second(&status).await;
            if self.tell(task, event, &mut status).await? == Written::NamespaceGone {
                tracing::info!(
                    task = key(task),
                    "the namespace is being deleted and takes no Events"
                );
                return Ok(Action::requeue(GOING_NAMESPACE_RECHECK));
            }
        }
        let status = observed(task, status, Timestamp::now());
        if status != task.status {
            let _patched = self.patch_status(task, &status).await?;
        }
        Ok(recheck.map_or_else(Action::await_change, Action::requeue))
    }

    /// The end of a Task is held up only by what may pass: neither a namespace
    /// that takes no more Events nor a server that refuses this one, or its
    /// record, keeps the finalizer on.
    async fn release(&self, task: &Task, event: Option<Occurrence>) -> Result<(), ReconcileError> {
        let mut version = task.resource_version();
        if let Some(event) = event {
            let mut status = task.status.clone();
            match self.tell(task, &event, &mut status).await {
                // Recorded, because a finalizer of somebody else may keep the Task for long.
                Ok(Written::Stored) => match self.patch_status(task, &status).await {
                    Ok(Some(patched)) => version = patched.resource_version(),
                    Ok(None) => return Ok(()),
                    Err(ReconcileError::Patch { source, .. }) if is_refusal(&source) => {
                        tracing::warn!(
                            task = key(task),
                            error = brief(&source),
                            "lets the Task go without the Event's record"
                        );
                    }
                    Err(error) => return Err(error),
                },
                Ok(Written::NamespaceGone) => {
                    tracing::info!(
                        task = key(task),
                        "the namespace is being deleted and takes no Events"
                    );
                }
                Err(ReconcileError::Event(error)) if error.is_refusal() => {
                    tracing::warn!(task = key(task), %error, "lets the Task go without its Event");
                }
                Err(error) => return Err(error),
            }
        }
        let others: Vec<String> = task
            .finalizers()
            .iter()
            .filter(|one| *one != FINALIZER)
            .cloned()
            .collect();
        let _released = self.patch_finalizers(task, version, &others).await?;
        tracing::debug!(task = key(task), "lets the Task go");
        Ok(())
    }

    async fn tell(
        &self,
        task: &Task,
        event: &Occurrence,
        status: &mut TaskStatus,
    ) -> Result<Written, ReconcileError> {
        let now = Timestamp::now();
        let written = self.call(self.events.write(task, event, now)).await??;
        if written == Written::Stored {
            tracing::info!(
                task = key(task),
                reason = event.reason.as_str(),
                generation = event.generation,
                "Event"
            );
            status.record(EmittedEvent {
                reason: event.reason.as_str().into(),
                generation: event.generation,
                time: whole_seconds(now),
            });
        }
        Ok(written)
    }

    async fn patch_status(
        &self,
        task: &Task,
        status: &TaskStatus,
    ) -> Result<Option<Task>, ReconcileError> {
        let patch =
            json!({"metadata": {"resourceVersion": task.resource_version()}, "status": status});
        let (api, name) = (self.api(task), task.name_any());
        let call = async {
            api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch))
                .await
        };
        self.patched("status", task, self.call(call).await?)
    }

    async fn patch_finalizers(
        &self,
        task: &Task,
        version: Option<String>,
        finalizers: &[String],
    ) -> Result<Option<Task>, ReconcileError> {
        let patch: Value =
            json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
        let (api, name) = (self.api(task), task.name_any());
        let call = async {
            api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
                .await
        };
        self.patched("finalizer", task, self.call(call).await?)
    }

    /// A Task that is gone needs nothing more: `None`.
    fn patched(
        &self,
        what: &'static str,
        task: &Task,
        result: Result<Task, kube::Error>,
    ) -> Result<Option<Task>, ReconcileError> {
        match result {
            Ok(patched) => Ok(Some(patched)),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(source) => Err(ReconcileError::Patch {
                what,
                task: key(task),
                source,
            }),
        }
    }

    async fn call<F: Future>(&self, call: F) -> Result<F::Output, ReconcileError> {
        // The semaphore is never closed; were it, calls would merely go unbounded.
        let _permit = self.calls.acquire().await.ok();
        tokio::time::timeout(CALL_TIMEOUT, call)
            .await
            .map_err(|_elapsed| ReconcileError::Timeout)
    }

    fn api(&self, task: &Task) -> Api<Task> {
        Api::namespaced(self.client.clone(), &task.namespace().unwrap_or_default())
    }
}

/// `namespace/name`, as logs and the count of failures name a Task.
fn key(task: &Task) -> String {
    format!(
        "{}/{}",
        task.namespace().unwrap_or_default(),
        task.name_any()
    )
}

/// Waits until the clock shows a later second than that of the last Event.
///
/// An Event's `lastTimestamp` has whole seconds, and who reads a Task's Events
/// orders them by it: two of one second would come in any order, and a Task that
/// is created overdue would seem to have been created last. Whoever set the
/// clock back waits for one second, not for the old time.
async fn wait_for_a_later_second(status: &TaskStatus) {
    let Some(last) = status
        .emitted_events
        .iter()
        .map(|event| event.time.0.as_second())
        .max()
    else {
        return;
    };
    let now = Timestamp::now();
    if now.as_second() <= last {
        let into_the_second = Duration::from_nanos(now.subsec_nanosecond().unsigned_abs().into());
        tokio::time::sleep(Duration::from_secs(1).saturating_sub(into_the_second)).await;
    }
}
