//! Plain HTTPS, for what kubectl hides: exact status codes, headers, bodies and watch frames. Blocking, so that tests read from top to
//! bottom.

use std::fs;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use joinery_e2e::Environment;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;

const PATIENCE: Duration = Duration::from_secs(60);

/// Who speaks to which server.
#[derive(Clone)]
pub(crate) struct Client {
    address: String,
    tls: Arc<ClientConfig>,
    without_certificate: Arc<ClientConfig>,
    headers: Vec<(String, String)>,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The body as JSON; fails the test if it is not.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{}: no JSON ({error}): {}", self.status, self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Content-Type without parameters.
    pub(crate) fn content_type(&self) -> &str {
        let whole = self
            .headers
            .get("content-type")
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        whole.split(';').next().unwrap_or_default().trim()
    }
}

impl Client {
    /// The administrator of the environment's kubeconfig: through kube-apiserver where there is one.
    pub(crate) fn admin(environment: &Environment) -> Client {
        Client::of_kubeconfig(environment.kubectl())
    }

    /// The administrator, straight to the host.
    pub(crate) fn direct(environment: &Environment) -> Client {
        Client::of_kubeconfig(environment.direct())
    }

    /// Whoever a kubectl speaks as, to whom it speaks.
    pub(crate) fn of_kubeconfig(kubectl: &joinery_e2e::Kubectl) -> Client {
        let view = kubectl
            .json(["config", "view", "--raw", "--flatten", "-o", "json"])
            .unwrap();
        let text = |pointer: &str| {
            view.pointer(pointer)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let pem = |pointer: &str| text(pointer).map(|data| decode_base64(&data));
        let server = text("/clusters/0/cluster/server").expect("a server");
        let authority =
            pem("/clusters/0/cluster/certificate-authority-data").expect("an authority");
        let identity =
            pem("/users/0/user/client-certificate-data").zip(pem("/users/0/user/client-key-data"));
        let mut client = Client::new(&server, &authority, identity);
        if let Some(token) = text("/users/0/user/token") {
            client
                .headers
                .push(("Authorization".to_owned(), format!("Bearer {token}")));
        }
        client
    }

    /// The aggregator's place: straight to `url`, with the front proxy's certificate, speaking for `user`.
    pub(crate) fn front_proxy(
        environment: &Environment,
        url: &str,
        user: &str,
        groups: &[&str],
    ) -> Client {
        let proxy = environment
            .front_proxy()
            .expect("the cluster's front proxy");
        let read = |path: &Path| fs::read(path).unwrap();
        let mut client = Client::new(
            url,
            &read(environment.authority()),
            Some((read(&proxy.certificate), read(&proxy.key))),
        );
        client
            .headers
            .push(("X-Remote-User".to_owned(), user.to_owned()));
        for group in groups {
            client
                .headers
                .push(("X-Remote-Group".to_owned(), (*group).to_owned()));
        }
        client
    }

    /// As the same user to another server, `https://…`, whose certificate is of the same authority.
    pub(crate) fn at(&self, url: &str) -> Client {
        Client {
            address: url.trim_start_matches("https://").to_owned(),
            ..self.clone()
        }
    }

    /// The same server, without any certificate or header.
    pub(crate) fn anonymous(&self) -> Client {
        Client {
            address: self.address.clone(),
            tls: self.without_certificate.clone(),
            without_certificate: self.without_certificate.clone(),
            headers: Vec::new(),
        }
    }

    fn new(url: &str, authority: &[u8], identity: Option<(Vec<u8>, Vec<u8>)>) -> Client {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authority) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let builder =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots);
        let tls = match identity {
            Some((certificate, key)) => {
                let chain = CertificateDer::pem_slice_iter(&certificate)
                    .map(Result::unwrap)
                    .collect();
                builder
                    .clone()
                    .with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(&key).unwrap())
                    .unwrap()
            }
            None => builder.clone().with_no_client_auth(),
        };
        let without_certificate = Arc::new(builder.with_no_client_auth());
        let address = url
            .trim_start_matches("https://")
            .trim_end_matches('/')
            .to_owned();
        Client {
            address,
            tls: Arc::new(tls),
            without_certificate,
            headers: Vec::new(),
        }
    }

    /// One request on a connection of its own.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        self.connect().send(method, path, headers, body).unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], Bytes::new())
    }

    /// A connection that is kept for many requests.
    pub(crate) fn connect(&self) -> Connection {
        self.try_connect().unwrap()
    }

    /// As [`Client::connect`], to a server that may not be there.
    pub(crate) fn try_connect(&self) -> Result<Connection, String> {
        let sender = runtime().block_on(self.dial())?;
        Ok(Connection {
            client: self.clone(),
            sender,
        })
    }

    /// Opens a watch, and returns once its headers have arrived.
    pub(crate) fn watch(&self, path: &str) -> Result<Watch, Box<Answer>> {
        self.watch_as(path, &[])
    }

    /// Opens a watch with these headers.
    pub(crate) fn watch_as(
        &self,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Watch, Box<Answer>> {
        self.try_watch_as(path, headers).unwrap()
    }

    /// As [`Client::watch`], of a server that may not be there.
    pub(crate) fn try_watch(&self, path: &str) -> Result<Result<Watch, Box<Answer>>, String> {
        self.try_watch_as(path, &[])
    }

    fn try_watch_as(
        &self,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Result<Watch, Box<Answer>>, String> {
        let request = self.request("GET", path, headers, Bytes::new());
        runtime().block_on(async {
            let mut sender = self.dial().await?;
            let response = tokio::time::timeout(PATIENCE, sender.send_request(request))
                .await
                .map_err(|_| "no headers in time".to_owned())?
                .map_err(|error| error.to_string())?;
            if response.status() != StatusCode::OK {
                return Ok(Err(Box::new(whole(response).await?)));
            }
            Ok(Ok(Watch {
                _sender: sender,
                body: response.into_body(),
                buffer: BytesMut::new(),
                ended: false,
            }))
        })
    }

    async fn dial(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let tcp = TcpStream::connect(&self.address)
            .await
            .map_err(|error| format!("{}: {error}", self.address))?;
        tcp.set_nodelay(true).map_err(|error| error.to_string())?;
        let host = self
            .address
            .rsplit_once(':')
            .map_or(self.address.as_str(), |(host, _)| host)
            .to_owned();
        let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
        let stream = TlsConnector::from(self.tls.clone())
            .connect(name, tcp)
            .await
            .map_err(|error| error.to_string())?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        Ok(sender)
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Request<Full<Bytes>> {
        let mut request = Request::builder()
            .method(Method::from_bytes(method.as_bytes()).unwrap())
            .uri(path)
            .header("Host", &self.address);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Full::new(body)).unwrap()
    }
}

/// A kept connection.
pub(crate) struct Connection {
    client: Client,
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    /// One request; an error says that the connection failed.
    pub(crate) fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Answer, String> {
        let request = self.client.request(method, path, headers, body.into());
        runtime().block_on(async {
            self.sender
                .ready()
                .await
                .map_err(|error| error.to_string())?;
            let response = tokio::time::timeout(PATIENCE, self.sender.send_request(request))
                .await
                .map_err(|_| "no answer".to_owned())?;
            whole(response.map_err(|error| error.to_string())?).await
        })
    }
}

/// An open watch.
pub(crate) struct Watch {
    _sender: SendRequest<Full<Bytes>>,
    body: Incoming,
    buffer: BytesMut,
    ended: bool,
}

impl Watch {
    /// Whether the stream has ended, in whatever way.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// The next frame within `patience`; none when there is none, or the stream ended.
    pub(crate) fn next(&mut self, patience: Duration) -> Option<Value> {
        runtime().block_on(async {
            let end = tokio::time::Instant::now() + patience;
            loop {
                if let Some(length) = self.buffer.iter().position(|byte| *byte == b'\n') {
                    let line = self.buffer.split_to(length + 1);
                    return Some(
                        serde_json::from_slice(&line)
                            .unwrap_or_else(|error| panic!("no watch frame ({error}): {line:?}")),
                    );
                }
                match tokio::time::timeout_at(end, self.body.frame()).await {
                    Ok(Some(Ok(frame))) => {
                        if let Ok(data) = frame.into_data() {
                            self.buffer.extend_from_slice(&data);
                        }
                    }
                    Ok(Some(Err(_)) | None) => {
                        self.ended = true;
                        return None;
                    }
                    Err(_) => return None,
                }
            }
        })
    }

    /// The next frame that `wanted` accepts; fails the test when none comes within `patience`.
    pub(crate) fn expect(
        &mut self,
        what: &str,
        patience: Duration,
        mut wanted: impl FnMut(&Value) -> bool,
    ) -> Value {
        let end = std::time::Instant::now() + patience;
        let mut seen = Vec::new();
        while let Some(frame) = self.next(end.saturating_duration_since(std::time::Instant::now()))
        {
            if wanted(&frame) {
                return frame;
            }
            seen.push(summary(&frame));
        }
        panic!("{what} did not come; instead: {seen:?}");
    }
}

fn summary(frame: &Value) -> String {
    let text = |pointer: &str| {
        frame
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    format!(
        "{} {}/{} {}",
        text("/type"),
        text("/object/metadata/namespace"),
        text("/object/metadata/name"),
        text("/object/message")
    )
}

async fn whole(response: http::Response<Incoming>) -> Result<Answer, String> {
    let (parts, body) = response.into_parts();
    let body = tokio::time::timeout(PATIENCE, body.collect())
        .await
        .map_err(|_| "the body did not end".to_owned())?;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    Ok(Answer {
        status: parts.status,
        headers: parts.headers,
        body,
    })
}

fn decode_base64(text: &str) -> Vec<u8> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .expect("base64")
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime"))
}
