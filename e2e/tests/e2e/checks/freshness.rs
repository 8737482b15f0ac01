//! A view trails its sources, but never so that a user notices.

use crate::fixtures::{Namespace, task};
use crate::shared::{Shared, count};

/// `kubectl apply` of a Task and at once `kubectl get combinedtask` of it.
pub(crate) fn a_task_just_applied_is_never_not_found(environment: &Shared) {
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "fresh");
    let mut missed = Vec::new();
    for number in 0..count(200) {
        let name = format!("fresh-{number}");
        environment
            .kubectl()
            .run_with_input(
                ["apply", "-f", "-"],
                &task(&namespace.name, &name, 1).to_string(),
            )
            .unwrap();
        let output = environment
            .kubectl()
            .output([
                "get",
                "combinedtask",
                &name,
                "-n",
                &namespace.name,
                "-o",
                "name",
            ])
            .unwrap();
        if !output.status.success() {
            missed.push(format!(
                "{name}: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            ));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
