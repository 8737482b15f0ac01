//! The server: a port, and its life from start to stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use joinery_resource::{Catalog, SharedAuthorizer};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::App;
use crate::authn::Authentication;
use crate::connection;
use crate::discovery::Discovery;
use crate::health::Health;
use crate::limits::{Limits, Places};
use crate::metrics::Metrics;
use crate::openapi::OpenApi;
use crate::tls::{ServingError, ServingSource, SharedTrust, TlsConfig};

/// What a server is made of.
pub struct Config {
    /// What is served.
    pub catalog: Arc<Catalog>,
    /// Who asks.
    pub authentication: Authentication,
    /// May they, after `system:masters` and the health paths.
    pub authorizer: SharedAuthorizer,
    /// The serving certificate.
    pub serving: ServingSource,
    /// Whose names the handshake's CertificateRequest lists.
    pub trust: Arc<SharedTrust>,
    /// What `/livez` and `/readyz` look at.
    pub health: Arc<Health>,
    /// Metrics of others that `/metrics` shows too.
    pub registry: Registry,
    /// Bounds.
    pub limits: Limits,
}

/// The server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on: taken, not this machine's, or not allowed.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// As asked for.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The serving certificate cannot be used.
    #[error("serving certificate: {0}")]
    Serving(#[from] ServingError),
}

/// Listens; serves once [`Server::run`] is called.
pub struct Server {
    app: Arc<App>,
    tls: Arc<TlsConfig>,
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Takes the port and reads the serving certificate.
    ///
    /// # Errors
    /// When either fails.
    pub async fn bind(address: SocketAddr, config: Config) -> Result<Self, StartError> {
        let failed = |source| StartError::Listen { address, source };
        let tls = TlsConfig::new(config.serving, config.trust).await?;
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let app = Arc::new(App {
            catalog: config.catalog,
            authentication: config.authentication,
            authorizer: config.authorizer,
            health: config.health,
            metrics: Metrics::new(config.registry),
            places: Places::new(&config.limits),
            limits: config.limits,
            discovery: Discovery::default(),
            openapi: OpenApi::default(),
            closing: CancellationToken::new(),
            running: TaskTracker::new(),
        });
        Ok(Self {
            app,
            tls,
            listener,
            address,
        })
    }

    /// Where it listens: with the port that port 0 was resolved to.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is cancelled and all is wound up: not ready, a delay, no new connections, watches ended
    /// one by one, running requests finished, at most for the grace period.
    pub async fn run(self, stop: CancellationToken) {
        let Self {
            app, tls, listener, ..
        } = self;
        let following = {
            let (app, tls) = (app.clone(), tls.clone());
            tokio::spawn(async move { tls.follow(|end| app.metrics.serving_until(end)).await })
        };
        let builders = Arc::new(connection::Builders::new(&app.limits));
        let accept = async {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        app.running.spawn(connection::serve(
                            app.clone(),
                            tls.clone(),
                            builders.clone(),
                            stream,
                        ));
                    }
                    Err(error) => {
                        // Out of file descriptors, mostly: wait for some to come back.
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
            }
        };
        let until = async {
            stop.cancelled().await;
            app.health.shut_down();
            tracing::info!("shutting down");
            tokio::time::sleep(app.limits.shutdown_delay).await;
        };
        tokio::select! {
            () = accept => {}
            () = until => {}
        }
        drop(listener);
        app.closing.cancel();
        app.running.close();
        if tokio::time::timeout(app.limits.shutdown_grace, app.running.wait())
            .await
            .is_err()
        {
            tracing::warn!("some requests did not end within the grace period");
        }
        following.abort();
    }
}
