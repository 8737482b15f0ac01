//! Keeps the plugins in service that ought to be.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use joinery_plugin::PluginFile;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tracing::{error, info, warn};

use crate::delivery::{Candidates, Origin};
use crate::events::{EventKind, Recorder, now_text};
use crate::kept::Kept;
use crate::service::{Context, Refusal, Service, ServingReport, SourceReport, Taken};

/// After so long the host is ready even if a plugin still waits for its sources: others must not wait with it.
const READY_AFTER: Duration = Duration::from_secs(30);
/// Between two looks whether a plugin that was taken away may go.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// So long what served before the host was ended may take to serve again. Then what is wanted now is tried without it.
const RESTORE: Duration = Duration::from_secs(30);
/// Between the first two attempts to load a plugin that was refused for a reason that may pass, and at most between any.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_LAST: Duration = Duration::from_secs(300);

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

impl Wanted {
    fn plugin(&self) -> Option<&PluginFile> {
        match self {
            Self::Plugin(plugin) => Some(plugin),
            Self::Unreadable(_) | Self::Gone => None,
        }
    }
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
    /// None: it was taken away while the host was down.
    origin: Option<Origin>,
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
    /// The sources that its newest version waits for, and what went wrong with each last, if anything did.
    pub(crate) waits_for: Vec<(String, String)>,
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
    kept: Kept,
    slots: Mutex<BTreeMap<String, Arc<Slot>>>,
    started: Instant,
    /// Whether the first set has been seen.
    seen: watch::Sender<bool>,
    changed: Notify,
    /// A plugin went: others may now claim what it had.
    retired: Notify,
    /// Plugins that are still to serve as before the start: what they had, nobody else may claim before they have it.
    restoring: watch::Sender<usize>,
}

impl Manager {
    /// With nothing in service yet.
    pub(crate) fn new(recorder: Recorder, kept: Kept, context: Context) -> Arc<Self> {
        Arc::new(Self {
            context: Arc::new(context),
            recorder,
            kept,
            slots: Mutex::default(),
            started: Instant::now(),
            seen: watch::channel(false).0,
            changed: Notify::new(),
            retired: Notify::new(),
            restoring: watch::channel(0).0,
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
        // None of them loads before all are counted that are to serve as before.
        self.restoring.send_modify(|count| *count += 1);
        let mut slots = self.slots.lock();
        for (name, slot) in slots.iter() {
            if !candidates.contains_key(name) {
                slot.want(Wanted::Gone);
            }
        }
        if !*self.seen.borrow() {
            for name in self.kept.names() {
                if !candidates.contains_key(&name) {
                    self.open(&mut slots, name, Wanted::Gone, None);
                }
            }
        }
        for (name, candidate) in candidates {
            let wanted = match candidate.plugin {
                Ok(plugin) => Wanted::Plugin(plugin),
                Err(error) => Wanted::Unreadable(error.to_string()),
            };
            match slots.get(&name) {
                Some(slot) => {
                    slot.record.lock().origin = Some(candidate.origin);
                    slot.want(wanted);
                }
                None => self.open(&mut slots, name, wanted, Some(candidate.origin)),
            }
        }
        drop(slots);
        self.restoring.send_modify(|count| *count -= 1);
        self.seen.send_replace(true);
        self.changed.notify_one();
    }

    fn open(
        self: &Arc<Self>,
        slots: &mut BTreeMap<String, Arc<Slot>>,
        name: String,
        wanted: Wanted,
        origin: Option<Origin>,
    ) {
        let restores = self.kept.has_other(&name, wanted.plugin());
        if restores {
            self.restoring.send_modify(|count| *count += 1);
        }
        let slot = Slot::new(wanted, origin);
        tokio::spawn(self.clone().serve(name.clone(), slot.clone(), restores));
        slots.insert(name, slot);
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
                origin: record.origin.clone().filter(|_| !gone),
                state: record.state.clone(),
                generation: record.generation,
                refusals: record.refusals,
                serving: slot.service.report(&self.context),
                waits_for: slot.service.waits_for(),
            }
        };
        slots.iter().map(report).collect()
    }

    /// How all sources are doing.
    pub(crate) fn source_report(&self) -> Vec<SourceReport> {
        let caches = self.context.sources.caches();
        caches.iter().map(|cache| SourceReport::of(cache)).collect()
    }

    /// Serves one plugin until it is gone. `restores`: others wait for its first attempt to serve as before the start.
    async fn serve(self: Arc<Self>, name: String, slot: Arc<Slot>, mut restores: bool) {
        let mut wanted = slot.wanted.subscribe();
        let mut retry = Retry::default();
        let mut restored = false;
        loop {
            let next = wanted.borrow_and_update().clone();
            let mut refusal = None;
            if !restored && self.kept.has_other(&name, next.plugin()) {
                match self.restore(&name, &slot).await {
                    Ok(()) => restored = true,
                    Err(refused) => refusal = Some(refused),
                }
            }
            // Others may now load.
            if std::mem::take(&mut restores) {
                self.restoring.send_modify(|count| *count -= 1);
            }
            match next {
                Wanted::Gone if refusal.is_some() => {
                    refusal = refusal.map(|Refusal { why, may_pass }| Refusal {
                        why: format!("it was taken away, its objects may be stored, and {why}"),
                        may_pass,
                    });
                }
                Wanted::Gone => match slot.service.retire(&self.context, &name).await {
                    Ok(()) => {
                        if self.close(&name, &slot).await {
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
                Wanted::Unreadable(why) => {
                    refusal = Some(match refusal {
                        None => Refusal::lasting(why),
                        Some(Refusal {
                            why: also,
                            may_pass,
                        }) => {
                            let why = format!("{why}; {also}");
                            Refusal { why, may_pass }
                        }
                    });
                }
                Wanted::Plugin(plugin) => {
                    if let Some(refusal) = refusal.take() {
                        warn!(plugin = name, "{}", refusal.why);
                    }
                    if retry.is_first() {
                        slot.record.lock().state = State::Loading;
                        self.changed.notify_one();
                    }
                    let started = Instant::now();
                    let outcome = tokio::select! {
                        outcome = self.load(&slot, plugin.clone()) => outcome,
                        Ok(()) = wanted.changed() => {
                            retry = Retry::default();
                            continue;
                        }
                        never = self.complain(&name, &slot) => match never {},
                    };
                    match outcome {
                        Ok(taken) => {
                            restored = true;
                            self.serves(&name, &slot, plugin, &taken, started.elapsed())
                                .await;
                        }
                        Err(refused) => refusal = Some(refused),
                    }
                }
            }
            let pause = match refusal {
                None => None,
                Some(refusal) => {
                    let may_pass = refusal.may_pass;
                    self.refused(&name, &slot, refusal, retry.is_first());
                    may_pass.then(|| retry.pause())
                }
            };
            let again = async {
                match pause {
                    None => std::future::pending().await,
                    Some(pause) => tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = self.retired.notified() => {}
                    },
                }
            };
            tokio::select! {
                changed = wanted.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    retry = Retry::default();
                }
                () = again => {}
            }
        }
    }

    /// Lets a plugin take its place, once those that others may not take are taken.
    async fn load(&self, slot: &Slot, plugin: PluginFile) -> Result<Taken, Refusal> {
        let mut restoring = self.restoring.subscribe();
        // The sender is this manager's.
        _ = restoring.wait_for(|count| *count == 0).await;
        slot.service.replace(&self.context, plugin).await
    }

    /// Puts into service again what served when the host was ended, if it is another than what is wanted now: whether that
    /// may take its place, or go, is then decided as if the host had never been down.
    async fn restore(&self, name: &str, slot: &Slot) -> Result<(), Refusal> {
        let worded = |refusal: Refusal| Refusal {
            why: format!(
                "what served before the start cannot serve again: {}",
                refusal.why
            ),
            ..refusal
        };
        let kept = self.kept.read(name).await;
        let kept = kept.map_err(|error| worded(Refusal::passing(format!("{error:#}"))))?;
        let digest = short(&kept.digest).to_owned();
        let replaced = slot.service.replace(&self.context, kept);
        match tokio::time::timeout(RESTORE, replaced).await {
            Ok(Ok(_)) => {
                info!(plugin = name, digest, "plugin serves as before the start");
                slot.record.lock().generation += 1;
                self.changed.notify_one();
                Ok(())
            }
            Ok(Err(refusal)) => Err(worded(refusal)),
            Err(_) => {
                let why = format!("it was not ready within {RESTORE:?}");
                Err(worded(Refusal::passing(why)))
            }
        }
    }

    /// Gives up the place of a plugin that went; false when it is wanted again by now.
    async fn close(&self, name: &str, slot: &Slot) -> bool {
        if *slot.wanted.borrow() == Wanted::Gone {
            self.kept.forget(name).await;
        }
        let mut slots = self.slots.lock();
        if *slot.wanted.borrow() != Wanted::Gone {
            return false;
        }
        slots.remove(name);
        self.changed.notify_one();
        self.retired.notify_waiters();
        true
    }

    async fn serves(
        &self,
        name: &str,
        slot: &Slot,
        plugin: PluginFile,
        taken: &Taken,
        took: Duration,
    ) {
        let digest = short(&plugin.digest).to_owned();
        let resources = taken.resources;
        info!(plugin = name, digest, resources, ?took, "plugin serves");
        if taken.stores {
            self.kept.keep(plugin).await;
        } else {
            self.kept.forget(name).await;
        }
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

    /// `first`: it is no attempt to load once more what was refused before.
    fn refused(&self, name: &str, slot: &Slot, refusal: Refusal, first: bool) {
        let before = if slot.service.is_serving() {
            "; the generation before still serves"
        } else {
            ""
        };
        let again = if refusal.may_pass {
            "; it is tried again, at longer and longer intervals"
        } else {
            ""
        };
        let why = format!("{}{again}", refusal.why);
        let failed = State::Failed(why.clone());
        let mut record = slot.record.lock();
        let told = !first && record.state == failed;
        record.state = failed;
        record.refusals += u64::from(first);
        drop(record);
        if !told {
            error!(plugin = name, "plugin refused: {}{before}", one_line(&why));
            let message = format!("plugin {name} is refused: {why}{before}");
            self.tell(name, slot, EventKind::Warning, "PluginRefused", &message);
        }
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

    /// Says for what a plugin that is being loaded waits; never ends.
    async fn complain(&self, name: &str, slot: &Slot) -> Infallible {
        let mut pause = COMPLAIN_FIRST;
        let mut told = false;
        loop {
            tokio::time::sleep(pause).await;
            pause = COMPLAIN_AGAIN;
            for (source, error) in slot.service.waits_for() {
                warn!(
                    plugin = name,
                    source, error, "plugin does not serve yet: it waits for a source"
                );
                if !told && !error.is_empty() {
                    told = true;
                    let message = format!("plugin {name} waits for {source}: {error}");
                    self.tell(
                        name,
                        slot,
                        EventKind::Warning,
                        "SourceUnavailable",
                        &message,
                    );
                }
            }
        }
    }

    fn tell(&self, name: &str, slot: &Slot, kind: EventKind, reason: &str, message: &str) {
        let gone = *slot.wanted.borrow() == Wanted::Gone;
        let origin = slot.record.lock().origin.clone().filter(|_| !gone);
        self.recorder
            .record(name, &slot.uid, origin.as_ref(), kind, reason, message);
        self.changed.notify_one();
    }
}

impl Slot {
    fn new(wanted: Wanted, origin: Option<Origin>) -> Arc<Self> {
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

/// Attempts to load the same plugin.
#[derive(Default)]
struct Retry {
    failed: u32,
}

impl Retry {
    fn is_first(&self) -> bool {
        self.failed == 0
    }

    /// How long to wait after one more that failed.
    fn pause(&mut self) -> Duration {
        let pause = RETRY_FIRST.saturating_mul(1 << self.failed.min(16));
        self.failed += 1;
        pause.min(RETRY_LAST)
    }
}

/// The beginning of a digest, by which people tell two apart.
fn short(digest: &str) -> &str {
    &digest[..digest.len().min(12)]
}

/// For the log, where a record is a line: a YAML parser shows what it stumbled over in several.
fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_the_log_is_one_line() {
        let said = "line 2: found duplicate\n |\n 2 | mode: live\n   ^ here";
        assert_eq!(
            one_line(said),
            "line 2: found duplicate | 2 | mode: live ^ here"
        );
    }

    #[test]
    fn attempts_become_rare_but_never_cease() {
        let mut retry = Retry::default();
        assert!(retry.is_first());
        let pauses: Vec<u64> = (0..12).map(|_| retry.pause().as_secs()).collect();
        assert_eq!(pauses[..5], [1, 2, 4, 8, 16]);
        assert!(pauses.is_sorted() && pauses[9..].iter().all(|pause| *pause == 300));
        assert!(!retry.is_first());
    }
}
