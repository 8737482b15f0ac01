//! What both ways of serving have in common: the plugins, and the server before them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use joinery_plugin::{Compile, DirectorySource, Policy, Runtime, RuntimeOptions};
use joinery_resource::{Catalog, ReportedResource, Resource, SharedAuthorizer, Storage};
use joinery_server::{Authentication, Config, Health, Limits, Server, ServingSource, SharedTrust};
use joinery_source::Upstream;
use joinery_store::{BackupServer, Embedded, Options, Store};
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::api_services::ApiServices;
use crate::cli::Common;
use crate::config_maps::ConfigMapSource;
use crate::delivery::Delivery;
use crate::events::{EventSink, Recorder};
use crate::kept::Kept;
use crate::manager::Manager;
use crate::metrics::PluginMetrics;
use crate::report::{self, Reporter};
use crate::service::Context;
use crate::sources::Sources;

/// Between two looks at what tells nobody that it changed.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// What a host is made of.
pub(crate) struct Parts {
    /// Folders.
    pub(crate) common: Common,
    /// What plugins may do.
    pub(crate) policy: Policy,
    /// Where to listen.
    pub(crate) listen: SocketAddr,
    /// What is served besides the plugins.
    pub(crate) catalog: Arc<Catalog>,
    /// Where stored resources keep their objects.
    pub(crate) storage: Arc<Storage>,
    /// What views read.
    pub(crate) upstream: Arc<dyn Upstream>,
    /// May they.
    pub(crate) authorizer: SharedAuthorizer,
    /// Who asks.
    pub(crate) authentication: Authentication,
    /// The serving certificate.
    pub(crate) serving: ServingSource,
    /// Whose client certificates are asked for.
    pub(crate) trust: Arc<SharedTrust>,
    /// What health checks look at.
    pub(crate) health: Arc<Health>,
    /// Metrics besides those of plugins and server.
    pub(crate) registry: Registry,
    /// Where it is told what became of plugins.
    pub(crate) events: Arc<dyn EventSink>,
    /// What registers it with a kube-apiserver.
    pub(crate) api_services: Option<Arc<ApiServices>>,
}

/// A host that listens, with its plugins on their way.
pub(crate) struct Host {
    server: Server,
    health: Arc<Health>,
    tasks: Vec<JoinHandle<()>>,
}

/// The open store, which gives backups while it is.
pub(crate) struct OpenStore {
    /// The store.
    pub(crate) store: Arc<dyn Store>,
    embedded: Arc<Embedded>,
    _backups: BackupServer,
}

impl OpenStore {
    /// Not ready while the store takes no writes; not live when it will take none before a restart.
    pub(crate) fn watch_over(&self, health: &Health) {
        let embedded = self.embedded.clone();
        health.ready("store", move || {
            let writable = embedded.writable();
            writable
                .map(|()| String::new())
                .map_err(|error| error.to_string())
        });
        let embedded = self.embedded.clone();
        health.live("store-engine", move || {
            embedded.recoverable().map_err(|error| error.to_string())
        });
    }
}

/// Where the store lies in a data folder.
pub(crate) fn store_folder(data_dir: &Path) -> PathBuf {
    data_dir.join("store")
}

/// Opens the embedded store below the data folder.
pub(crate) fn open_store(common: &Common) -> Result<OpenStore> {
    let folder = store_folder(&common.data_dir);
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make the data folder {}", folder.display()))?;
    let options = Options {
        history_count: usize::try_from(common.history_count).unwrap_or(usize::MAX),
        history_age: Duration::from_secs(common.history_age),
        ..Options::default()
    };
    let store = Embedded::open(&folder, options)
        .with_context(|| format!("cannot open the store {}", folder.display()))?;
    let embedded = Arc::new(store);
    let _backups = embedded.serve_backups()?;
    Ok(OpenStore {
        store: embedded.clone(),
        embedded,
        _backups,
    })
}

impl Host {
    /// Takes the port, then begins to load the plugins.
    pub(crate) async fn start(parts: Parts) -> Result<Self> {
        let directory = DirectorySource::open(&parts.common.plugins).await?;
        let config_maps =
            ConfigMapSource::start(parts.upstream.clone(), &parts.common.plugin_namespace);
        let delivery = Delivery::new(
            parts.common.plugins.display().to_string(),
            directory,
            Some(config_maps),
        );
        let program = std::env::current_exe().context("cannot tell which program this is")?;
        let runtime = Runtime::new(RuntimeOptions {
            cache_dir: Some(parts.common.data_dir.join("compiled")),
            compile: Compile::Child {
                program,
                args: vec!["compile".into()],
            },
            workers: None,
            policy: parts.policy,
            max_memory: parts.common.max_plugin_memory,
        })?;
        let reported = Arc::new(ReportedResource::new(report::definition()?));
        parts
            .catalog
            .change(&[], [reported.clone() as Arc<dyn Resource>]);
        let recorder = Recorder::start(parts.events);
        let manager = Manager::new(
            recorder,
            Kept::open(&parts.common.data_dir.join("accepted"))?,
            Context {
                runtime,
                catalog: parts.catalog.clone(),
                storage: parts.storage,
                sources: Sources::new(parts.upstream, parts.common.max_source_bytes),
                authorizer: parts.authorizer.clone(),
                exchange: Default::default(),
                holders: Default::default(),
            },
        );
        let loading = manager.clone();
        parts.health.ready("plugins", move || loading.ready());
        let mut registry = parts.registry;
        registry.register_collector(Box::new(PluginMetrics(manager.clone())));
        let server = Server::bind(
            parts.listen,
            Config {
                catalog: parts.catalog,
                authentication: parts.authentication,
                authorizer: parts.authorizer,
                serving: parts.serving,
                trust: parts.trust,
                health: parts.health.clone(),
                registry,
                limits: Limits::default(),
            },
        )
        .await?;
        let mut tasks = Vec::new();
        let folder = parts.common.plugins;
        let wanting = manager.clone();
        tasks.push(tokio::spawn(
            delivery.follow(move |candidates| {
                if candidates.is_empty() {
                    warn!(
                        folder = %folder.display(),
                        "there are no plugins: copy NAME.wasm or NAME.wasm.zst there, they are loaded at once"
                    );
                }
                wanting.want(candidates);
            }),
        ));
        tasks.push(tokio::spawn(tell(
            manager.clone(),
            reported,
            parts.api_services.clone(),
        )));
        if let Some(api_services) = parts.api_services {
            let complete = move || manager.ready().is_ok();
            tasks.push(tokio::spawn(api_services.run(complete)));
        }
        Ok(Self {
            server,
            health: parts.health,
            tasks,
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// Whether all is loaded.
    pub(crate) fn health(&self) -> Arc<Health> {
        self.health.clone()
    }

    /// Serves until `stop`, then winds up.
    pub(crate) async fn run(self, stop: CancellationToken) {
        self.server.run(stop).await;
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Keeps the joineryplugins as the plugins are.
async fn tell(
    manager: Arc<Manager>,
    reported: Arc<ReportedResource>,
    api_services: Option<Arc<ApiServices>>,
) {
    let mut reporter = Reporter::default();
    let mut registered = api_services.as_ref().map(|services| services.subscribe());
    loop {
        let services = api_services.as_ref().map(|services| services.registered());
        let objects = reporter.objects(&manager.report(), services.as_ref());
        if let Err(error) = reported.report(objects) {
            tracing::error!(%error, "joineryplugins cannot be told");
        }
        let registered = async {
            match &mut registered {
                Some(registered) => registered.changed().await.is_ok(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = manager.changed() => {}
            _ = registered => {}
            // How sources and objects are is told by nobody.
            () = tokio::time::sleep(REPORT_EVERY) => {}
        }
    }
}
