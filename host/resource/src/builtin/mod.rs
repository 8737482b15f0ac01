//! What a cluster has and standalone must bring itself, as stored resources with rules of their own.
//!
//! Not a second way of serving: namespaces, Events, Leases, ConfigMaps, Services and Tasks are [`StoredResource`]s as those of
//! plugins are. In a cluster none of this is installed.

mod access_review;
mod config_maps;
mod crd;
mod define;
mod definitions;
mod emptying;
mod events;
mod expiry;
mod leases;
mod namespaces;
mod services;
mod typed;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use joinery_object::Status;
use joinery_store::Store;
use serde_json::Value;

use crate::access::{MASTERS, SharedAuthorizer, User};
use crate::catalog::Catalog;
use crate::resource::{Caller, Resource};
use crate::stored::{Rules, Storage, StoreNamespaces, StoredResource};

pub use crd::{CrdError, from_crd};

/// How long kube-apiserver keeps an Event.
const EVENT_TTL: Duration = Duration::from_secs(3600);

/// What differs between installations.
#[derive(Clone, Debug)]
pub struct BuiltinOptions {
    /// CustomResourceDefinitions whose resources are served too, as JSON.
    pub crds: Vec<Value>,
    /// How long an Event is kept after it was written last. An hour, as in kube-apiserver.
    pub event_ttl: Duration,
}

impl Default for BuiltinOptions {
    fn default() -> Self {
        Self {
            crds: Vec::new(),
            event_ttl: EVENT_TTL,
        }
    }
}

/// What has been installed.
pub struct Builtins {
    /// Where the resources of plugins are to be opened too.
    pub storage: Arc<Storage>,
    /// The resources with objects, in the catalog already.
    pub resources: Vec<Arc<StoredResource>>,
    /// Empties namespaces that are deleted and removes Events that have expired. To be polled for as long as the host runs.
    pub background: BoxFuture<'static, ()>,
}

/// Opens the built-in resources on a store, adds them to the catalog, and creates the namespaces that are always there.
///
/// # Errors
/// When the store fails, or a CustomResourceDefinition cannot be used.
pub async fn install(
    store: Arc<dyn Store>,
    catalog: &Arc<Catalog>,
    authorizer: SharedAuthorizer,
    options: BuiltinOptions,
) -> Result<Builtins, Status> {
    let namespaces = Arc::new(StoreNamespaces::new(store.clone()));
    let storage = Storage::new(store, namespaces, None, false);
    let namespaces = namespaces::open(&storage).await?;
    let events = events::open(&storage).await?;
    let mut resources = vec![
        namespaces.clone(),
        events.clone(),
        leases::open(&storage).await?,
        config_maps::open(&storage).await?,
        services::open(&storage).await?,
        definitions::open(&storage, &options.crds).await?,
    ];
    for crd in &options.crds {
        let (definition, schema) = from_crd(crd).map_err(Status::internal)?;
        let rules = Rules::default();
        resources
            .push(StoredResource::open(&storage, definition, Some(schema), None, rules).await?);
    }
    let reviews = access_review::resources(authorizer)?;
    let served = resources
        .iter()
        .map(|resource| resource.clone() as Arc<dyn Resource>);
    catalog.change(&[], served.chain(reviews));
    namespaces::create_defaults(&namespaces).await?;
    let background = futures::future::join(
        emptying::run(storage.clone(), namespaces, catalog.clone()),
        expiry::run(events, options.event_ttl),
    );
    Ok(Builtins {
        storage,
        resources,
        background: background.map(|_| ()).boxed(),
    })
}

/// The host itself, as the one who asks.
fn host() -> Caller {
    Caller {
        user: User {
            name: "system:joinery".to_owned(),
            groups: vec![MASTERS.to_owned(), "system:authenticated".to_owned()],
            ..User::default()
        },
        now: now(),
    }
}

/// Milliseconds since 1970.
fn now() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}
