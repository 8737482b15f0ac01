//! One plugin in service: loads a generation, prepares it beside the one that serves, and lets it take its place.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use joinery_object::GroupVersionResource;
use joinery_plugin::{
    Generation, Grant, HostSettings, LoadError, PluginFile, Removal, ResourceDescription, Runtime,
    Shape, Stats,
};
use joinery_resource::{
    Catalog, Resource, Rules, ServedResource, ServedSettings, SharedAuthorizer, Storage,
    StoredResource, ViewResource, ViewSettings,
};
use joinery_source::{SourceCache, SourceSpec};
use joinery_view::{Prepared, ViewSpec};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
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
    /// Which plugin serves each resource.
    pub(crate) holders: Mutex<BTreeMap<GroupVersionResource, String>>,
}

/// Why a plugin did not take its place.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// What is wrong and what is allowed.
    pub(crate) why: String,
    /// Whether the same plugin may be taken at another time, though nobody touches it.
    pub(crate) may_pass: bool,
}

impl Refusal {
    /// For as long as the plugin is as it is.
    pub(crate) fn lasting(why: String) -> Self {
        let may_pass = false;
        Self { why, may_pass }
    }

    /// For as long as something else is as it is.
    pub(crate) fn passing(why: impl ToString) -> Self {
        let (why, may_pass) = (why.to_string(), true);
        Self { why, may_pass }
    }
}

impl From<LoadError> for Refusal {
    fn from(error: LoadError) -> Self {
        let (why, may_pass) = (error.to_string(), error.may_pass());
        Self { why, may_pass }
    }
}

/// What takes its place.
pub(crate) struct Taken {
    /// How many resources it serves.
    pub(crate) resources: usize,
    /// Whether it has stored resources: then it is not to go from under their objects.
    pub(crate) stores: bool,
}

/// A resource in service.
#[derive(Clone)]
enum Served {
    Stored(Arc<StoredResource>),
    View(Arc<ViewResource>),
    Own(Arc<ServedResource>),
}

impl Served {
    fn resource(&self) -> Arc<dyn Resource> {
        match self {
            Self::Stored(stored) => stored.clone(),
            Self::View(view) => view.clone(),
            Self::Own(served) => served.clone(),
        }
    }
}

/// A resource of a new generation, ready to take its place.
enum Ready {
    Stored,
    View(Box<Prepared>),
    Own,
}

/// What serves of one plugin.
#[derive(Clone, Default)]
struct Serving {
    generation: Option<Arc<Generation>>,
    resources: BTreeMap<GroupVersionResource, Served>,
}

/// What serves of a plugin, and how it is doing.
pub(crate) struct ServingReport {
    /// SHA-256 of the component, in hex.
    pub(crate) digest: String,
    /// SHA-256 of the settings, in hex.
    pub(crate) settings_digest: String,
    /// The operator's settings.
    pub(crate) settings: HostSettings,
    /// What the operator allows it.
    pub(crate) grant: Grant,
    /// Its calls.
    pub(crate) stats: Stats,
    /// By group, version and plural.
    pub(crate) resources: Vec<ResourceReport>,
    /// What its views read.
    pub(crate) sources: Vec<SourceReport>,
}

/// How a resource is doing.
pub(crate) struct ResourceReport {
    pub(crate) gvr: GroupVersionResource,
    pub(crate) kind: String,
    /// `stored`, `view` or `served`.
    pub(crate) shape: &'static str,
    /// Of a view: how many primaries the plugin fails on.
    pub(crate) failures: u64,
    /// Of a view: how long the last changes took from their arrival until they could be read.
    pub(crate) lag: Option<Duration>,
    /// Of a view: whether it can only be read live, for a source is too large to be held.
    pub(crate) suspended: bool,
}

/// How a source is doing.
pub(crate) struct SourceReport {
    /// Group, version and resource.
    pub(crate) source: String,
    /// Its label selector.
    pub(crate) selector: String,
    /// Of the objects held.
    pub(crate) bytes: u64,
    /// Whether it has been listed.
    pub(crate) synced: bool,
    /// Whether it has not been heard of for most of a minute.
    pub(crate) stale: bool,
    /// What went wrong last, while it is still so.
    pub(crate) error: Option<String>,
}

impl SourceReport {
    pub(crate) fn of(cache: &SourceCache) -> Self {
        let (spec, state) = (cache.spec(), cache.state());
        Self {
            source: spec.gvr.to_string(),
            selector: spec.label_selector.clone(),
            bytes: cache.bytes() as u64,
            synced: state.synced,
            stale: state.stale,
            error: state.error,
        }
    }

    /// Whether it is listed and followed.
    pub(crate) fn is_fresh(&self) -> bool {
        self.synced && !self.stale && self.error.is_none()
    }
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
    /// Loads a plugin beside what serves, and lets it take its place in one step.
    ///
    /// Given up while it prepares, it has changed nothing; once it takes its place it is not interrupted.
    pub(crate) async fn replace(
        self: &Arc<Self>,
        context: &Arc<Context>,
        plugin: PluginFile,
    ) -> Result<Taken, Refusal> {
        let generation = context.runtime.load(plugin).await?;
        // What cannot take its place need not be prepared.
        self.check(context, &generation)?;
        let mut ready = Vec::new();
        let _prepared = Preparing(self);
        for resource in &generation.description().resources {
            ready.push(match &resource.shape {
                Shape::Stored => Ready::Stored,
                Shape::Served => Ready::Own,
                Shape::View(spec) => {
                    let caches = caches(context, spec);
                    self.preparing.lock().clone_from(&caches);
                    Ready::View(Box::new(prepare(&generation, spec, caches).await?))
                }
            });
        }
        let taken = Taken {
            resources: ready.len(),
            stores: ready.iter().any(|ready| matches!(ready, Ready::Stored)),
        };
        let (service, context) = (self.clone(), context.clone());
        tokio::spawn(async move { service.swap(&context, &generation, ready).await })
            .await
            .map_err(Refusal::passing)??;
        Ok(taken)
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
    ///
    /// # Errors
    /// Why it stays: objects are stored, and the settings do not let it go from under them.
    pub(crate) async fn retire(&self, context: &Context, name: &str) -> Result<(), String> {
        let _exchange = context.exchange.lock().await;
        let serving = self.serving.lock().clone();
        let removal = match &serving.generation {
            Some(generation) => generation.settings().removal,
            None => Removal::Warn,
        };
        for (gvr, served) in &serving.resources {
            let Served::Stored(stored) = served else {
                continue;
            };
            let (objects, resource) = (stored.count(), gvr.group_resource());
            match removal {
                _ if objects == 0 => {}
                Removal::Refuse => {
                    return Err(format!(
                        "it was taken away, but the store has {} of {resource}: it serves on until nothing of it is \
                         stored (removal: warn in its settings lets it go all the same)",
                        counted(objects)
                    ));
                }
                Removal::Warn => {
                    warn!(
                        plugin = name,
                        resource, objects, "plugin is gone, its objects stay stored"
                    );
                }
            }
        }
        *self.serving.lock() = Serving::default();
        let gone: Vec<_> = serving.resources.into_keys().collect();
        if !gone.is_empty() {
            context.catalog.change(&gone, []);
            context.holders.lock().retain(|gvr, _| !gone.contains(gvr));
        }
        if serving.generation.is_some() {
            info!(plugin = name, "plugin is out of service");
        }
        Ok(())
    }

    /// Whether a generation serves.
    pub(crate) fn is_serving(&self) -> bool {
        self.serving.lock().generation.is_some()
    }

    /// What serves and how it is doing; none when nothing does.
    pub(crate) fn report(&self, context: &Context) -> Option<ServingReport> {
        let serving = self.serving.lock().clone();
        let generation = serving.generation?;
        let settings = generation.settings().clone();
        let resources = serving.resources.iter().map(|(gvr, served)| {
            let (shape, failures, lag) = match served {
                Served::Stored(_) => ("stored", 0, None),
                Served::View(view) => ("view", view.failures().len() as u64, Some(view.lag())),
                Served::Own(_) => ("served", 0, None),
            };
            let suspended = matches!(served, Served::View(view) if view.suspended());
            ResourceReport {
                gvr: gvr.clone(),
                kind: served.resource().definition().kind.clone(),
                shape,
                failures,
                lag,
                suspended,
            }
        });
        let sources = generation.description().sources.iter();
        let sources = sources.filter_map(|source| context.sources.find(&source_spec(source)));
        Some(ServingReport {
            digest: generation.digest().to_owned(),
            settings_digest: digest(&settings),
            grant: generation.grant().clone(),
            stats: generation.stats(),
            resources: resources.collect(),
            sources: sources.map(|cache| SourceReport::of(&cache)).collect(),
            settings,
        })
    }

    /// Whether a generation may take the place of what serves.
    fn check(&self, context: &Context, generation: &Generation) -> Result<(), Refusal> {
        let serving = self.serving.lock().clone();
        let snapshot = context.catalog.snapshot();
        let resources = &generation.description().resources;
        // What others serve.
        let others: Vec<_> = snapshot
            .resources()
            .filter(|(other, _)| !serving.resources.contains_key(other))
            .map(|(_, resource)| resource.definition())
            .collect();
        for resource in resources {
            let gvr = &resource.definition.gvr;
            let name = gvr.group_resource();
            let Some(old) = serving.resources.get(gvr) else {
                let in_group = || others.iter().filter(|other| other.gvr.group == gvr.group);
                if let Some(other) = in_group().find(|other| other.gvr.resource == gvr.resource) {
                    let holder = match context.holders.lock().get(&other.gvr) {
                        Some(plugin) => format!("plugin {plugin:?}, which keeps it until it goes"),
                        None => "the host itself".to_owned(),
                    };
                    return Err(Refusal::passing(format!(
                        "{name} is served already, by {holder}"
                    )));
                }
                for other in in_group() {
                    if let Some(both) = resource.definition.name_in_common(other) {
                        return Err(Refusal::passing(format!(
                            "{name}: {both:?} is a name of {} already: kinds, singulars and short names are unique in a group",
                            other.gvr.group_resource()
                        )));
                    }
                }
                continue;
            };
            if old.resource().definition().namespaced != resource.definition.namespaced {
                return Err(Refusal::lasting(format!(
                    "{name}: the scope of a resource cannot change"
                )));
            }
            match (old, &resource.shape) {
                (Served::Stored(_), Shape::Stored)
                | (Served::View(_), Shape::View(_))
                | (Served::Own(_), Shape::Served) => {}
                _ => {
                    return Err(Refusal::lasting(format!(
                        "{name}: the shape of a resource cannot change"
                    )));
                }
            }
        }
        for (gvr, served) in &serving.resources {
            let Served::Stored(stored) = served else {
                continue;
            };
            let (name, objects) = (gvr.group_resource(), stored.count());
            if objects == 0 || resources.iter().any(|r| r.definition.gvr == *gvr) {
                continue;
            }
            let same = |other: &GroupVersionResource| {
                other.group == gvr.group && other.resource == gvr.resource
            };
            let other = resources.iter().find(|r| same(&r.definition.gvr));
            let stored = counted(objects);
            return Err(Refusal::passing(match other {
                Some(other) => format!(
                    "it serves {name} in version {}, but the store has {stored} of version {}, and there is no conversion \
                     between versions yet: delete them first",
                    other.definition.gvr.version, gvr.version
                ),
                None => format!(
                    "it no longer serves {name}, of which the store has {stored}: delete them first"
                ),
            }));
        }
        Ok(())
    }

    async fn swap(
        &self,
        context: &Context,
        generation: &Arc<Generation>,
        ready: Vec<Ready>,
    ) -> Result<(), Refusal> {
        let _exchange = context.exchange.lock().await;
        // Others may have taken their places meanwhile.
        self.check(context, generation)?;
        let old = self.serving.lock().clone();
        let opens = |(resource, ready): (&ResourceDescription, &Ready)| {
            matches!(ready, Ready::Stored) && !old.resources.contains_key(&resource.definition.gvr)
        };
        let resources = &generation.description().resources;
        if resources.iter().zip(&ready).any(opens)
            && let Err(error) = context.storage.remove_orphans().await
        {
            // What an earlier plugin of that name left in a namespace that went must not be seen in a namesake.
            warn!(%error, "cannot look for objects whose namespace is gone");
        }
        let mut next = BTreeMap::new();
        for (resource, ready) in generation.description().resources.iter().zip(ready) {
            let gvr = resource.definition.gvr.clone();
            let served = match (old.resources.get(&gvr).cloned(), ready) {
                (Some(Served::Stored(stored)), Ready::Stored) => {
                    stored
                        .replace(
                            Arc::unwrap_or_clone(resource.definition.clone()),
                            Some(resource.schema.clone()),
                            Some(generation.admit()),
                        )
                        .map_err(Refusal::passing)?;
                    Served::Stored(stored)
                }
                (Some(Served::View(view)), Ready::View(prepared)) => {
                    view.replace(view_settings(generation, resource), *prepared)
                        .await;
                    Served::View(view)
                }
                (Some(Served::Own(served)), Ready::Own) => {
                    served.replace(served_settings(context, generation, resource));
                    Served::Own(served)
                }
                (_, Ready::Own) => Served::Own(Arc::new(ServedResource::new(
                    served_settings(context, generation, resource),
                    context.storage.namespaces().clone(),
                ))),
                (_, Ready::Stored) => Served::Stored(
                    StoredResource::open(
                        &context.storage,
                        Arc::unwrap_or_clone(resource.definition.clone()),
                        Some(resource.schema.clone()),
                        Some(generation.admit()),
                        Rules::default(),
                    )
                    .await
                    .map_err(Refusal::passing)?,
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
        let mut holders = context.holders.lock();
        holders.retain(|gvr, _| !gone.contains(gvr));
        holders.extend(
            next.keys()
                .map(|gvr| (gvr.clone(), generation.name().to_owned())),
        );
        drop(holders);
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
        .map(|source| context.sources.cache(source_spec(source)))
        .collect()
}

/// Reads the sources of a view and composes all its objects.
async fn prepare(
    generation: &Generation,
    spec: &ViewSpec,
    caches: Vec<Arc<SourceCache>>,
) -> Result<Prepared, Refusal> {
    let join = generation
        .join(&spec.resource)
        .ok_or_else(|| Refusal::lasting(format!("{} has no join", spec.resource)))?;
    Ok(Prepared::new(join, caches).await)
}

fn counted(objects: usize) -> String {
    let plural = if objects == 1 { "" } else { "s" };
    format!("{objects} object{plural}")
}

/// The cache that a source of a view is read from.
fn source_spec(source: &joinery_view::SourceSpec) -> SourceSpec {
    SourceSpec {
        gvr: source.gvr.clone(),
        label_selector: source.label_selector.clone(),
        field_selector: source.field_selector.clone(),
        optional: source.optional,
    }
}

/// Two of the same digest are the same settings.
fn digest(settings: &HostSettings) -> String {
    Sha256::digest(format!("{settings:?}"))
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn served_settings(
    context: &Context,
    generation: &Generation,
    resource: &ResourceDescription,
) -> ServedSettings {
    let storage = context.storage.clone();
    ServedSettings {
        definition: resource.definition.clone(),
        schema: resource.schema.clone(),
        serve: generation.serve(Arc::new(move || storage.lookup())),
        interval: Duration::from_secs(generation.settings().limits.watch_seconds.into()),
    }
}

fn view_settings(generation: &Generation, resource: &ResourceDescription) -> ViewSettings {
    let settings = generation.settings();
    ViewSettings {
        definition: resource.definition.clone(),
        mode: settings.mode,
        security: settings.security,
    }
}
