//! The samples of `deploy/samples`, created with kubectl, and the wait until all that follows from them has happened.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::kubectl::Kubectl;
use crate::wait;
use crate::workspace::Workspace;

const SETTLED: Duration = Duration::from_secs(60);

/// Creates all samples.
pub(crate) fn create(workspace: &Workspace, kubectl: &Kubectl) -> Result<()> {
    let folder = workspace.root().join("deploy/samples");
    ensure!(folder.is_dir(), "{} is missing", folder.display());
    kubectl.run(["create".as_ref(), "-f".as_ref(), folder.as_os_str()])?;
    Ok(())
}

/// Waits until the controller has observed every Task, and its CombinedTask shows the Task as it now is with at least one Event.
pub(crate) fn settle(kubectl: &Kubectl, mut check: impl FnMut() -> Result<()>) -> Result<()> {
    let mut last_reason = String::new();
    let mut previous = None;
    let waited = wait::until("the samples to settle", SETTLED, || {
        check()?;
        match settled(kubectl) {
            Ok(state) => {
                // Twice the same: no Event is still on its way.
                let done = previous.as_ref() == Some(&state);
                previous = Some(state);
                Ok(done.then_some(()))
            }
            Err(reason) => {
                last_reason = format!("{reason:#}");
                previous = None;
                Ok(None)
            }
        }
    });
    waited.map_err(|error| {
        if last_reason.is_empty() {
            error
        } else {
            error.context(format!("not settled: {last_reason}"))
        }
    })
}

/// The state of all CombinedTasks, or why it is not the last one.
fn settled(kubectl: &Kubectl) -> Result<Vec<String>> {
    let tasks = items(kubectl, "tasks.v1.tasks.example.com")?;
    let combined = items(kubectl, "combinedtasks")?;
    ensure!(!tasks.is_empty(), "there are no Tasks");
    let mut state = Vec::new();
    for task in &tasks {
        let name = full_name(task);
        let generation = task.pointer("/metadata/generation");
        ensure!(
            generation.is_some() && task.pointer("/status/observedGeneration") == generation,
            "the controller has not observed {name}"
        );
        let Some(joined) = combined.iter().find(|joined| full_name(joined) == name) else {
            anyhow::bail!("there is no CombinedTask {name}")
        };
        let version = text(task, "/metadata/resourceVersion");
        ensure!(
            text(joined, "/status/taskResourceVersion") == version,
            "CombinedTask {name} shows an earlier state of its Task"
        );
        let events = joined
            .pointer("/status/events")
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        ensure!(events > 0, "CombinedTask {name} has no Events");
        state.push(format!("{name} {version} {events}"));
    }
    Ok(state)
}

fn items(kubectl: &Kubectl, resource: &str) -> Result<Vec<Value>> {
    let mut list = kubectl.json(["get", resource, "-A", "-o", "json"])?;
    Ok(match list.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    })
}

fn full_name(object: &Value) -> String {
    format!(
        "{}/{}",
        text(object, "/metadata/namespace"),
        text(object, "/metadata/name")
    )
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
