//! With no cluster at all.

use crate::checks::{checks, checks_of_both};
use crate::shared::standalone;

checks_of_both! { standalone }

checks! {
    standalone;
    stored::a_deleted_namespace_takes_its_objects_with_it,
    plugins::a_claim_on_another_plugins_resource_is_refused_until_that_is_gone,
    kubectl::core_objects_are_created_applied_edited_and_deleted,
    up::up_says_what_is_wrong_and_ends_on_a_signal,
}

/// What was written before a crash is there after it, and the samples with their Events.
#[test]
fn a_crash_of_the_host_loses_nothing() {
    let environment = standalone();
    let _gate = environment.alone();
    environment
        .kubectl()
        .run(["create", "namespace", "crash"])
        .unwrap();
    environment
        .kubectl()
        .run_with_input(
            ["create", "-f", "-"],
            &crate::fixtures::custom_task("crash", "written").to_string(),
        )
        .unwrap();
    let before = environment
        .kubectl()
        .run(["get", "combinedtasks", "-A", "-o", "name"])
        .unwrap();
    environment.restart_host(true).unwrap();
    assert_eq!(
        environment
            .kubectl()
            .run(["get", "combinedtasks", "-A", "-o", "name"])
            .unwrap(),
        before
    );
    environment
        .kubectl()
        .run(["get", "customtask", "written", "-n", "crash"])
        .unwrap();
    environment
        .kubectl()
        .run(["delete", "namespace", "crash", "--wait=false"])
        .unwrap();
}
