//! `joinery standalone`: no cluster, an embedded store, the same code.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use joinery_object::GroupVersionResource;
use joinery_plugin::Grants;
use joinery_resource::builtin::{self, BuiltinOptions};
use joinery_resource::{Catalog, MASTERS, StoredUpstream, User};
use joinery_server::{
    AdministratorsOnly, Authentication, Health, ServingSource, SharedTrust, StaticTokens, Trust,
};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::cli::Standalone;
use crate::events::OwnEvents;
use crate::host::{Host, Parts, open_store};
use crate::identity::{Identity, check_private, write_private};

/// The Task resource, from the same manifest that a cluster gets.
const TASK_CRD: &str = include_str!("../../../deploy/crd/task.yaml");
/// Between looks whether all is ready.
const READY_POLL: Duration = Duration::from_millis(20);

/// Serves until `stop`; writes the kubeconfig once everything is ready.
pub(crate) async fn run(options: Standalone, stop: CancellationToken) -> Result<()> {
    // Only the administrator reaches it, and there is nothing behind it.
    let policy = options.common.policy.read(Grants::everything())?;
    // The kubeconfig may go there too.
    let data_dir = &options.common.data_dir;
    let made = tokio::fs::create_dir_all(data_dir).await;
    made.with_context(|| format!("cannot make the data folder {}", data_dir.display()))?;
    check_private(&options.kubeconfig)?;
    let identity = Identity::ensure(&options.common.data_dir.join("identity"))?;
    let store = open_store(&options.common)?;
    let catalog = Arc::new(Catalog::new());
    let authorizer = Arc::new(AdministratorsOnly);
    let task: serde_json::Value =
        serde_saphyr::from_str(TASK_CRD).context("deploy/crd/task.yaml is no YAML")?;
    let builtins = builtin::install(
        store.store.clone(),
        &catalog,
        authorizer.clone(),
        BuiltinOptions {
            crds: vec![task],
            event_ttl: Duration::from_secs(options.event_ttl),
        },
    )
    .await?;
    let background = tokio::spawn(builtins.background);
    let events = GroupVersionResource::new("", "v1", "events");
    let events = builtins.storage.served(&events);
    let events = events.context("there is no resource events")?;
    let admin = User {
        name: "admin".to_owned(),
        groups: vec![MASTERS.to_owned()],
        ..User::default()
    };
    let health = Health::new();
    store.watch_over(&health);
    let host = Host::start(Parts {
        common: options.common,
        policy,
        listen: options.listen,
        catalog,
        upstream: Arc::new(StoredUpstream::new(builtins.storage.clone())),
        storage: builtins.storage,
        authorizer,
        authentication: Authentication::new(vec![Box::new(
            StaticTokens::new().with(&identity.token, admin),
        )]),
        serving: ServingSource::Files {
            certificate: identity.certificate.clone(),
            key: identity.key.clone(),
        },
        trust: SharedTrust::new(Trust::default()),
        health,
        registry: Registry::default(),
        events: Arc::new(OwnEvents(events)),
        api_services: None,
    })
    .await?;
    let url = format!("https://{}", reachable(host.address()));
    let health = host.health();
    let kubeconfig = options.kubeconfig;
    let announce = async {
        while !health.is_ready() {
            tokio::time::sleep(READY_POLL).await;
        }
        write_private(&kubeconfig, identity.kubeconfig(&url))?;
        info!(address = url, kubeconfig = %kubeconfig.display(), "ready");
        std::future::pending::<Result<()>>().await
    };
    let serving = host.run(stop);
    tokio::select! {
        () = serving => {}
        result = announce => result?,
    }
    background.abort();
    Ok(())
}

/// An address that a client on this machine can dial and that stands in the certificate: loopback for "all addresses".
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubeconfig_names_an_address_that_can_be_dialled() {
        let shown = |address: &str| reachable(address.parse().unwrap()).to_string();
        assert_eq!(shown("0.0.0.0:1"), "127.0.0.1:1");
        assert_eq!(shown("[::]:1"), "[::1]:1");
        assert_eq!(shown("127.0.0.1:1"), "127.0.0.1:1");
    }
}
