//! Connections: TLS, then HTTP/1.1 or HTTP/2.

use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::Watcher;
use rustls_pki_types::CertificateDer;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::app::App;
use crate::handler;
use crate::tls::TlsConfig;

/// kube-apiserver's aggregator carries the requests of all clients over one connection, watches among them.
const MAX_STREAMS: u32 = 2000;
/// Of a stream's window, and the largest frame, as Go's HTTP/2 client has them.
const WINDOW: u32 = 256 * 1024;
/// Enough for the windows of a thousand streams, so that a slow one does not stop the others.
const CONNECTION_WINDOW: u32 = WINDOW * 1000;
const HANDSHAKE: Duration = Duration::from_secs(10);
/// For the head of an HTTP/1.1 request.
const HEAD: Duration = Duration::from_secs(30);
/// A peer that is gone without a word is noticed by a PING that nobody answers.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_PATIENCE: Duration = Duration::from_secs(15);

/// The other end of a connection.
pub(crate) struct Peer {
    /// As presented, leaf first, not verified; empty for none.
    pub(crate) certificates: Vec<CertificateDer<'static>>,
    /// When the leaf ends, in seconds since 1970.
    pub(crate) expires: Option<i64>,
}

impl Peer {
    fn new(presented: &[CertificateDer<'_>]) -> Self {
        let leaf = presented
            .first()
            .and_then(|leaf| x509_parser::parse_x509_certificate(leaf).ok());
        Self {
            certificates: presented.iter().map(|c| c.clone().into_owned()).collect(),
            expires: leaf.map(|(_, leaf)| leaf.validity().not_after.timestamp()),
        }
    }
}

/// The builder that all connections are served with.
pub(crate) fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(WINDOW)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_PATIENCE);
    builder
}

/// Serves one connection until it ends. On shutdown it finishes what it began (GOAWAY, then the open streams).
pub(crate) async fn serve(
    app: Arc<App>,
    tls: Arc<TlsConfig>,
    builder: Arc<Builder<TokioExecutor>>,
    stream: TcpStream,
    graceful: Watcher,
) {
    let peer = stream.peer_addr().ok();
    // Small frames of a watch must not wait for more.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(?peer, %error, "cannot switch off Nagle's algorithm");
    }
    let handshake = TlsAcceptor::from(tls.current()).accept(stream);
    let stream = match tokio::time::timeout(HANDSHAKE, handshake).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(?peer, %error, "TLS handshake failed");
            return;
        }
        Err(_) => {
            tracing::debug!(?peer, "TLS handshake took too long");
            return;
        }
    };
    let presented = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let client = Arc::new(Peer::new(presented));
    let service = service_fn(move |request| {
        let (app, client) = (app.clone(), client.clone());
        async move { handler::handle(&app, &client, request).await }
    });
    let connection = builder
        .serve_connection(TokioIo::new(stream), service)
        .into_owned();
    if let Err(error) = graceful.watch(connection).await {
        tracing::debug!(?peer, %error, "connection failed");
    }
}
