//! The trust that a cluster publishes in `kube-system/extension-apiserver-authentication`.

use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};

use crate::tls::{SharedTrust, Trust, TrustError};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// The ConfigMap cannot be used at start.
#[derive(Debug, thiserror::Error)]
pub enum ClusterTrustError {
    /// Reading is not allowed: the RoleBinding to `extension-apiserver-authentication-reader` is missing.
    #[error(
        "may not read ConfigMap {NAMESPACE}/{NAME}: bind Role extension-apiserver-authentication-reader: {0}"
    )]
    Forbidden(Box<kube::Error>),
    /// kube-apiserver cannot be asked.
    #[error("cannot read ConfigMap {NAMESPACE}/{NAME}: {0}")]
    Read(Box<kube::Error>),
    /// It is malformed.
    #[error("ConfigMap {NAMESPACE}/{NAME}: {0}")]
    Malformed(#[from] TrustError),
}

/// Reads the ConfigMap once, so that the first request is judged by it, then follows it in a task.
///
/// When it is missing, or goes later, nothing it granted holds any longer: header and certificate authentication are
/// off until it is back. When it turns malformed the last good trust stays and an error is logged.
///
/// # Errors
/// When it may not or cannot be read at start, or is malformed then.
pub async fn follow_cluster_trust(
    client: Client,
    trust: Arc<SharedTrust>,
) -> Result<tokio::task::JoinHandle<()>, ClusterTrustError> {
    let api: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    let first = api.get_opt(NAME).await.map_err(|error| match &error {
        kube::Error::Api(status) if status.code == 403 => {
            ClusterTrustError::Forbidden(Box::new(error))
        }
        _ => ClusterTrustError::Read(Box::new(error)),
    })?;
    trust.replace(read(first.as_ref())?);
    Ok(tokio::spawn(async move {
        let mut changes = watcher::watch_object(api, NAME).default_backoff().boxed();
        while let Some(change) = changes.next().await {
            match change {
                Ok(config_map) => match read(config_map.as_ref()) {
                    Ok(new) => {
                        tracing::info!(
                            present = config_map.is_some(),
                            "authentication trust reloaded"
                        );
                        trust.replace(new);
                    }
                    Err(error) => {
                        tracing::error!(%error, "authentication trust is malformed; keeping the last one")
                    }
                },
                Err(error) => tracing::warn!(%error, "cannot follow ConfigMap {NAMESPACE}/{NAME}"),
            }
        }
    }))
}

fn read(config_map: Option<&ConfigMap>) -> Result<Trust, TrustError> {
    match config_map.and_then(|c| c.data.as_ref()) {
        Some(data) => Trust::from_config_map(data),
        None => Ok(Trust::default()),
    }
}
