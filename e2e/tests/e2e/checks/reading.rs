//! get and list with kubectl, as the documentation shows them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::fixtures::{UID_LABEL, events_of, text};
use crate::shared::Shared;

const SAMPLES: [&str; 5] = [
    "task-sample-1",
    "task-sample-2",
    "task-sample-3",
    "task-sample-4",
    "task-sample-5",
];

/// `kubectl get combinedtasks -A` shows the samples, each with the number of its Events.
pub(crate) fn the_samples_are_listed_with_their_events_counted(environment: &Shared) {
    let _gate = environment.in_common();
    let printed = environment
        .kubectl()
        .run(["get", "combinedtasks", "-A"])
        .unwrap();
    let (columns, rows) = table(&printed);
    assert_eq!(
        columns,
        [
            "NAMESPACE",
            "NAME",
            "PRIORITY",
            "DEADLINE",
            "STATE",
            "EVENTS",
            "LAST EVENT",
            "AGE"
        ],
        "{printed}"
    );
    for name in SAMPLES {
        let row = rows
            .iter()
            .find(|row| row["NAMESPACE"] == "default" && row["NAME"] == name)
            .unwrap_or_else(|| panic!("no {name} in\n{printed}"));
        let task = environment
            .kubectl()
            .json(["get", "tasks", name, "-o", "json"])
            .unwrap();
        assert_eq!(
            row["PRIORITY"],
            task["spec"]["priority"].to_string(),
            "{printed}"
        );
        assert_eq!(row["DEADLINE"], text(&task, "/spec/deadline"), "{printed}");
        assert_eq!(row["STATE"], text(&task, "/spec/taskState"), "{printed}");
        let selector = format!("{UID_LABEL}={}", text(&task, "/metadata/uid"));
        let events = environment
            .kubectl()
            .json(["get", "events", "-l", &selector, "-o", "json"])
            .unwrap();
        let count = events["items"].as_array().unwrap().len();
        assert!(count > 0, "the controller wrote no Event of {name}");
        assert_eq!(row["EVENTS"], count.to_string(), "{printed}");
    }
}

/// One CombinedTask by name is one object, never a list, with the Task as it is and its Events inside.
pub(crate) fn one_by_name_is_one_object_with_its_events_inside(environment: &Shared) {
    let _gate = environment.in_common();
    let yaml = environment
        .kubectl()
        .run([
            "get",
            "combinedtasks",
            "-n",
            "default",
            "task-sample-5",
            "-o",
            "yaml",
        ])
        .unwrap();
    assert!(
        yaml.starts_with("apiVersion: aggregated.tasks.example.com/v1\nkind: CombinedTask\n"),
        "{yaml}"
    );

    let combined = environment
        .kubectl()
        .json(["get", "combinedtasks", "task-sample-5", "-o", "json"])
        .unwrap();
    let task = environment
        .kubectl()
        .json(["get", "tasks", "task-sample-5", "-o", "json"])
        .unwrap();
    for same in [
        "/spec",
        "/metadata/uid",
        "/metadata/namespace",
        "/metadata/generation",
        "/metadata/creationTimestamp",
        "/metadata/labels",
    ] {
        assert_eq!(combined.pointer(same), task.pointer(same), "{same}");
    }
    assert_eq!(
        text(&combined, "/status/taskResourceVersion"),
        text(&task, "/metadata/resourceVersion")
    );
    assert_ne!(
        text(&combined, "/metadata/resourceVersion"),
        text(&task, "/metadata/resourceVersion"),
        "the view has its own"
    );
    assert!(
        !yaml.contains("managedFields") && !yaml.contains("last-applied-configuration"),
        "{yaml}"
    );

    let events = events_of(&combined);
    assert!(
        events
            .iter()
            .any(|event| text(event, "/reason") == "TaskCreated"),
        "{yaml}"
    );
    for event in events {
        assert_eq!(
            (text(event, "/apiVersion"), text(event, "/kind")),
            ("v1", "Event")
        );
        assert_eq!(
            text(event, "/involvedObject/uid"),
            text(&task, "/metadata/uid")
        );
    }
    let times: Vec<&str> = events.iter().map(time_of).collect();
    assert!(times.is_sorted(), "oldest first: {times:?}");
}

/// `kubectl explain combinedtasks.status` knows the view's schema.
pub(crate) fn explain_knows_the_fields_of_the_status(environment: &Shared) {
    let _gate = environment.in_common();
    let said = environment
        .kubectl()
        .run(["explain", "combinedtasks.status"])
        .unwrap();
    for word in [
        "CombinedTask",
        "aggregated.tasks.example.com",
        "events",
        "taskResourceVersion",
    ] {
        assert!(said.contains(word), "no {word} in\n{said}");
    }
    let said = environment
        .kubectl()
        .run(["explain", "combinedtasks.spec.priority"])
        .unwrap();
    assert!(said.contains("integer"), "{said}");
}

/// What discovery says must not make kubectl complain.
pub(crate) fn kubectl_finds_all_three_resources_without_a_complaint(environment: &Shared) {
    let _gate = environment.in_common();
    let output = environment
        .kubectl()
        .output(["api-resources", "--cached=false"])
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for (resource, namespaced) in [
        ("clustertasks", "false"),
        ("combinedtasks", "true"),
        ("customtasks", "true"),
    ] {
        let line = printed
            .lines()
            .find(|line| line.starts_with(resource))
            .unwrap_or_else(|| panic!("no {resource} in\n{printed}"));
        assert!(
            line.split_whitespace().any(|word| word == namespaced),
            "{line}"
        );
    }
}

/// The first non-null of the times that order a CombinedTask's Events.
fn time_of(event: &Value) -> &str {
    [
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/eventTime",
        "/firstTimestamp",
        "/metadata/creationTimestamp",
    ]
    .iter()
    .find_map(|pointer| event.pointer(pointer)?.as_str())
    .expect("a time")
}

/// kubectl's table, cut at the columns of its header (cells may hold single spaces).
fn table(printed: &str) -> (Vec<String>, Vec<BTreeMap<String, String>>) {
    let mut lines = printed.lines();
    let header = lines.next().unwrap_or_default();
    let mut starts = vec![0];
    starts.extend(
        header
            .as_bytes()
            .windows(3)
            .enumerate()
            .filter(|(_, window)| window[..2] == *b"  " && window[2] != b' ')
            .map(|(at, _)| at + 2),
    );
    let cells = |line: &str| -> Vec<String> {
        starts
            .iter()
            .enumerate()
            .map(|(number, start)| {
                let end = starts
                    .get(number + 1)
                    .copied()
                    .unwrap_or(usize::MAX)
                    .min(line.len());
                line.get(*start..end).unwrap_or_default().trim().to_owned()
            })
            .collect()
    };
    let columns: Vec<String> = cells(header);
    let rows = lines
        .map(|line| columns.iter().cloned().zip(cells(line)).collect())
        .collect();
    (columns, rows)
}
