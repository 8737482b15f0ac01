//! The client of all measurements: HTTP/2 over TLS as client-go speaks it, or HTTP/1.1.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use joinery_e2e::Kubectl;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Windows of Go's HTTP/2 client (golang.org/x/net/http2, transportDefaultStreamFlow and transportDefaultConnFlow).
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 1 << 30;

/// JSON, and what kubectl asks for when it prints a table.
pub(crate) const JSON: &str = "application/json";
pub(crate) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// An administrator, who trusts both the control plane's authority and that of the servers beside it.
#[derive(Clone)]
pub(crate) struct Identity {
    server: String,
    h2: Arc<ClientConfig>,
    h1: Arc<ClientConfig>,
    token: Option<Arc<str>>,
}

impl Identity {
    /// Who `kubectl` is, with the authorities of `others` besides.
    pub(crate) fn of(kubectl: &Kubectl, others: &[&Kubectl]) -> Result<Identity> {
        let view = kubeconfig(kubectl)?;
        let mut roots = RootCertStore::empty();
        let others = others.iter().map(|other| kubeconfig(other));
        for config in std::iter::once(Ok(view.clone())).chain(others) {
            let authority = data(&config?, "/clusters/0/cluster/certificate-authority-data")?;
            for certificate in CertificateDer::pem_slice_iter(&authority) {
                roots.add(certificate?)?;
            }
        }
        let builder =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()?
                .with_root_certificates(roots);
        let mut config = match data(&view, "/users/0/user/client-certificate-data") {
            Ok(certificate) => {
                let key = data(&view, "/users/0/user/client-key-data")?;
                let chain =
                    CertificateDer::pem_slice_iter(&certificate).collect::<Result<Vec<_>, _>>()?;
                builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(&key)?)?
            }
            Err(_) => builder.with_no_client_auth(),
        };
        let h1 = Arc::new(config.clone());
        config.alpn_protocols = vec![b"h2".to_vec()];
        let text = |pointer: &str| view.pointer(pointer).and_then(Value::as_str);
        Ok(Identity {
            server: text("/clusters/0/cluster/server")
                .context("the kubeconfig names no server")?
                .to_owned(),
            h2: Arc::new(config),
            h1,
            token: text("/users/0/user/token").map(Into::into),
        })
    }

    /// Towards the kubeconfig's own server.
    pub(crate) fn own(&self) -> Target {
        self.target(&self.server)
    }

    /// Towards another server.
    pub(crate) fn target(&self, url: &str) -> Target {
        Target {
            identity: self.clone(),
            address: url
                .trim_start_matches("https://")
                .trim_end_matches('/')
                .to_owned(),
            http1: false,
        }
    }
}

fn kubeconfig(kubectl: &Kubectl) -> Result<Value> {
    kubectl.json(["config", "view", "--raw", "--flatten", "-o", "json"])
}

fn data(view: &Value, pointer: &str) -> Result<Vec<u8>> {
    let text = view
        .pointer(pointer)
        .and_then(Value::as_str)
        .with_context(|| format!("the kubeconfig has no {pointer}"))?;
    Ok(STANDARD.decode(text)?)
}

/// A server, and who speaks to it.
#[derive(Clone)]
pub(crate) struct Target {
    identity: Identity,
    address: String,
    http1: bool,
}

impl Target {
    /// The same by HTTP/1.1.
    pub(crate) fn over_http1(mut self) -> Target {
        self.http1 = true;
        self
    }

    /// A new connection.
    pub(crate) async fn connect(&self) -> Result<Connection> {
        let tcp = TcpStream::connect(&self.address)
            .await
            .with_context(|| self.address.clone())?;
        tcp.set_nodelay(true)?;
        let tls = if self.http1 {
            &self.identity.h1
        } else {
            &self.identity.h2
        };
        let stream = TlsConnector::from(tls.clone())
            .connect(ServerName::try_from("127.0.0.1")?, tcp)
            .await?;
        let io = TokioIo::new(stream);
        let sender = if self.http1 {
            let (sender, connection) = http1::handshake(io).await?;
            tokio::spawn(connection);
            Sender::One(sender)
        } else {
            let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .handshake(io)
                .await?;
            tokio::spawn(connection);
            Sender::Two(sender)
        };
        Ok(Connection {
            target: self.clone(),
            sender,
        })
    }
}

enum Sender {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

/// A connection that is kept.
pub(crate) struct Connection {
    target: Target,
    sender: Sender,
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) accept: &'static str,
    /// With its type; empty for none.
    pub(crate) body: (&'static str, Bytes),
    /// `Accept-Encoding: gzip`
    pub(crate) gzip: bool,
}

impl Ask {
    /// A read.
    pub(crate) fn get(path: impl Into<String>, accept: &'static str) -> Ask {
        Ask {
            method: "GET",
            path: path.into(),
            accept,
            body: ("", Bytes::new()),
            gzip: false,
        }
    }

    /// A write.
    pub(crate) fn write(
        method: &'static str,
        path: impl Into<String>,
        content_type: &'static str,
        body: impl Into<Bytes>,
    ) -> Ask {
        Ask {
            body: (content_type, body.into()),
            method,
            ..Ask::get(path, JSON)
        }
    }
}

/// What came of a request, without the body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    /// Until the head of the answer.
    pub(crate) head: f64,
    /// Until its end.
    pub(crate) whole: f64,
    /// Of the body.
    pub(crate) bytes: usize,
}

impl Connection {
    async fn send(&mut self, ask: &Ask) -> Result<Response<Incoming>> {
        let mut request = Request::builder()
            .method(ask.method)
            .header(ACCEPT, ask.accept);
        if !ask.body.0.is_empty() {
            request = request.header(CONTENT_TYPE, ask.body.0);
        }
        if ask.gzip {
            request = request.header("accept-encoding", "gzip");
        }
        if let Some(token) = &self.target.identity.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let body = Full::new(ask.body.1.clone());
        Ok(match &mut self.sender {
            Sender::One(sender) => {
                sender.ready().await?;
                let request = request
                    .uri(&ask.path)
                    .header(HOST, &self.target.address)
                    .body(body)?;
                sender.send_request(request).await?
            }
            Sender::Two(sender) => {
                sender.ready().await?;
                let uri = format!("https://{}{}", self.target.address, ask.path);
                sender.send_request(request.uri(uri).body(body)?).await?
            }
        })
    }

    /// Sends a request and reads its answer to the end, piece by piece; fails unless it is a success.
    pub(crate) async fn time(&mut self, ask: &Ask) -> Result<Took> {
        let start = Instant::now();
        let response = self.send(ask).await?;
        let head = start.elapsed().as_secs_f64();
        let status = response.status();
        if !status.is_success() {
            return Err(refused(ask, response).await);
        }
        let mut body = response.into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            if let Some(data) = frame?.data_ref() {
                bytes += data.len();
            }
        }
        Ok(Took {
            head,
            whole: start.elapsed().as_secs_f64(),
            bytes,
        })
    }

    /// Sends a request and keeps the body of its answer; fails unless it is a success.
    pub(crate) async fn must(&mut self, ask: &Ask) -> Result<Bytes> {
        let response = self.send(ask).await?;
        if !response.status().is_success() {
            return Err(refused(ask, response).await);
        }
        Ok(response.into_body().collect().await?.to_bytes())
    }

    /// Opens a watch; gives it once its head is there.
    pub(crate) async fn watch(&mut self, path: &str) -> Result<Lines> {
        let ask = Ask::get(path, JSON);
        let response = self.send(&ask).await?;
        if response.status() != StatusCode::OK {
            return Err(refused(&ask, response).await);
        }
        Ok(Lines {
            body: response.into_body(),
            buffer: BytesMut::new(),
            searched: 0,
        })
    }
}

async fn refused(ask: &Ask, response: Response<Incoming>) -> anyhow::Error {
    let status = response.status();
    let body = response.into_body().collect().await;
    let text = body.map_or_else(
        |error| error.to_string(),
        |body| String::from_utf8_lossy(&body.to_bytes()).into_owned(),
    );
    anyhow::anyhow!("{} {}: {status}: {text}", ask.method, ask.path)
}

/// The frames of a watch.
pub(crate) struct Lines {
    body: Incoming,
    buffer: BytesMut,
    searched: usize,
}

impl Lines {
    /// The next line; none at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            let end = self.buffer[self.searched..]
                .iter()
                .position(|byte| *byte == b'\n');
            if let Some(end) = end {
                let line = self.buffer.split_to(self.searched + end + 1).freeze();
                self.searched = 0;
                return Ok(Some(line));
            }
            self.searched = self.buffer.len();
            match self.body.frame().await {
                None => {
                    ensure!(self.buffer.is_empty(), "a watch ended within a frame");
                    return Ok(None);
                }
                Some(frame) => {
                    if let Some(data) = frame?.data_ref() {
                        self.buffer.extend_from_slice(data);
                    }
                }
            }
        }
    }

    /// Reads what has come, and counts its lines and bytes; none at the end. For watchers of which there are many: nothing is copied.
    pub(crate) async fn count(&mut self) -> Result<Option<(usize, usize)>> {
        match self.body.frame().await {
            None => Ok(None),
            Some(frame) => Ok(frame?.data_ref().map(|data| {
                let lines = data.split(|byte| *byte == b'\n').count() - 1;
                (lines, data.len())
            })),
        }
    }
}
