//! `joinery serve`: behind the aggregation layer of a kube-apiserver.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use joinery_plugin::Grants;
use joinery_resource::{Catalog, Storage};
use joinery_server::{
    Authentication, ClientCertificates, FrontProxyHeaders, Health, ServingSource, SharedTrust,
    SubjectAccessReviews, TokenReviews, Trust, follow_cluster_trust,
};
use joinery_source::{KubernetesUpstream, Upstream};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::api_services::ApiServices;
use crate::cli::Serve;
use crate::cluster::{ClusterNamespaces, RoutedUpstream};
use crate::events::ClusterEvents;
use crate::host::{Host, Parts, open_store};

/// Between looks for objects whose namespace is gone.
const ORPHANS_EVERY: Duration = Duration::from_secs(60);
/// After one that failed.
const RETRY: Duration = Duration::from_secs(1);
/// Namespaces that go within such a time are looked for together.
const TOGETHER: Duration = Duration::from_millis(200);

/// Serves until `stop`.
pub(crate) async fn run(options: Serve, stop: CancellationToken) -> Result<()> {
    let policy = options.common.policy.read(Grants::default())?;
    if options.common.policy.plugin_grants.is_none() {
        warn!("no plugin is granted anything: say --plugin-grants FILE");
    }
    let client = client(&options).await?;
    let trust = SharedTrust::new(Trust::default());
    follow_cluster_trust(client.clone(), trust.clone()).await?;
    let cluster: Arc<dyn Upstream> = Arc::new(KubernetesUpstream::new(client.clone()));
    let store = open_store(&options.common)?;
    let namespaces = Arc::new(ClusterNamespaces::start(cluster.clone()));
    let storage = Storage::new(
        store.store.clone(),
        namespaces.clone(),
        Some(cluster.clone()),
        true,
    );
    let mut registry = Registry::default();
    let authorizer = SubjectAccessReviews::new(client.clone());
    authorizer.register(&mut registry);
    let tokens = TokenReviews::new(client.clone());
    tokens.register(&mut registry);
    let health = Health::new();
    store.watch_over(&health);
    let swept = Arc::new(AtomicBool::new(false));
    let sweeper = tokio::spawn(remove_orphans(storage.clone(), namespaces, swept.clone()));
    health.ready("namespaces", move || {
        let unknown = || "it is not known yet which namespaces have gone".to_owned();
        swept
            .load(Ordering::Acquire)
            .then_some(String::new())
            .ok_or_else(unknown)
    });
    let catalog = Arc::new(Catalog::new());
    let api_services = options
        .service
        .zip(options.service_ca_file)
        .map(|(service, ca)| {
            let (client, upstream) = (client.clone(), cluster.clone());
            ApiServices::start(client, upstream, service, ca, catalog.clone())
        });
    let host = Host::start(Parts {
        common: options.common,
        policy,
        listen: options.listen,
        catalog,
        upstream: Arc::new(RoutedUpstream::new(storage.clone(), cluster)),
        storage: storage.clone(),
        authorizer: Arc::new(authorizer),
        authentication: Authentication::new(vec![
            Box::new(FrontProxyHeaders::new(trust.clone())),
            Box::new(ClientCertificates::new(trust.clone())),
            Box::new(tokens),
        ]),
        serving: ServingSource::Files {
            certificate: options.tls_cert_file,
            key: options.tls_private_key_file,
        },
        trust,
        health,
        registry,
        events: Arc::new(ClusterEvents(client)),
        api_services,
    })
    .await?;
    info!(address = %host.address(), "serving");
    host.run(stop).await;
    sweeper.abort();
    Ok(())
}

/// Removes what is stored for namespaces that are gone, so that it never appears in a namesake: at the start, whenever one
/// goes, and now and then. Sets `swept` once it has looked for the first time.
///
/// The cluster's namespace controller asks us to empty a namespace before it goes; this is for what it could not see,
/// because we or the plugin were away.
async fn remove_orphans(
    storage: Arc<Storage>,
    namespaces: Arc<ClusterNamespaces>,
    swept: Arc<AtomicBool>,
) {
    loop {
        let mut departures = namespaces.departures().await;
        let again = match storage.remove_orphans().await {
            Ok(removed) => {
                if removed > 0 {
                    info!(removed, "removed objects whose namespace is gone");
                }
                swept.store(true, Ordering::Release);
                ORPHANS_EVERY
            }
            Err(error) => {
                warn!(%error, "cannot look for objects whose namespace is gone");
                RETRY
            }
        };
        let departure = async {
            departures.next().await;
            // Others may follow at once.
            tokio::time::sleep(TOGETHER).await;
        };
        let _ = tokio::time::timeout(again, departure).await;
    }
}

async fn client(options: &Serve) -> Result<kube::Client> {
    let mut config = match &options.kubeconfig {
        None => kube::Config::incluster().context(
            "this is no pod with a ServiceAccount; outside a cluster, say --kubeconfig FILE",
        )?,
        Some(path) => {
            let unreadable = || format!("cannot use the kubeconfig {}", path.display());
            let kubeconfig = kube::config::Kubeconfig::read_from(path).with_context(unreadable)?;
            kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default())
                .await
                .with_context(unreadable)?
        }
    };
    // Watches are silent for minutes; requests have time limits of their own.
    config.read_timeout = None;
    kube::Client::try_from(config).context("cannot reach the kube-apiserver")
}
