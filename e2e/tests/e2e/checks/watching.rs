//! Watches: with kubectl as users see them, and frame by frame.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use joinery_e2e::Kubectl;

use crate::client::Client;
use crate::fixtures::{Namespace, VIEW, event, events_of, names_of, text};
use crate::shared::Shared;

const PATIENCE: Duration = Duration::from_secs(15);

/// `kubectl get combinedtasks -w` prints a line when a Task changes, and when only an Event is added.
pub(crate) fn a_changed_task_and_a_new_event_alone_each_print_a_line(environment: &Shared) {
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "watching");
    let task = namespace.task("watched");
    namespace.combined("watched", "the controller's first Event", |events| {
        !events.is_empty()
    });

    let mut watch = Lines::of(
        environment.kubectl(),
        &["get", "combinedtasks", "-n", &namespace.name, "-w"],
    );
    watch.expect("the line of the beginning", |line| {
        line.starts_with("watched")
    });
    namespace.run(&[
        "patch",
        "task",
        "watched",
        "--type=merge",
        "-p",
        r#"{"spec":{"priority":9}}"#,
    ]);
    watch.expect("a line with the new priority", |line| {
        cells(line).get(1) == Some(&"9")
    });
    // The controller's own Events of that change come first: a quiet moment tells that they are over.
    watch.quiet_for(Duration::from_secs(1));
    namespace.create(&event(&namespace.name, "alone", &task));
    watch.expect("a line for the Event alone", |line| {
        line.contains("SeenByTest")
    });
}

/// The frames of a watch: MODIFIED with the new Event inside, MODIFIED without it once it is gone, DELETED with the Task.
pub(crate) fn an_event_that_comes_and_goes_is_two_modifications(environment: &Shared) {
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "frames");
    let task = namespace.task("framed");
    namespace.combined("framed", "the controller's first Event", |events| {
        !events.is_empty()
    });

    let client = Client::admin(environment);
    let path = format!("{VIEW}/namespaces/{}/combinedtasks", namespace.name);
    let list = client.get(&path).json();
    let from = text(&list, "/metadata/resourceVersion");
    let mut watch = client
        .watch(&format!("{path}?watch=true&resourceVersion={from}"))
        .unwrap();
    namespace.create(&event(&namespace.name, "passing", &task));
    let frame = watch.expect("the Event's coming", PATIENCE, |frame| {
        names_of(events_of(&frame["object"])).contains(&"passing")
    });
    assert_eq!(text(&frame, "/type"), "MODIFIED");
    namespace.run(&["delete", "event", "passing"]);
    let frame = watch.expect("the Event's going", PATIENCE, |frame| {
        !names_of(events_of(&frame["object"])).contains(&"passing")
    });
    assert_eq!(text(&frame, "/type"), "MODIFIED");
    namespace.run(&["delete", "task", "framed"]);
    let frame = watch.expect("the Task's end", PATIENCE, |frame| {
        text(frame, "/type") == "DELETED"
    });
    assert_eq!(text(&frame, "/object/metadata/name"), "framed");
}

/// What informers of client-go do first: initial events, then a bookmark that says they are complete.
pub(crate) fn initial_events_end_with_an_annotated_bookmark(environment: &Shared) {
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "initial");
    namespace.task("first");
    let client = Client::admin(environment);
    for resource in ["combinedtasks", "customtasks"] {
        let path = format!(
            "{VIEW}/namespaces/{}/{resource}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
            namespace.name
        );
        let mut watch = client.watch(&path).unwrap();
        let bookmark = watch.expect("the bookmark", PATIENCE, |frame| {
            text(frame, "/type") == "BOOKMARK"
        });
        assert_eq!(
            text(
                &bookmark,
                "/object/metadata/annotations/k8s.io~1initial-events-end"
            ),
            "true",
            "{bookmark}"
        );
        assert!(
            !text(&bookmark, "/object/metadata/resourceVersion").is_empty(),
            "{bookmark}"
        );
    }
}

fn cells(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// A kubectl that prints as time goes by.
struct Lines {
    child: Child,
    lines: Receiver<String>,
}

impl Lines {
    fn of(kubectl: &Kubectl, arguments: &[&str]) -> Lines {
        let mut child = kubectl
            .command(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Lines { child, lines }
    }

    fn expect(&mut self, what: &str, mut wanted: impl FnMut(&str) -> bool) {
        let end = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        while let Ok(line) = self
            .lines
            .recv_timeout(end.saturating_duration_since(Instant::now()))
        {
            if wanted(&line) {
                return;
            }
            seen.push(line);
        }
        panic!("{what} was not printed; instead: {seen:#?}");
    }

    fn quiet_for(&mut self, silence: Duration) {
        while self.lines.recv_timeout(silence).is_ok() {}
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
