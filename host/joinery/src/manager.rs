//! Keeps the plugins in service that ought to be.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use joinery_plugin::PluginFile;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tracing::{error, info, warn};

use crate::delivery::{Candidates, Origin};
use crate::events::{EventKind, Recorder, now_text};
use crate::service::{Context, Service, ServingReport, SourceReport};

/// After so long the host is ready even if a plugin still waits for its sources: others must not wait with it.
const READY_AFTER: Duration = Duration::from_secs(30);
/// Between two looks whether a plugin that was taken away may go.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// When the log tells for the first time what a plugin waits for, and when again.
const COMPLAIN_FIRST: Duration = Duration::from_secs(5);
const COMPLAIN_AGAIN: Duration = Duration::from_secs(60);

/// What ought to be in service under a name.
#[derive(Clone, PartialEq)]
enum Wanted {
    /// It is there, but cannot be read, and why.
    Unreadable(String),
    Plugin(PluginFile),
    /// It is no longer there.
    Gone,
}

/// How the last attempt to put it there went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Loading,
    Serving,
    /// It was refused; an older generation may serve.
    Failed(String),
    /// It was taken away and stays all the same.
    Staying(String),
}

/// One plugin's place.
struct Slot {
    uid: String,
    /// Since when it is known, as metav1.Time.
    created: String,
    service: Arc<Service>,
    /// A load that is overtaken gives up.
    wanted: watch::Sender<Wanted>,
    record: Mutex<Record>,
}

/// What became of it.
struct Record {
    origin: Origin,
    state: State,
    generation: u64,
    refusals: u64,
}

/// How a plugin is doing.
pub(crate) struct PluginReport {
    pub(crate) name: String,
    pub(crate) uid: String,
    /// Since when it is known, as metav1.Time.
    pub(crate) created: String,
    /// Where it is; none while it is taken away and stays.
    pub(crate) origin: Option<Origin>,
    pub(crate) state: State,
    /// How many generations have taken their place.
    pub(crate) generation: u64,
    /// How many versions were refused.
    pub(crate) refusals: u64,
    /// None when no generation serves.
    pub(crate) serving: Option<ServingReport>,
}

impl PluginReport {
    /// Whether its newest version was refused.
    pub(crate) fn refused(&self) -> bool {
        matches!(self.state, State::Failed(_))
    }
}

/// All plugins, each loaded and served by a task of its own.
pub(crate) struct Manager {
    context: Arc<Context>,
    recorder: Recorder,
    slots: Mutex<BTreeMap<String, Arc<Slot>>>,
    started: Instant,
    /// Whether the first set has been seen.
    seen: watch::Sender<bool>,
    changed: Notify,
}

impl Manager {
    /// With nothing in service yet.
    pub(crate) fn new(recorder: Recorder, context: Context) -> Arc<Self> {
        Arc::new(Self {
            context: Arc::new(context),
            recorder,
            slots: Mutex::default(),
            started: Instant::now(),
            seen: watch::channel(false).0,
            changed: Notify::new(),
        })
    }

    /// Whether all plugins of the first set have been tried, and what there is to note of those that do not serve: a
    /// plugin that is refused, or waits for a source that is not there, does not keep the others from being reached.
    ///
    /// # Errors
    /// What is still missing.
    pub(crate) fn ready(&self) -> Result<String, String> {
        if !*self.seen.borrow() {
            return Err("the plugins have not been read yet".to_owned());
        }
        let slots = self.slots.lock();
        let (mut loading, mut waiting, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for (name, slot) in slots.iter() {
            match (&slot.record.lock().state, slot.service.waits_for()) {
                (State::Loading, sources) if sources.is_empty() => loading.push(name.clone()),
                (State::Loading, sources) => {
                    // What went wrong with them is in the log only: this is open to everybody.
                    let sources: Vec<_> = sources.into_iter().map(|(source, _)| source).collect();
                    waiting.push(format!("{name} for {}", sources.join(" and ")));
                }
                (State::Failed(_), _) => refused.push(name.as_str()),
                (State::Serving | State::Staying(_), _) => {}
            }
        }
        let patient = self.started.elapsed() <= READY_AFTER;
        if patient && !(loading.is_empty() && waiting.is_empty()) {
            loading.extend(waiting);
            return Err(format!("still loading: {}", loading.join(", ")));
        }
        let mut notes = Vec::new();
        for (what, plugins) in [
            ("refused", refused.join(", ")),
            ("still loading", loading.join(", ")),
            ("waiting", waiting.join(", ")),
        ] {
            if !plugins.is_empty() {
                notes.push(format!("{what}: {plugins}"));
            }
        }
        Ok(notes.join("; "))
    }

    /// Waits until the report may be another.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Takes over a new set of plugins: those that changed are loaded, those that went are retired. What cannot be read
    /// stays as it was.
    pub(crate) fn want(self: &Arc<Self>, candidates: Candidates) {
        let mut slots = self.slots.lock();
        for (name, slot) in slots.iter() {
            if !candidates.contains_key(name) {
                slot.want(Wanted::Gone);
            }
        }
        for (name, candidate) in candidates {
            let wanted = match candidate.plugin {
                Ok(plugin) => Wanted::Plugin(plugin),
                Err(error) => Wanted::Unreadable(error.to_string()),
            };
            match slots.get(&name) {
                Some(slot) => {
                    slot.record.lock().origin = candidate.origin;
                    slot.want(wanted);
                }
                None => {
                    let slot = Slot::new(wanted, candidate.origin);
                    tokio::spawn(self.clone().serve(name.clone(), slot.clone()));
                    slots.insert(name, slot);
                }
            }
        }
        drop(slots);
        self.seen.send_replace(true);
        self.changed.notify_one();
    }

    /// How all plugins are doing.
    pub(crate) fn report(&self) -> Vec<PluginReport> {
        let slots = self.slots.lock().clone();
        let report = |(name, slot): (&String, &Arc<Slot>)| {
            let gone = *slot.wanted.borrow() == Wanted::Gone;
            let record = slot.record.lock();
            PluginReport {
                name: name.clone(),
                uid: slot.uid.clone(),
                created: slot.created.clone(),
                origin: Some(record.origin.clone()).filter(|_| !gone),
                state: record.state.clone(),
                generation: record.generation,
                refusals: record.refusals,
                serving: slot.service.report(&self.context),
            }
        };
        slots.iter().map(report).collect()
    }

    /// How all sources are doing.
    pub(crate) fn source_report(&self) -> Vec<SourceReport> {
        let caches = self.context.sources.caches();
        caches.iter().map(|cache| SourceReport::of(cache)).collect()
    }

    /// Serves one plugin until it is gone.
    async fn serve(self: Arc<Self>, name: String, slot: Arc<Slot>) {
        let mut wanted = slot.wanted.subscribe();
        loop {
            let next = wanted.borrow_and_update().clone();
            match next {
                Wanted::Gone => match slot.service.retire(&self.context, &name).await {
                    Ok(()) => {
                        let mut slots = self.slots.lock();
                        // It may be wanted again by now.
                        if *slot.wanted.borrow() == Wanted::Gone {
                            slots.remove(&name);
                            self.changed.notify_one();
                            return;
                        }
                        continue;
                    }
                    Err(why) => {
                        self.stays(&name, &slot, why);
                        tokio::select! {
                            _ = wanted.changed() => {}
                            () = tokio::time::sleep(LOOK_AGAIN) => {}
                        }
                        continue;
                    }
                },
                Wanted::Unreadable(why) => self.refused(&name, &slot, "", why),
                Wanted::Plugin(plugin) => {
                    slot.record.lock().state = State::Loading;
                    self.changed.notify_one();
                    let started = Instant::now();
                    let digest = plugin.digest[..plugin.digest.len().min(12)].to_owned();
                    tokio::select! {
                        outcome = slot.service.replace(&self.context, plugin) => match outcome {
                            Ok(resources) => {
                                info!(plugin = name, digest, resources, took = ?started.elapsed(), "plugin serves");
                                self.serves(&name, &slot, &digest);
                            }
                            Err(why) => self.refused(&name, &slot, &digest, format!("{why:#}")),
                        },
                        Ok(()) = wanted.changed() => continue,
                        () = complain(&name, &slot.service) => {}
                    }
                }
            }
            if wanted.changed().await.is_err() {
                return;
            }
        }
    }

    fn serves(&self, name: &str, slot: &Slot, digest: &str) {
        let mut record = slot.record.lock();
        record.state = State::Serving;
        record.generation += 1;
        let message = format!(
            "generation {} of plugin {name} serves, sha256:{digest}",
            record.generation
        );
        drop(record);
        self.tell(name, slot, EventKind::Normal, "PluginLoaded", &message);
    }

    fn refused(&self, name: &str, slot: &Slot, digest: &str, why: String) {
        let before = if slot.service.is_serving() {
            "; the generation before still serves"
        } else {
            ""
        };
        error!(plugin = name, digest, "plugin refused: {why}{before}");
        let message = format!("plugin {name} is refused: {why}{before}");
        let mut record = slot.record.lock();
        record.state = State::Failed(why);
        record.refusals += 1;
        drop(record);
        self.tell(name, slot, EventKind::Warning, "PluginRefused", &message);
    }

    fn stays(&self, name: &str, slot: &Slot, why: String) {
        let mut record = slot.record.lock();
        let told = matches!(record.state, State::Staying(_));
        record.state = State::Staying(why.clone());
        drop(record);
        if !told {
            warn!(plugin = name, "{why}");
            let message = format!("plugin {name}: {why}");
            self.tell(name, slot, EventKind::Warning, "RemovalRefused", &message);
        }
    }

    fn tell(&self, name: &str, slot: &Slot, kind: EventKind, reason: &str, message: &str) {
        let gone = *slot.wanted.borrow() == Wanted::Gone;
        let origin = Some(slot.record.lock().origin.clone()).filter(|_| !gone);
        self.recorder
            .record(name, &slot.uid, origin.as_ref(), kind, reason, message);
        self.changed.notify_one();
    }
}

impl Slot {
    fn new(wanted: Wanted, origin: Origin) -> Arc<Self> {
        Arc::new(Self {
            uid: uuid::Uuid::new_v4().to_string(),
            created: now_text(),
            service: Arc::default(),
            wanted: watch::channel(wanted).0,
            record: Mutex::new(Record {
                origin,
                state: State::Loading,
                generation: 0,
                refusals: 0,
            }),
        })
    }

    fn want(&self, new: Wanted) {
        self.wanted.send_if_modified(|wanted| {
            let differs = *wanted != new;
            *wanted = new;
            differs
        });
    }
}

/// Says for what a plugin that is being loaded waits; never ends.
async fn complain(name: &str, service: &Service) {
    let mut pause = COMPLAIN_FIRST;
    loop {
        tokio::time::sleep(pause).await;
        pause = COMPLAIN_AGAIN;
        for (source, error) in service.waits_for() {
            warn!(
                plugin = name,
                source, error, "plugin does not serve yet: it waits for a source"
            );
        }
    }
}
