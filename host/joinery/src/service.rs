//! One plugin in service: loads a generation, prepares it beside the one that serves, and lets it take its place.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use joinery_object::GroupVersionResource;
use joinery_plugin::{Generation, PluginFile, ResourceDescription, Runtime, Shape, Stats};
use joinery_resource::{
    Catalog, Resource, Rules, SharedAuthorizer, Storage, StoredResource, ViewResource, ViewSettings,
};
use joinery_source::{SourceCache, SourceSpec};
use joinery_view::{Prepared, ViewSpec};
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tracing::{info, warn};

use crate::sources::Sources;

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
    /// Held while a plugin takes its place, so that of two that claim the same resource one is refused.
    pub(crate) exchange: AsyncMutex<()>,
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
    View(Box<Prepared>),
}

/// What serves of one plugin.
#[derive(Clone, Default)]
struct Serving {
    generation: Option<Arc<Generation>>,
    resources: BTreeMap<GroupVersionResource, Served>,
}

/// How a view is doing.
pub(crate) struct ViewReport {
    /// E.g. `combinedtasks.aggregated.tasks.example.com`.
    pub(crate) resource: String,
    /// How many primaries the plugin fails on.
    pub(crate) failures: u64,
    /// How long the last changes took from their arrival until they could be read.
    pub(crate) lag: Duration,
    /// Whether it can only be read live, for a source is too large to be held.
    pub(crate) suspended: bool,
}

/// One plugin, whichever generation of it serves.
#[derive(Default)]
pub(crate) struct Service {
    /// Changed only under [`Context::exchange`].
    serving: Mutex<Serving>,
    /// The sources of what is being prepared.
    preparing: Mutex<Vec<Arc<SourceCache>>>,
}

impl Service {
    /// Loads a plugin beside what serves, and lets it take its place in one step. Returns how many resources it serves.
    ///
    /// Given up while it prepares, it has changed nothing; once it takes its place it is not interrupted.
    pub(crate) async fn replace(
        self: &Arc<Self>,
        context: &Arc<Context>,
        plugin: PluginFile,
    ) -> Result<usize> {
        let generation = context.runtime.load(plugin).await?;
        // What cannot take its place need not be prepared.
        self.check(context, &generation)?;
        let mut ready = Vec::new();
        let _prepared = Preparing(self);
        for resource in &generation.description().resources {
            ready.push(match &resource.shape {
                Shape::Stored => Ready::Stored,
                Shape::View(spec) => {
                    let caches = caches(context, spec);
                    self.preparing.lock().clone_from(&caches);
                    Ready::View(Box::new(prepare(&generation, spec, caches).await?))
                }
            });
        }
        let count = ready.len();
        let (service, context) = (self.clone(), context.clone());
        tokio::spawn(async move { service.swap(&context, &generation, ready).await }).await??;
        Ok(count)
    }

    /// The sources that the generation which is being loaded still waits for, and what went wrong with them last.
    pub(crate) fn waits_for(&self) -> Vec<(String, String)> {
        let preparing = self.preparing.lock();
        let missing = preparing.iter().filter(|cache| !cache.state().synced);
        let told = missing.map(|cache| {
            let error = cache.state().error.unwrap_or_default();
            (cache.spec().gvr.to_string(), error)
        });
        told.collect()
    }

    /// Takes the plugin's resources away.
    pub(crate) async fn retire(&self, context: &Context, name: &str) {
        let _exchange = context.exchange.lock().await;
        let gone = std::mem::take(&mut *self.serving.lock());
        for (gvr, served) in &gone.resources {
            if let Served::Stored(stored) = served
                && stored.count() > 0
            {
                warn!(
                    plugin = name, resource = %gvr, objects = stored.count(),
                    "plugin is gone, its objects stay stored"
                );
            }
        }
        let gone: Vec<_> = gone.resources.into_keys().collect();
        context.catalog.change(&gone, []);
        info!(plugin = name, "plugin is out of service");
    }

    /// How the calls of the generation that serves have gone; none when none does.
    pub(crate) fn stats(&self) -> Option<Stats> {
        self.serving.lock().generation.as_ref().map(|g| g.stats())
    }

    /// How each view is doing.
    pub(crate) fn views(&self) -> Vec<ViewReport> {
        let serving = self.serving.lock().clone();
        let views = serving
            .resources
            .iter()
            .filter_map(|(gvr, served)| match served {
                Served::View(view) => Some(ViewReport {
                    resource: gvr.group_resource(),
                    failures: view.failures().len() as u64,
                    lag: view.lag(),
                    suspended: view.suspended(),
                }),
                Served::Stored(_) => None,
            });
        views.collect()
    }

    /// Whether a generation may take the place of what serves.
    fn check(&self, context: &Context, generation: &Generation) -> Result<()> {
        let serving = self.serving.lock().clone();
        let snapshot = context.catalog.snapshot();
        let resources = &generation.description().resources;
        for resource in resources {
            let gvr = &resource.definition.gvr;
            let name = gvr.group_resource();
            let Some(old) = serving.resources.get(gvr) else {
                let taken = snapshot
                    .resources()
                    .map(|(other, _)| other)
                    .filter(|other| !serving.resources.contains_key(other))
                    .any(|other| other.group == gvr.group && other.resource == gvr.resource);
                if taken {
                    bail!("{name} is served already, by another plugin or by the host");
                }
                continue;
            };
            if old.resource().definition().namespaced != resource.definition.namespaced {
                bail!("{name}: the scope of a resource cannot change");
            }
            match (old, &resource.shape) {
                (Served::Stored(_), Shape::Stored) | (Served::View(_), Shape::View(_)) => {}
                _ => bail!("{name}: the shape of a resource cannot change"),
            }
        }
        for (gvr, served) in &serving.resources {
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

    async fn swap(
        &self,
        context: &Context,
        generation: &Arc<Generation>,
        ready: Vec<Ready>,
    ) -> Result<()> {
        let _exchange = context.exchange.lock().await;
        // Others may have taken their places meanwhile.
        self.check(context, generation)?;
        let old = self.serving.lock().clone();
        let mut next = BTreeMap::new();
        for (resource, ready) in generation.description().resources.iter().zip(ready) {
            let gvr = resource.definition.gvr.clone();
            let served = match (old.resources.get(&gvr).cloned(), ready) {
                (Some(Served::Stored(stored)), Ready::Stored) => {
                    stored.replace(
                        Arc::unwrap_or_clone(resource.definition.clone()),
                        Some(resource.schema.clone()),
                        Some(generation.admit()),
                    )?;
                    Served::Stored(stored)
                }
                (Some(Served::View(view)), Ready::View(prepared)) => {
                    view.replace(view_settings(generation, resource), *prepared)
                        .await;
                    Served::View(view)
                }
                (_, Ready::Stored) => Served::Stored(
                    StoredResource::open(
                        &context.storage,
                        Arc::unwrap_or_clone(resource.definition.clone()),
                        Some(resource.schema.clone()),
                        Some(generation.admit()),
                        Rules::default(),
                    )
                    .await?,
                ),
                (_, Ready::View(prepared)) => Served::View(Arc::new(ViewResource::new(
                    view_settings(generation, resource),
                    *prepared,
                    context.sources.upstream().clone(),
                    context.authorizer.clone(),
                ))),
            };
            next.insert(gvr, served);
        }
        let gone: Vec<_> = old
            .resources
            .into_keys()
            .filter(|gvr| !next.contains_key(gvr))
            .collect();
        // Also what stays is put in anew: discovery and OpenAPI are made again from its definition.
        context
            .catalog
            .change(&gone, next.values().map(Served::resource));
        *self.serving.lock() = Serving {
            generation: Some(generation.clone()),
            resources: next,
        };
        Ok(())
    }
}

/// A load that has ended, in whichever way, waits for nothing.
struct Preparing<'a>(&'a Service);

impl Drop for Preparing<'_> {
    fn drop(&mut self) {
        self.0.preparing.lock().clear();
    }
}

fn caches(context: &Context, spec: &ViewSpec) -> Vec<Arc<SourceCache>> {
    spec.sources
        .iter()
        .map(|source| {
            context.sources.cache(SourceSpec {
                gvr: source.gvr.clone(),
                label_selector: source.label_selector.clone(),
                field_selector: source.field_selector.clone(),
                optional: source.optional,
            })
        })
        .collect()
}

/// Reads the sources of a view and composes all its objects.
async fn prepare(
    generation: &Generation,
    spec: &ViewSpec,
    caches: Vec<Arc<SourceCache>>,
) -> Result<Prepared> {
    let join = generation
        .join(&spec.resource)
        .ok_or_else(|| anyhow!("{} has no join", spec.resource))?;
    Ok(Prepared::new(join, caches).await)
}

fn view_settings(generation: &Generation, resource: &ResourceDescription) -> ViewSettings {
    let settings = generation.settings();
    ViewSettings {
        definition: resource.definition.clone(),
        mode: settings.mode,
        security: settings.security,
    }
}
