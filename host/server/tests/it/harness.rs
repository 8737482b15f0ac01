//! Authorities, a running server and a client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use joinery_object::Status;
use joinery_resource::{Attributes, Authorizer, Catalog, Decision, Resource, User};
use joinery_server::{
    Authentication, ClientCertificates, Config, FrontProxyHeaders, Health, Limits, Server,
    ServingIdentity, ServingSource, SharedTrust, StaticTokens, Trust,
};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use rustls::RootCertStore;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::things::{ALL_VERBS, Things};

pub const BASE: &str = "/apis/test.example.com/v1";

/// A certificate authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key, both as PEM.
#[derive(Clone)]
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    pub fn client(&self, name: &str, groups: &[&str]) -> Identity {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        for group in groups {
            params
                .distinguished_name
                .push(DnType::OrganizationName, *group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params)
    }

    pub fn server(&self) -> Identity {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        Identity {
            certificate: params.signed_by(&key, &self.0).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}

/// Lets `alice` do everything in the namespace `a` and nothing else; remembers what it was asked.
#[derive(Default)]
pub struct Rules {
    pub asked: Mutex<Vec<(User, Attributes)>>,
}

#[async_trait]
impl Authorizer for Rules {
    async fn authorize(&self, user: &User, attributes: &Attributes) -> Result<Decision, Status> {
        self.asked.lock().push((user.clone(), attributes.clone()));
        if user.name == "broken" {
            return Err(Status::internal("no answer"));
        }
        let allowed = user.name == "alice"
            && match attributes {
                Attributes::Resource { namespace, .. } => namespace.as_deref() == Some("a"),
                Attributes::Path { .. } => true,
            };
        Ok(if allowed {
            Decision::Allowed
        } else {
            Decision::Denied(String::new())
        })
    }
}

/// A running server.
pub struct Running {
    pub address: SocketAddr,
    pub serving_ca: Authority,
    pub proxy_ca: Authority,
    pub client_ca: Authority,
    pub trust: Arc<SharedTrust>,
    pub rules: Arc<Rules>,
    pub health: Arc<Health>,
    pub catalog: Arc<Catalog>,
    pub things: Arc<Things>,
    pub globals: Arc<Things>,
    pub stop: CancellationToken,
    pub done: tokio::task::JoinHandle<()>,
}

/// The data of the ConfigMap that says whom to trust.
pub fn trust(proxy_ca: &Authority, client_ca: &Authority) -> Trust {
    let data = [
        ("client-ca-file", client_ca.pem()),
        ("requestheader-client-ca-file", proxy_ca.pem()),
        (
            "requestheader-allowed-names",
            r#"["front-proxy-client"]"#.to_owned(),
        ),
        (
            "requestheader-username-headers",
            r#"["X-Remote-User"]"#.to_owned(),
        ),
        (
            "requestheader-uid-headers",
            r#"["X-Remote-Uid"]"#.to_owned(),
        ),
        (
            "requestheader-group-headers",
            r#"["X-Remote-Group"]"#.to_owned(),
        ),
        (
            "requestheader-extra-headers-prefix",
            r#"["X-Remote-Extra-"]"#.to_owned(),
        ),
    ];
    let data = data.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
    Trust::from_config_map(&data).unwrap()
}

pub async fn start() -> Running {
    start_with(Limits::default(), None).await
}

pub async fn start_with(limits: Limits, files: Option<ServingSource>) -> Running {
    let [serving_ca, proxy_ca, client_ca] = ["serving", "proxy", "client"].map(Authority::new);
    let trust = SharedTrust::new(trust(&proxy_ca, &client_ca));
    let serving = serving_ca.server();
    let identity =
        ServingIdentity::from_pem(serving.certificate.as_bytes(), serving.key.as_bytes()).unwrap();
    let user = |name: &str, group: &str| User {
        name: name.to_owned(),
        groups: vec![group.to_owned()],
        ..User::default()
    };
    let tokens = StaticTokens::new()
        .with("admin-token", user("admin", "system:masters"))
        .with("alice-token", user("alice", "people"))
        .with("bob-token", user("bob", "people"))
        .with("broken-token", user("broken", "people"));
    let catalog = Arc::new(Catalog::new());
    let things = Things::new("things", "Thing", true, &ALL_VERBS);
    let globals = Things::new("globals", "Global", false, &["get", "list"]);
    catalog.change(&[], [things.clone() as Arc<dyn Resource>, globals.clone()]);
    let rules = Arc::new(Rules::default());
    let health = Health::new();
    let config = Config {
        catalog: catalog.clone(),
        authentication: Authentication::new(vec![
            Box::new(FrontProxyHeaders::new(trust.clone())),
            Box::new(ClientCertificates::new(trust.clone())),
            Box::new(tokens),
        ]),
        authorizer: rules.clone(),
        serving: files.unwrap_or(ServingSource::Fixed(identity)),
        trust: trust.clone(),
        health: health.clone(),
        registry: Registry::default(),
        limits,
    };
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), config)
        .await
        .unwrap();
    let address = server.local_addr();
    let stop = CancellationToken::new();
    Running {
        address,
        done: tokio::spawn(server.run(stop.clone())),
        serving_ca,
        proxy_ca,
        client_ca,
        trust,
        rules,
        health,
        catalog,
        things,
        globals,
        stop,
    }
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&self.body)))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }
}

/// What a client brings.
#[derive(Clone, Default)]
pub struct Client {
    pub identity: Option<Identity>,
    pub token: Option<&'static str>,
    pub http1: bool,
}

impl Client {
    pub fn token(token: &'static str) -> Self {
        Self {
            token: Some(token),
            ..Self::default()
        }
    }

    pub fn admin() -> Self {
        Self::token("admin-token")
    }

    pub fn certificate(identity: Identity) -> Self {
        Self {
            identity: Some(identity),
            ..Self::default()
        }
    }

    pub async fn get(&self, server: &Running, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send(server, "GET", path, headers, Bytes::new()).await
    }

    pub async fn send(
        &self,
        server: &Running,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let response = self.open(server, method, path, headers, body).await;
        let (parts, body) = response.into_parts();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body: body.collect().await.unwrap().to_bytes(),
        }
    }

    /// The response as soon as its head is there.
    pub async fn open(
        &self,
        server: &Running,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Response<Incoming> {
        let stream = self.connect(server).await;
        let io = TokioIo::new(stream);
        let mut request = Request::builder().method(method);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(token) = self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let body = Full::new(body.into());
        if self.http1 {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            let request = request
                .uri(path)
                .header("host", "localhost")
                .body(body)
                .unwrap();
            sender.send_request(request).await.unwrap()
        } else {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
                    .await
                    .unwrap();
            tokio::spawn(connection);
            let request = request
                .uri(format!("https://localhost{path}"))
                .body(body)
                .unwrap();
            sender.send_request(request).await.unwrap()
        }
    }

    pub async fn connect(&self, server: &Running) -> tokio_rustls::client::TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(server.serving_ca.pem().as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match &self.identity {
            Some(identity) => builder
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap()],
                    PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap(),
                )
                .unwrap(),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![if self.http1 {
            b"http/1.1".to_vec()
        } else {
            b"h2".to_vec()
        }];
        let stream = TcpStream::connect(server.address).await.unwrap();
        // Else the body of a request waits until its head is acknowledged, for 40 ms.
        stream.set_nodelay(true).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        tokio_rustls::TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .unwrap()
    }
}

/// Fails instead of hanging.
pub async fn within<T>(seconds: u64, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(seconds), work)
        .await
        .unwrap_or_else(|_| panic!("not within {seconds} s"))
}
