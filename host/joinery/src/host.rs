//! What both ways of serving have in common: the plugins, and the server before them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use joinery_plugin::{Compile, DirectorySource, Policy, Runtime, RuntimeOptions};
use joinery_resource::{Catalog, SharedAuthorizer, Storage};
use joinery_server::{Authentication, Config, Health, Limits, Server, ServingSource, SharedTrust};
use joinery_source::Upstream;
use joinery_store::{BackupServer, Embedded, Options, Store};
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::cli::Common;
use crate::manager::Manager;
use crate::metrics::PluginMetrics;
use crate::service::Context;
use crate::sources::Sources;

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
}

/// A host that listens, with its plugins on their way.
pub(crate) struct Host {
    server: Server,
    health: Arc<Health>,
    plugins: JoinHandle<()>,
}

/// The open store, which gives backups while it is.
pub(crate) struct OpenStore {
    /// The store.
    pub(crate) store: Arc<dyn Store>,
    _backups: BackupServer,
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
    let store = Arc::new(store);
    let _backups = store.serve_backups()?;
    Ok(OpenStore { store, _backups })
}

impl Host {
    /// Takes the port, then begins to load the plugins.
    pub(crate) async fn start(parts: Parts) -> Result<Self> {
        let directory = DirectorySource::open(&parts.common.plugins).await?;
        let program = std::env::current_exe().context("cannot tell which program this is")?;
        let runtime = Runtime::new(RuntimeOptions {
            cache_dir: Some(parts.common.data_dir.join("compiled")),
            compile: Compile::Child {
                program,
                args: vec!["compile".into()],
            },
            workers: None,
            policy: parts.policy,
        })?;
        let manager = Arc::new(Manager::new(Context {
            runtime,
            catalog: parts.catalog.clone(),
            storage: parts.storage,
            sources: Sources::new(parts.upstream, parts.common.max_source_bytes),
            authorizer: parts.authorizer.clone(),
            exchange: Default::default(),
        }));
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
        let folder = parts.common.plugins;
        let plugins = tokio::spawn(async move {
            // The directory is watched for as long as it is held.
            let mut sets = directory.subscribe();
            loop {
                let set = sets.borrow_and_update().clone();
                if set.plugins.is_empty() {
                    warn!(
                        folder = %folder.display(),
                        "there are no plugins: copy NAME.wasm or NAME.wasm.zst there, they are loaded at once"
                    );
                }
                manager.want(&set);
                if sets.changed().await.is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            server,
            health: parts.health,
            plugins,
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
        self.plugins.abort();
    }
}
