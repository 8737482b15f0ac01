//! The host is killed again and again while clients write and watch: what it had acknowledged is there, nothing is there by half,
//! and watches go on where they were.

mod watcher;
mod writer;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use joinery_e2e::{SoloHost, Workspace};
use serde_json::Value;

use crate::client::Client;
use crate::fixtures::{VIEW, text};
use crate::shared::count;
use watcher::Watcher;
use writer::Writer;

const ROUNDS: usize = 200;
const WRITERS: usize = 6;
/// For how long clients write before the kill, in milliseconds: a random time between these.
const LIFE: (u64, u64) = (20, 150);
const PATIENCE: Duration = Duration::from_secs(30);

/// The resources that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resource {
    CustomTask,
    ClusterTask,
}

impl Resource {
    const ALL: [Resource; 2] = [Resource::CustomTask, Resource::ClusterTask];

    /// Where objects are created.
    fn path(self) -> String {
        match self {
            Resource::CustomTask => format!("{VIEW}/namespaces/default/customtasks"),
            Resource::ClusterTask => format!("{VIEW}/clustertasks"),
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Resource::CustomTask => "CustomTask",
            Resource::ClusterTask => "ClusterTask",
        }
    }
}

/// An object as the test knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    revision: u64,
    details: String,
}

impl Known {
    fn of(object: &Value) -> Known {
        let details = text(object, "/spec/details").to_owned();
        // Nothing is there by half: the parts of an object say the same.
        let priority = object["spec"]["priority"].as_u64();
        let number = details
            .split(' ')
            .next()
            .and_then(|n| n.parse::<u64>().ok());
        assert_eq!(number.map(|number| number % 11), priority, "{object:#}");
        assert_eq!(details, writer::details(number.unwrap()), "{object:#}");
        Known {
            revision: text(object, "/metadata/resourceVersion").parse().unwrap(),
            details,
        }
    }
}

/// All objects of one resource by name.
pub(crate) type Objects = BTreeMap<String, Known>;

fn list(client: &Client, resource: Resource) -> (u64, Objects) {
    let list = client.get(&resource.path()).json();
    let objects = list["items"].as_array().unwrap().iter();
    let objects = objects
        .map(|object| (text(object, "/metadata/name").to_owned(), Known::of(object)))
        .collect();
    (
        text(&list, "/metadata/resourceVersion").parse().unwrap(),
        objects,
    )
}

#[test]
fn a_host_that_is_killed_under_load_loses_nothing_and_watches_go_on() {
    let host = SoloHost::start(&Workspace::here(), "e2e-crash", &[]).unwrap();
    let client = Client::of_kubeconfig(host.kubectl());
    let watchers = Resource::ALL.map(|resource| {
        let (revision, objects) = list(&client, resource);
        Watcher::start(&client, resource, revision, objects)
    });
    let mut writers: Vec<Writer> = (0..WRITERS).map(Writer::new).collect();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let (mut acknowledged, mut in_flight, mut slowest) = (0, 0, Duration::ZERO);
    for round in 0..count(ROUNDS) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let life = Duration::from_millis(LIFE.0 + random % (LIFE.1 - LIFE.0));
        let at_once = AtomicU64::new(0);
        thread::scope(|scope| {
            for writer in &mut writers {
                let (client, at_once) = (&client, &at_once);
                scope.spawn(move || writer.run(client, at_once));
            }
            thread::sleep(life);
            host.stop(true);
        });
        acknowledged += at_once.load(Ordering::Relaxed);
        let began = Instant::now();
        host.begin().unwrap();
        slowest = slowest.max(began.elapsed());

        let mut found: BTreeMap<Resource, Objects> = BTreeMap::new();
        for resource in Resource::ALL {
            found.insert(resource, list(&client, resource).1);
        }
        for writer in &mut writers {
            in_flight += writer.settle(&found, round);
        }
        // One more write that all watches must come to: then they know all before it.
        for (resource, watcher) in Resource::ALL.iter().zip(&watchers) {
            let last = writer::mark(&client, *resource);
            watcher.reach(last, PATIENCE);
            let (_, objects) = list(&client, *resource);
            assert_eq!(watcher.objects(), objects, "round {round}, {resource:?}");
        }
        for writer in &mut writers {
            for (resource, revision, name) in writer.take_acknowledged() {
                let watcher = &watchers[resource as usize];
                assert!(
                    watcher.was_told(revision, &name),
                    "round {round}: {resource:?} {name} at {revision} was never told"
                );
            }
        }
    }
    let told: usize = watchers.iter().map(Watcher::events).sum();
    eprintln!(
        "{} kills: {acknowledged} writes acknowledged, {in_flight} in flight at a kill, {told} events told, the slowest start {} ms",
        count(ROUNDS),
        slowest.as_millis()
    );
    assert!(acknowledged > 20 * count(ROUNDS) as u64, "{acknowledged}");
}
