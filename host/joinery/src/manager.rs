//! Puts plugins into service: loads what ought to be there, prepares it beside what serves, and swaps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use joinery_object::GroupVersionResource;
use joinery_plugin::{
    Generation, PluginFile, PluginSet, ResourceDescription, Runtime, Shape, Stats,
};
use joinery_resource::{
    Catalog, Resource, Rules, SharedAuthorizer, Storage, StoredResource, ViewResource, ViewSettings,
};
use joinery_source::{SourceCache, SourceSpec};
use joinery_view::{Prepared, ViewSpec};
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, watch};
use tracing::{error, info, warn};

use crate::sources::Sources;

/// After so long the host is ready even if a plugin still waits for its sources: others must not wait with it.
const READY_AFTER: Duration = Duration::from_secs(30);

/// What plugins are put into service with.
pub(crate) struct Context {
    /// Runs them.
    pub(crate) runtime: Runtime,
    /// Where their resources are served.
    pub(crate) catalog: Arc<Catalog>,
    /// Where stored resources keep their objects.
    pub(crate) storage: Arc<Storage>,
    /// What views read.
    pub(crate) sources: Sources,
    /// Who may read what a view is made of.
    pub(crate) authorizer: SharedAuthorizer,
}

/// A resource in service.
#[derive(Clone)]
enum Served {
    Stored(Arc<StoredResource>),
    View(Arc<ViewResource>),
}

impl Served {
    fn resource(&self) -> Arc<dyn Resource> {
        match self {
            Self::Stored(stored) => stored.clone(),
            Self::View(view) => view.clone(),
        }
    }
}

/// A resource of a new generation, ready to take its place.
enum Ready {
    Stored,
    View(Prepared),
}

/// One plugin, whichever generation of it serves.
struct Slot {
    /// Held while a generation takes its place.
    serving: AsyncMutex<BTreeMap<GroupVersionResource, Served>>,
    /// What ought to serve; a load that is overtaken gives up.
    wanted: watch::Sender<Wanted>,
    /// How the last attempt went.
    state: Mutex<State>,
    /// What serves, with its views.
    generation: Mutex<Option<(Arc<Generation>, Vec<Arc<ViewResource>>)>>,
}

impl Slot {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            serving: AsyncMutex::default(),
            wanted: watch::channel(Wanted::Unread).0,
            state: Mutex::default(),
            generation: Mutex::default(),
        })
    }
}

#[derive(Clone, PartialEq)]
enum Wanted {
    /// It is there, but has never been read.
    Unread,
    Plugin(PluginFile),
    /// It is no longer there.
    Gone,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Loading,
    Serving,
    Failed(String),
}

/// Keeps the plugins in service that ought to be.
pub(crate) struct Manager {
    context: Arc<Context>,
    slots: Mutex<BTreeMap<String, Arc<Slot>>>,
    started: Instant,
    /// Whether the first set has been seen.
    seen: watch::Sender<bool>,
}

/// How a plugin is doing.
pub(crate) struct PluginReport {
    /// Its name.
    pub(crate) name: String,
    /// Calls of the generation that serves; none when none does.
    pub(crate) stats: Option<Stats>,
    /// Why its newest file was refused.
    pub(crate) refused: Option<String>,
    /// Of each of its views, how many primaries it fails on.
    pub(crate) view_failures: Vec<(String, u64)>,
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

impl Manager {
    /// How all plugins are doing.
    pub(crate) fn report(&self) -> Vec<PluginReport> {
        let slots = self.slots.lock();
        slots
            .iter()
            .map(|(name, slot)| {
                let generation = slot.generation.lock();
                PluginReport {
                    name: name.clone(),
                    stats: generation.as_ref().map(|(generation, _)| generation.stats()),
                    refused: match &*slot.state.lock() {
                        State::Failed(why) => Some(why.clone()),
                        State::Loading | State::Serving => None,
                    },
                    view_failures: generation.iter().flat_map(|(_, views)| views).map(|view| {
                        let resource = view.definition().gvr.group_resource();
                        (resource, view.failures().len() as u64)
                    }).collect(),
                }
            })
            .collect()
    }

    /// How all sources are doing.
    pub(crate) fn source_report(&self) -> Vec<SourceReport> {
        let caches = self.context.sources.caches();
        let report = |cache: &Arc<SourceCache>| {
            let (spec, state) = (cache.spec(), cache.state());
            SourceReport {
                source: spec.gvr.to_string(),
                selector: spec.label_selector.clone(),
                bytes: cache.bytes() as u64,
                healthy: state.synced && state.error.is_none(),
            }
        };
        caches.iter().map(report).collect()
    }

    /// With nothing in service yet.
    pub(crate) fn new(context: Context) -> Self {
        Self {
            context: Arc::new(context),
            slots: Mutex::default(),
            started: Instant::now(),
            seen: watch::channel(false).0,
        }
    }

    /// Whether all plugins of the first set have been tried.
    ///
    /// # Errors
    /// What is still missing.
    pub(crate) fn ready(&self) -> Result<(), String> {
        if !*self.seen.borrow() {
            return Err("the plugins have not been read yet".to_owned());
        }
        if self.started.elapsed() > READY_AFTER {
            return Ok(());
        }
        let slots = self.slots.lock();
        let loading: Vec<&str> = slots
            .iter()
            .filter(|(_, slot)| *slot.state.lock() == State::Loading)
            .map(|(name, _)| name.as_str())
            .collect();
        if loading.is_empty() {
            return Ok(());
        }
        Err(format!("still loading: {}", loading.join(", ")))
    }

    /// Takes over a new set of plugins: those that changed are loaded, each on its own, those that went are retired.
    /// What cannot be read stays as it was.
    pub(crate) fn want(&self, set: &PluginSet) {
        let mut slots = self.slots.lock();
        slots.retain(|name, slot| {
            let wanted = set.plugins.contains_key(name);
            if !wanted {
                // The task that serves the slot takes its resources away, and ends.
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
                Err(error) => {
                    error!(plugin = name, why = %error, "plugin cannot be read; what served before still does");
                    *slot.state.lock() = State::Failed(error.to_string());
                }
            }
        }
        drop(slots);
        self.seen.send_replace(true);
    }
}

/// Serves one plugin until it is gone.
async fn serve(context: Arc<Context>, name: String, slot: Arc<Slot>) {
    let mut wanted = slot.wanted.subscribe();
    loop {
        let next = wanted.borrow_and_update().clone();
        let plugin = match next {
            Wanted::Plugin(plugin) => plugin,
            Wanted::Gone => return retire(&context, &name, &slot).await,
            Wanted::Unread => {
                if wanted.changed().await.is_err() {
                    return;
                }
                continue;
            }
        };
        *slot.state.lock() = State::Loading;
        let started = Instant::now();
        let digest = plugin.digest[..plugin.digest.len().min(12)].to_owned();
        let outcome = tokio::select! {
            outcome = replace(&context, &slot, plugin) => outcome,
            // Only the preparation is given up: what is taking its place is not interrupted.
            Ok(()) = wanted.changed() => continue,
        };
        *slot.state.lock() = match outcome {
            Ok(resources) => {
                info!(plugin = name, digest, resources, took = ?started.elapsed(), "plugin serves");
                State::Serving
            }
            Err(why) => {
                let why = format!("{why:#}");
                error!(
                    plugin = name,
                    digest, why, "plugin refused; what served before still does"
                );
                State::Failed(why)
            }
        };
        if wanted.changed().await.is_err() {
            return;
        }
    }
}

/// Takes the resources of a plugin away.
async fn retire(context: &Context, name: &str, slot: &Slot) {
    let mut serving = slot.serving.lock().await;
    for (gvr, served) in serving.iter() {
        if let Served::Stored(stored) = served
            && stored.count() > 0
        {
            warn!(plugin = name, resource = %gvr, objects = stored.count(), "plugin is gone, its objects stay stored");
        }
    }
    let gone: Vec<_> = serving.keys().cloned().collect();
    context.catalog.change(&gone, []);
    serving.clear();
    *slot.generation.lock() = None;
    info!(plugin = name, "plugin is out of service");
}

/// Loads a plugin beside what serves, and lets it take its place in one step.
async fn replace(context: &Arc<Context>, slot: &Arc<Slot>, plugin: PluginFile) -> Result<usize> {
    let generation = context
        .runtime
        .load(&plugin.name, plugin.bytes, plugin.settings)
        .await?;
    check(context, slot, &generation).await?;
    let mut ready = Vec::new();
    for resource in &generation.description().resources {
        ready.push(match &resource.shape {
            Shape::Stored => Ready::Stored,
            Shape::View(spec) => Ready::View(prepare(context, &generation, spec).await?),
        });
    }
    let count = ready.len();
    // In a task of its own, so that it ends whatever becomes of this one.
    let (context, slot) = (context.clone(), slot.clone());
    tokio::spawn(async move { swap(&context, &slot, &generation, ready).await }).await??;
    Ok(count)
}

/// Whether a generation may take the place of what serves.
async fn check(context: &Context, slot: &Slot, generation: &Generation) -> Result<()> {
    let serving = slot.serving.lock().await;
    let snapshot = context.catalog.snapshot();
    let resources = &generation.description().resources;
    for resource in resources {
        let gvr = &resource.definition.gvr;
        match (serving.get(gvr), &resource.shape) {
            (None, _) => {
                let taken = snapshot
                    .resources()
                    .any(|(other, _)| other.group == gvr.group && other.resource == gvr.resource);
                if taken {
                    bail!(
                        "{} is served already, by another plugin or by the host",
                        gvr.group_resource()
                    );
                }
            }
            (Some(old), shape) => {
                if old.resource().definition().namespaced != resource.definition.namespaced {
                    bail!(
                        "{}: the scope of a resource cannot change",
                        gvr.group_resource()
                    );
                }
                let same = matches!(
                    (old, shape),
                    (Served::Stored(_), Shape::Stored) | (Served::View(_), Shape::View(_))
                );
                if !same {
                    bail!(
                        "{}: the shape of a resource cannot change",
                        gvr.group_resource()
                    );
                }
            }
        }
    }
    for (gvr, served) in serving.iter() {
        let kept = resources
            .iter()
            .any(|resource| resource.definition.gvr == *gvr);
        if let Served::Stored(stored) = served
            && !kept
            && stored.count() > 0
        {
            bail!(
                "it no longer serves {}, of which {} objects are stored: delete them first",
                gvr.group_resource(),
                stored.count()
            );
        }
    }
    Ok(())
}

/// Reads the sources of a view and composes all its objects.
async fn prepare(context: &Context, generation: &Generation, spec: &ViewSpec) -> Result<Prepared> {
    let join = generation
        .join(&spec.resource)
        .ok_or_else(|| anyhow!("{} has no join", spec.resource))?;
    let caches = spec
        .sources
        .iter()
        .map(|source| {
            context.sources.cache(SourceSpec {
                gvr: source.gvr.clone(),
                label_selector: source.label_selector.clone(),
                field_selector: source.field_selector.clone(),
                optional: source.optional,
            })
        })
        .collect();
    Ok(Prepared::new(join, caches).await)
}

async fn swap(
    context: &Context,
    slot: &Slot,
    generation: &Arc<Generation>,
    ready: Vec<Ready>,
) -> Result<()> {
    let mut serving = slot.serving.lock().await;
    let mut next = BTreeMap::new();
    for (resource, ready) in generation.description().resources.iter().zip(ready) {
        let gvr = resource.definition.gvr.clone();
        let served = match (serving.get(&gvr).cloned(), ready) {
            (Some(Served::Stored(stored)), Ready::Stored) => {
                let definition = Arc::unwrap_or_clone(resource.definition.clone());
                let admit = generation.admit();
                stored.replace(definition, Some(resource.schema.clone()), Some(admit))?;
                Served::Stored(stored)
            }
            (Some(Served::View(view)), Ready::View(prepared)) => {
                view.replace(view_settings(generation, resource), prepared)
                    .await;
                Served::View(view)
            }
            (_, Ready::Stored) => {
                let stored = StoredResource::open(
                    &context.storage,
                    Arc::unwrap_or_clone(resource.definition.clone()),
                    Some(resource.schema.clone()),
                    Some(generation.admit()),
                    Rules::default(),
                )
                .await?;
                Served::Stored(stored)
            }
            (_, Ready::View(prepared)) => Served::View(Arc::new(ViewResource::new(
                view_settings(generation, resource),
                prepared,
                context.sources.upstream().clone(),
                context.authorizer.clone(),
            ))),
        };
        next.insert(gvr, served);
    }
    let gone: Vec<_> = serving
        .keys()
        .filter(|gvr| !next.contains_key(gvr))
        .cloned()
        .collect();
    // Also what stays is put in anew: discovery and OpenAPI are made again from its definition.
    context
        .catalog
        .change(&gone, next.values().map(Served::resource));
    let views = next.values().filter_map(|served| match served {
        Served::View(view) => Some(view.clone()),
        Served::Stored(_) => None,
    });
    *slot.generation.lock() = Some((generation.clone(), views.collect()));
    *serving = next;
    Ok(())
}

fn view_settings(generation: &Generation, resource: &ResourceDescription) -> ViewSettings {
    let settings = generation.settings();
    ViewSettings {
        definition: resource.definition.clone(),
        mode: match settings.mode {
            joinery_plugin::Mode::Cached => joinery_resource::Mode::Cached,
            joinery_plugin::Mode::Live => joinery_resource::Mode::Live,
        },
        security: match settings.security {
            joinery_plugin::Security::Invoker => joinery_resource::Security::Invoker,
            joinery_plugin::Security::Definer => joinery_resource::Security::Definer,
        },
    }
}
