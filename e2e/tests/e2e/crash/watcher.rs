//! A client that lists once and then only watches, from the last version that it was told, whatever happens to the host.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

use super::{Known, Objects, Resource};
use crate::client::Client;
use crate::fixtures::text;

/// Between two tries to reach a host that is not there.
const RETRY: Duration = Duration::from_millis(5);
/// Between two looks whether it is over.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Default)]
struct State {
    objects: Objects,
    /// The version of the last event.
    seen: u64,
    /// The object of each event by version.
    told: BTreeMap<u64, String>,
    /// Why the test fails.
    fault: Option<String>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    over: AtomicBool,
}

/// The client; it ends when dropped.
pub(crate) struct Watcher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Watches from what a list showed.
    pub(crate) fn start(
        client: &Client,
        resource: Resource,
        seen: u64,
        objects: Objects,
    ) -> Watcher {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                objects,
                seen,
                ..State::default()
            }),
            changed: Condvar::new(),
            over: AtomicBool::new(false),
        });
        let (client, given) = (client.clone(), shared.clone());
        let thread = thread::spawn(move || given.run(&client, resource));
        Watcher {
            shared,
            thread: Some(thread),
        }
    }

    /// Waits until an event of this version, or a later one, was told.
    pub(crate) fn reach(&self, revision: u64, patience: Duration) {
        let state = self.shared.state.lock().unwrap();
        let (state, _) = self
            .shared
            .changed
            .wait_timeout_while(state, patience, |state| {
                state.seen < revision && state.fault.is_none()
            })
            .unwrap();
        if let Some(fault) = &state.fault {
            panic!("{fault}");
        }
        assert!(
            state.seen >= revision,
            "{} was told, not {revision}",
            state.seen
        );
    }

    pub(crate) fn objects(&self) -> Objects {
        self.shared.state.lock().unwrap().objects.clone()
    }

    /// Whether there was an event of just this version about this object.
    pub(crate) fn was_told(&self, revision: u64, name: &str) -> bool {
        let state = self.shared.state.lock().unwrap();
        state.told.get(&revision).is_some_and(|told| told == name)
    }

    pub(crate) fn events(&self) -> usize {
        self.shared.state.lock().unwrap().told.len()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self, client: &Client, resource: Resource) {
        while !self.over.load(Ordering::Relaxed) {
            let seen = self.state.lock().unwrap().seen;
            let path = format!("{}?watch=true&resourceVersion={seen}", resource.path());
            let mut watch = match client.try_watch(&path) {
                Ok(Ok(watch)) => watch,
                // It listens before it has loaded its plugins, and says so.
                Ok(Err(answer)) if answer.status != 503 => {
                    return self.fail(format!("{}: {}", answer.status, answer.text()));
                }
                Ok(Err(_)) | Err(_) => {
                    thread::sleep(RETRY);
                    continue;
                }
            };
            while !watch.has_ended() && !self.over.load(Ordering::Relaxed) {
                if let Some(frame) = watch.next(LOOK)
                    && let Err(fault) = self.apply(&frame)
                {
                    return self.fail(fault);
                }
            }
        }
    }

    fn fail(&self, fault: String) {
        self.state.lock().unwrap().fault = Some(fault);
        self.changed.notify_all();
    }

    /// Every event must follow from the ones before: none twice, none left out.
    fn apply(&self, frame: &Value) -> Result<(), String> {
        let (kind, object) = (text(frame, "/type"), &frame["object"]);
        let name = text(object, "/metadata/name").to_owned();
        let mut state = self.state.lock().unwrap();
        if kind == "ERROR" {
            return Err(format!("{object}"));
        }
        let known = Known::of(object);
        let before = state.objects.get(&name);
        let follows = match kind {
            "ADDED" => before.is_none(),
            "MODIFIED" => before.is_some_and(|before| before.revision < known.revision),
            "DELETED" => before.is_some_and(|before| before.details == known.details),
            _ => false,
        };
        if !follows || known.revision <= state.seen {
            return Err(format!(
                "{kind} {name} at {} after {}, where {before:?} was known",
                known.revision, state.seen
            ));
        }
        state.seen = known.revision;
        state.told.insert(known.revision, name.clone());
        if kind == "DELETED" {
            state.objects.remove(&name);
        } else {
            state.objects.insert(name, known);
        }
        self.changed.notify_all();
        Ok(())
    }
}
