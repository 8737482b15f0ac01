//! Creates that refer to a ClusterTask race its deletion.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, Connection};
use crate::fixtures::{Namespace, VIEW, text};
use crate::shared::{count, standalone};

const CLIENTS: usize = 64;
/// Pairs of a create and a delete.
const PAIRS: usize = 1000;
/// A round of 64 requests in which somebody waits for somebody else for ever takes longer.
const PATIENCE: Duration = Duration::from_secs(30);
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// Who does what in a round: the number of the ClusterTask, and whether to delete it.
type Part = (usize, bool);

/// As many ClusterTasks as pairs of clients, then one for all of them.
fn parts(round: usize) -> Vec<Part> {
    (0..CLIENTS)
        .map(|client| {
            if round.is_multiple_of(2) {
                (client / 2, client % 2 == 0)
            } else {
                (0, client % 8 == 0)
            }
        })
        .collect()
}

fn ref_of(task: &Value) -> &str {
    text(task, "/spec/clusterTaskRef/name")
}

#[test]
fn a_reference_never_dangles_however_creates_and_deletes_race() {
    let environment = standalone();
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "race");
    let client = Client::direct(environment);
    let clusters = format!("{VIEW}/clustertasks");
    let customs = format!("{VIEW}/namespaces/{}/customtasks", namespace.name);
    let mut connections: Vec<Connection> = (0..CLIENTS).map(|_| client.connect()).collect();
    let (mut pairs, mut round) = (0, 0);
    let mut outcomes: BTreeMap<(bool, u16), usize> = BTreeMap::new();
    while pairs < count(PAIRS) {
        let parts = parts(round);
        let name = |task: usize| format!("{}-{round}-{task}", namespace.name);
        let last = parts.iter().map(|(task, _)| *task).max().unwrap();
        for task in 0..=last {
            let object = json!({
                "apiVersion": "aggregated.tasks.example.com/v1", "kind": "ClusterTask", "metadata": {"name": name(task)},
                "spec": {"priority": 1, "details": "raced for", "deadlineAfter": "1h"},
            });
            let made = client.send("POST", &clusters, &JSON, object.to_string());
            assert_eq!(made.status, 201, "{}", made.text());
        }
        let barrier = Barrier::new(CLIENTS);
        let began = Instant::now();
        let answers: Vec<(Part, u16, String)> = thread::scope(|scope| {
            let threads: Vec<_> = connections
                .iter_mut()
                .zip(&parts)
                .enumerate()
                .map(|(number, (connection, part))| {
                    let (barrier, customs, clusters) = (&barrier, &customs, &clusters);
                    let (part, target) = (*part, name(part.0));
                    scope.spawn(move || {
                        let object = json!({
                            "apiVersion": "aggregated.tasks.example.com/v1", "kind": "CustomTask",
                            "metadata": {"name": format!("user-{round}-{number}")},
                            "spec": {"clusterTaskRef": {"name": target}},
                        });
                        barrier.wait();
                        let answer = if part.1 {
                            connection.send("DELETE", &format!("{clusters}/{target}"), &[], "")
                        } else {
                            connection.send("POST", customs, &JSON, object.to_string())
                        };
                        let answer = answer.unwrap();
                        (part, answer.status.as_u16(), answer.text())
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        let took = began.elapsed();
        assert!(took < PATIENCE, "a round took {took:?}");

        for ((_, delete), status, said) in &answers {
            // Done; or the other was first; or both met too often, which is a conflict to try again after.
            let expected: &[u16] = if *delete {
                &[200, 403, 404, 409]
            } else {
                &[201, 409, 422]
            };
            assert!(
                expected.contains(status),
                "delete: {delete}: {status} {said}"
            );
            *outcomes.entry((*delete, *status)).or_default() += 1;
        }
        let there = client.get(&clusters).json();
        let exists = |wanted: &str| {
            let mut items = there["items"].as_array().unwrap().iter();
            items.any(|task| text(task, "/metadata/name") == wanted)
        };
        let users = client.get(&customs).json();
        let users = users["items"].as_array().unwrap();
        for user in users {
            assert!(exists(ref_of(user)), "a reference dangles: {user:#}");
        }
        // What was acknowledged is so.
        let created = answers
            .iter()
            .filter(|((_, delete), status, _)| !delete && *status == 201);
        assert_eq!(created.count(), users.len());
        for ((task, delete), status, _) in &answers {
            if *delete && *status == 200 {
                assert!(
                    !exists(&name(*task)),
                    "{} was deleted and is there",
                    name(*task)
                );
            }
        }

        pairs += parts.iter().filter(|(_, delete)| !delete).count();
        assert_eq!(client.send("DELETE", &customs, &[], "").status, 200);
        for task in 0..=last {
            if exists(&name(task)) {
                let gone = client.send("DELETE", &format!("{clusters}/{}", name(task)), &[], "");
                assert_eq!(gone.status, 200, "{}", gone.text());
            }
        }
        round += 1;
    }
    eprintln!("{pairs} pairs in {round} rounds; how often (delete, status): {outcomes:?}");
    let won = |outcome| outcomes.get(&outcome).copied().unwrap_or_default();
    assert!(
        won((true, 200)) > 0 && won((false, 201)) > 0,
        "one side always wins: {outcomes:?}"
    );
}
