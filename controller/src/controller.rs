//! Feeds the reconciler from a watch on all Tasks.

use std::sync::Arc;

use futures::StreamExt;
use kube::api::Api;
use kube::runtime::controller::{Action, Error};
use kube::runtime::{Controller, watcher};
use kube::{Client, ResourceExt};

use crate::api_error::brief;
use crate::reconcile::{ReconcileError, TaskReconciler};
use crate::task::Task;

/// Runs until `stop`, then lets the reconciliations that are under way finish.
///
/// Failures of the watch and of single Tasks are logged and tried again, each
/// with a growing wait. When the future is dropped, reconciliations under way
/// are aborted: a process that lost its Lease must write nothing more.
pub async fn run(
    client: Client,
    reconciler: Arc<TaskReconciler>,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let forgetful = Arc::clone(&reconciler);
    Controller::new(Api::<Task>::all(client), watcher::Config::default())
        .graceful_shutdown_on(stop)
        .run(reconcile, after_failure, reconciler)
        .for_each(|outcome| {
            match outcome {
                // Those of single Tasks are logged in after_failure, with the wait that follows.
                Ok(_) | Err(Error::ReconcilerFailed(..)) => {}
                // Deleted while it waited for its turn.
                Err(Error::ObjectNotFound(task)) => {
                    forgetful.forget(&format!(
                        "{}/{}",
                        task.namespace.unwrap_or_default(),
                        task.name
                    ));
                }
                Err(Error::QueueError(error)) => log_watch_failure(&error),
                Err(Error::RunnerError(error)) => {
                    tracing::error!(%error, "cannot run reconciliations")
                }
            }
            futures::future::ready(())
        })
        .await;
}

async fn reconcile(
    task: Arc<Task>,
    reconciler: Arc<TaskReconciler>,
) -> Result<Action, ReconcileError> {
    reconciler.reconcile(&task).await
}

fn after_failure(
    task: Arc<Task>,
    error: &ReconcileError,
    reconciler: Arc<TaskReconciler>,
) -> Action {
    let wait = reconciler.backoff(&task);
    let namespace = task.namespace().unwrap_or_default();
    let name = task.name_any();
    if error.is_conflict() {
        tracing::debug!(task = %format_args!("{namespace}/{name}"), %error, "changed meanwhile, decides anew");
    } else {
        tracing::warn!(task = %format_args!("{namespace}/{name}"), %error, ?wait, "will try again");
    }
    Action::requeue(wait)
}

fn log_watch_failure(error: &watcher::Error) {
    let (error, code) = match error {
        watcher::Error::InitialListFailed(source)
        | watcher::Error::WatchStartFailed(source)
        | watcher::Error::WatchFailed(source) => match source {
            kube::Error::Api(status) => (brief(source), status.code),
            _ => (brief(source), 0),
        },
        watcher::Error::WatchError(status) => (status.message.clone(), status.code),
        watcher::Error::NoResourceVersion => (error.to_string(), 0),
    };
    match code {
        410 => tracing::debug!(error, "the watch is too old, lists anew"),
        404 => tracing::warn!(
            error,
            "cannot watch Tasks: is the CRD tasks.tasks.example.com installed? Will try again"
        ),
        _ => tracing::warn!(error, "cannot watch Tasks, will try again"),
    }
}
