//! One client that writes objects of its own, and knows what it was told of each.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use super::{Known, Objects, Resource};
use crate::client::{Answer, Client};
use crate::fixtures::text;

const NAMES: u64 = 5;

/// The details of an object that was written as the number-th: long enough for several pages, now and then.
pub(crate) fn details(number: u64) -> String {
    let times = if number.is_multiple_of(7) { 2000 } else { 20 };
    format!("{number} {}", "x".repeat(times))
}

fn object(resource: Resource, name: &str, number: u64, revision: Option<u64>) -> String {
    let spec = match resource {
        Resource::CustomTask => {
            json!({"priority": number % 11, "details": details(number), "deadline": "2099-01-01T00:00:00Z"})
        }
        Resource::ClusterTask => json!({"priority": number % 11, "details": details(number)}),
    };
    let mut metadata = json!({"name": name});
    if let Some(revision) = revision {
        metadata["resourceVersion"] = revision.to_string().into();
    }
    json!({
        "apiVersion": "aggregated.tasks.example.com/v1", "kind": resource.kind(), "metadata": metadata, "spec": spec,
    })
    .to_string()
}

/// Updates, or creates, an object that only the test itself writes; its new revision.
pub(crate) fn mark(client: &Client, resource: Resource) -> u64 {
    let path = format!("{}/mark", resource.path());
    let there = client.get(&path);
    let answer = if there.status == 200 {
        let known = Known::of(&there.json());
        let number: u64 = known.details.split(' ').next().unwrap().parse().unwrap();
        let body = object(resource, "mark", number + 1, Some(known.revision));
        client.send("PUT", &path, &[("content-type", "application/json")], body)
    } else {
        let body = object(resource, "mark", 0, None);
        client.send(
            "POST",
            &resource.path(),
            &[("content-type", "application/json")],
            body,
        )
    };
    assert!(answer.status.is_success(), "{}", answer.text());
    Known::of(&answer.json()).revision
}

/// What was sent and not answered.
#[derive(Debug)]
enum Pending {
    Put(String),
    Delete,
}

/// A client.
pub(crate) struct Writer {
    number: usize,
    /// The objects that are its own, as they were acknowledged.
    objects: BTreeMap<(Resource, String), Known>,
    pending: Option<((Resource, String), Pending)>,
    acknowledged: Vec<(Resource, u64, String)>,
    step: u64,
}

impl Writer {
    pub(crate) fn new(number: usize) -> Writer {
        Writer {
            number,
            objects: BTreeMap::new(),
            pending: None,
            acknowledged: Vec::new(),
            step: 0,
        }
    }

    /// Writes until the connection fails.
    pub(crate) fn run(&mut self, client: &Client, count: &AtomicU64) {
        let Ok(mut connection) = client.try_connect() else {
            return;
        };
        loop {
            self.step += 1;
            let resource = if self.step.is_multiple_of(3) {
                Resource::ClusterTask
            } else {
                Resource::CustomTask
            };
            let name = format!("w{}-{}", self.number, self.step % NAMES);
            let key = (resource, name.clone());
            let one = format!("{}/{name}", resource.path());
            let known = self.objects.get(&key).cloned();
            let json = [("content-type", "application/json")];
            let delete = known.is_some() && self.step % 4 == 1;
            let (pending, answer) = if delete {
                self.pending = Some((key.clone(), Pending::Delete));
                (Pending::Delete, connection.send("DELETE", &one, &[], ""))
            } else {
                let body = object(
                    resource,
                    &name,
                    self.step,
                    known.as_ref().map(|known| known.revision),
                );
                self.pending = Some((key.clone(), Pending::Put(details(self.step))));
                let answer = if known.is_some() {
                    connection.send("PUT", &one, &json, body)
                } else {
                    connection.send("POST", &resource.path(), &json, body)
                };
                (Pending::Put(details(self.step)), answer)
            };
            let Ok(answer) = answer else { return };
            self.acknowledge(key, &pending, &answer);
            self.pending = None;
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn acknowledge(&mut self, key: (Resource, String), pending: &Pending, answer: &Answer) {
        assert!(
            answer.status.is_success(),
            "{key:?} {pending:?}: {}",
            answer.text()
        );
        match pending {
            Pending::Delete => drop(self.objects.remove(&key)),
            Pending::Put(details) => {
                let known = Known::of(&answer.json());
                assert_eq!(known.details, *details);
                assert_eq!(text(&answer.json(), "/metadata/name"), key.1);
                self.acknowledged
                    .push((key.0, known.revision, key.1.clone()));
                self.objects.insert(key, known);
            }
        }
    }

    /// Compares what is there after a crash with what was acknowledged; only what was in flight may have been done or not. How many
    /// were in flight.
    pub(crate) fn settle(&mut self, found: &BTreeMap<Resource, Objects>, round: usize) -> usize {
        let prefix = format!("w{}-", self.number);
        let mut there: BTreeMap<(Resource, String), Known> = BTreeMap::new();
        for (resource, objects) in found {
            for (name, known) in objects {
                if name.starts_with(&prefix) {
                    there.insert((*resource, name.clone()), known.clone());
                }
            }
        }
        let pending = self.pending.take();
        let in_flight = usize::from(pending.is_some());
        if let Some((key, pending)) = pending {
            match (pending, there.get(&key)) {
                (Pending::Delete, None) => drop(self.objects.remove(&key)),
                (Pending::Put(details), Some(known)) if known.details == details => {
                    let before = self.objects.insert(key, known.clone());
                    assert!(before.is_none_or(|before| before.revision < known.revision));
                }
                // It was not done: what was there before still is.
                _ => {}
            }
        }
        assert_eq!(there, self.objects, "round {round}, writer {}", self.number);
        in_flight
    }

    /// What was acknowledged since the last call.
    pub(crate) fn take_acknowledged(&mut self) -> Vec<(Resource, u64, String)> {
        std::mem::take(&mut self.acknowledged)
    }
}
