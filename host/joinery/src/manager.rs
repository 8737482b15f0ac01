//! Keeps the plugins in service that ought to be.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use joinery_plugin::{PluginFile, PluginSet, Stats};
use joinery_source::SourceCache;
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::{error, info, warn};

use crate::service::{Context, Service, ViewReport};

/// After so long the host is ready even if a plugin still waits for its sources: others must not wait with it.
const READY_AFTER: Duration = Duration::from_secs(30);

/// When the log tells for the first time what a plugin waits for, and when again.
const COMPLAIN_FIRST: Duration = Duration::from_secs(5);
const COMPLAIN_AGAIN: Duration = Duration::from_secs(60);

/// What ought to be in service under a name.
#[derive(Clone, PartialEq)]
enum Wanted {
    /// It is there, but has never been read.
    Unread,
    Plugin(PluginFile),
    /// It is no longer there.
    Gone,
}

/// How the last attempt to put it there went.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Loading,
    Serving,
    Failed(String),
}

/// One plugin's place.
struct Slot {
    service: Arc<Service>,
    /// A load that is overtaken gives up.
    wanted: watch::Sender<Wanted>,
    state: Mutex<State>,
}

impl Slot {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            service: Arc::default(),
            wanted: watch::channel(Wanted::Unread).0,
            state: Mutex::new(State::Loading),
        })
    }
}

/// How a plugin is doing.
pub(crate) struct PluginReport {
    /// Its name.
    pub(crate) name: String,
    /// Calls of the generation that serves; none when none does.
    pub(crate) stats: Option<Stats>,
    /// Whether its newest file was refused.
    pub(crate) refused: bool,
    /// Its views.
    pub(crate) views: Vec<ViewReport>,
}

/// How a source is doing.
pub(crate) struct SourceReport {
    /// Group, version and resource.
    pub(crate) source: String,
    /// Its label selector.
    pub(crate) selector: String,
    /// Of the objects held.
    pub(crate) bytes: u64,
    /// Whether it is listed and followed.
    pub(crate) healthy: bool,
}

/// All plugins, each loaded and served by a task of its own.
pub(crate) struct Manager {
    context: Arc<Context>,
    slots: Mutex<BTreeMap<String, Arc<Slot>>>,
    started: Instant,
    /// Whether the first set has been seen.
    seen: watch::Sender<bool>,
}

impl Manager {
    /// With nothing in service yet.
    pub(crate) fn new(context: Context) -> Self {
        Self {
            context: Arc::new(context),
            slots: Mutex::default(),
            started: Instant::now(),
            seen: watch::channel(false).0,
        }
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
            match (&*slot.state.lock(), slot.service.waits_for()) {
                (State::Loading, sources) if sources.is_empty() => loading.push(name.clone()),
                (State::Loading, sources) => {
                    // What went wrong with them is in the log only: this is open to everybody.
                    let sources: Vec<_> = sources.into_iter().map(|(source, _)| source).collect();
                    waiting.push(format!("{name} for {}", sources.join(" and ")));
                }
                (State::Failed(_), _) => refused.push(name.as_str()),
                (State::Serving, _) => {}
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

    /// Takes over a new set of plugins: those that changed are loaded, those that went are retired. What cannot be read
    /// stays as it was.
    pub(crate) fn want(&self, set: &PluginSet) {
        let mut slots = self.slots.lock();
        slots.retain(|name, slot| {
            let wanted = set.plugins.contains_key(name);
            if !wanted {
                slot.wanted.send_replace(Wanted::Gone);
            }
            wanted
        });
        for (name, plugin) in &set.plugins {
            let slot = slots.entry(name.clone()).or_insert_with(|| {
                let slot = Slot::new();
                tokio::spawn(serve(self.context.clone(), name.clone(), slot.clone()));
                slot
            });
            match plugin {
                Ok(plugin) => {
                    let plugin = Wanted::Plugin(plugin.clone());
                    slot.wanted.send_if_modified(|wanted| {
                        let differs = *wanted != plugin;
                        *wanted = plugin;
                        differs
                    });
                }
                Err(error) => fail(name, "", &error.to_string(), slot),
            }
        }
        drop(slots);
        self.seen.send_replace(true);
    }

    /// How all plugins are doing.
    pub(crate) fn report(&self) -> Vec<PluginReport> {
        let slots = self.slots.lock();
        let report = |(name, slot): (&String, &Arc<Slot>)| PluginReport {
            name: name.clone(),
            stats: slot.service.stats(),
            refused: matches!(*slot.state.lock(), State::Failed(_)),
            views: slot.service.views(),
        };
        slots.iter().map(report).collect()
    }

    /// How all sources are doing.
    pub(crate) fn source_report(&self) -> Vec<SourceReport> {
        let report = |cache: &Arc<SourceCache>| {
            let (spec, state) = (cache.spec(), cache.state());
            SourceReport {
                source: spec.gvr.to_string(),
                selector: spec.label_selector.clone(),
                bytes: cache.bytes() as u64,
                healthy: state.synced && state.error.is_none(),
            }
        };
        self.context.sources.caches().iter().map(report).collect()
    }
}

/// Serves one plugin until it is gone.
async fn serve(context: Arc<Context>, name: String, slot: Arc<Slot>) {
    let mut wanted = slot.wanted.subscribe();
    loop {
        let next = wanted.borrow_and_update().clone();
        match next {
            Wanted::Gone => return slot.service.retire(&context, &name).await,
            Wanted::Unread => {}
            Wanted::Plugin(plugin) => {
                *slot.state.lock() = State::Loading;
                let started = Instant::now();
                let digest = plugin.digest[..plugin.digest.len().min(12)].to_owned();
                tokio::select! {
                    outcome = slot.service.replace(&context, plugin) => match outcome {
                        Ok(resources) => {
                            info!(plugin = name, digest, resources, took = ?started.elapsed(), "plugin serves");
                            *slot.state.lock() = State::Serving;
                        }
                        Err(why) => fail(&name, &digest, &format!("{why:#}"), &slot),
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

fn fail(name: &str, digest: &str, why: &str, slot: &Slot) {
    let before = if slot.service.stats().is_some() {
        "; the generation before still serves"
    } else {
        ""
    };
    error!(plugin = name, digest, "plugin refused: {why}{before}");
    *slot.state.lock() = State::Failed(why.to_owned());
}
