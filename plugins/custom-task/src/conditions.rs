use joinery_sdk::time::Timestamp;
use serde_json::{Value, json};

use crate::child;

/// Writes the conditions that follow from the spec. Others, and the time since when one holds, stay.
pub(crate) fn write(task: &mut Value, now: Timestamp) {
    let finished = task["spec"]["taskState"] == "Finished";
    let (status, reason, message) = if finished {
        ("True", "Finished", "spec.taskState is Finished")
    } else {
        ("False", "Pending", "spec.taskState is Pending")
    };
    let status_fields = child(task, "status");
    let conditions = status_fields
        .entry("conditions")
        .or_insert_with(|| json!([]));
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    if let Value::Array(conditions) = conditions {
        set(
            conditions,
            now,
            "Accepted",
            "True",
            "Valid",
            "the spec is complete and valid",
        );
        set(conditions, now, "Finished", status, reason, message);
    }
}

fn set(
    conditions: &mut Vec<Value>,
    now: Timestamp,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
) {
    let old = conditions.iter_mut().find(|c| c["type"] == kind);
    let since = match &old {
        Some(old) if old["status"] == status => old["lastTransitionTime"].clone(),
        _ => Value::Null,
    };
    let since = if since.is_string() {
        since
    } else {
        Value::from(now.to_string())
    };
    let condition = json!({
        "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since,
    });
    match old {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
}
