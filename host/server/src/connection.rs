//! Connections: TLS, then HTTP/1.1 or HTTP/2.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::app::App;
use crate::authn::Presented;
use crate::handler;
use crate::limits::Limits;
use crate::tls::TlsConfig;

/// kube-apiserver's aggregator carries the requests of all clients over one connection, watches among them.
const MAX_STREAMS: u32 = 2000;
/// Of a stream's window, and the largest frame, as Go's HTTP/2 client has them.
const WINDOW: u32 = 256 * 1024;
/// Enough for the windows of a thousand streams, so that a slow one does not stop the others.
const CONNECTION_WINDOW: u32 = WINDOW * 1000;
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Longest head of a request, request line and headers, as Go's DefaultMaxHeaderBytes. (A path and query may have 64 KiB
/// of it: the `http` crate holds no more.)
const HEAD_BYTES: usize = 1 << 20;
/// A front proxy sends each group of the user as a header of its own.
const HEADERS: usize = 2000;
/// A peer that is gone without a word is noticed by a PING that nobody answers.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_PATIENCE: Duration = Duration::from_secs(15);

/// What connections are served with: the protocol is the one that TLS agreed on (ALPN), as in Go, and HTTP/1.1 without
/// an agreement.
pub(crate) struct Builders {
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

impl Builders {
    pub(crate) fn new(limits: &Limits) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_timeout)
            .max_headers(HEADERS)
            .max_buf_size(HEAD_BYTES);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(WINDOW)
            .max_header_list_size(HEAD_BYTES as u32)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_PATIENCE);
        Self { http1, http2 }
    }
}

/// What Go says to one who speaks plain HTTP to a port with TLS.
const NO_TLS: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// Whether the connection begins with an HTTP request, as Go's tlsRecordHeaderLooksLikeHTTP has it. Looks at the first
/// bytes without taking them.
async fn speaks_plain_http(stream: &TcpStream) -> bool {
    let mut first = [0; 5];
    match stream.peek(&mut first).await {
        Ok(n @ 1..) => [b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO"]
            .iter()
            .any(|method| method.starts_with(&first[..n])),
        _ => false,
    }
}

/// Says so, and takes what has been sent: closing with something unread would take the answer back.
async fn refuse_plain_http(mut stream: TcpStream) {
    let mut sent = vec![0; 64 * 1024];
    let _ = stream.read(&mut sent).await;
    let _ = stream.write_all(NO_TLS).await;
    let _ = stream.shutdown().await;
}

/// Serves one connection until it ends. On shutdown it finishes what it began (GOAWAY, then the open streams).
pub(crate) async fn serve(
    app: Arc<App>,
    tls: Arc<TlsConfig>,
    builders: Arc<Builders>,
    stream: TcpStream,
) {
    let peer = stream.peer_addr().ok();
    // Small frames of a watch must not wait for more.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(?peer, %error, "cannot switch off Nagle's algorithm");
    }
    let handshake = async {
        if speaks_plain_http(&stream).await {
            refuse_plain_http(stream).await;
            return Ok(None);
        }
        let acceptor = TlsAcceptor::from(tls.current());
        acceptor.accept(stream).await.map(Some)
    };
    let handshake = async {
        tokio::select! {
            stream = tokio::time::timeout(HANDSHAKE, handshake) => Some(stream),
            () = app.closing.cancelled() => None,
        }
    };
    let Some(handshake) = handshake.await else {
        return;
    };
    let stream = match handshake {
        Ok(Ok(Some(stream))) => stream,
        Ok(Ok(None)) => {
            tracing::debug!(?peer, "plain HTTP where TLS is spoken");
            return;
        }
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
    let client = Arc::new(Presented::new(presented));
    let shared = app.clone();
    let service = service_fn(move |request| {
        let (app, client) = (shared.clone(), client.clone());
        async move { handler::handle(&app, &client, request).await }
    });
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let io = TokioIo::new(stream);
    let closing = app.closing.cancelled();
    let served = if http2 {
        let mut connection = pin!(builders.http2.serve_connection(io, service));
        tokio::select! {
            served = connection.as_mut() => served,
            () = closing => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    } else {
        let connection = builders.http1.serve_connection(io, service);
        let mut connection = pin!(connection.with_upgrades());
        tokio::select! {
            served = connection.as_mut() => served,
            () = closing => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    };
    if let Err(error) = served {
        tracing::debug!(?peer, %error, "connection failed");
    }
}
