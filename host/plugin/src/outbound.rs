//! Calls of plugins to other hosts: only those that the operator grants, bounded in time and size, without redirects.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::policy::Grant;

/// Bytes of a request's body.
const MAX_REQUEST: usize = 1 << 20;
/// Bytes of an answer's body.
const MAX_ANSWER: usize = 4 << 20;
/// Headers of a request, and of what is passed on of an answer's.
const MAX_HEADERS: usize = 64;
/// Longest time of one call.
const TIME: Duration = Duration::from_secs(8);
/// Until a connection must be there.
const CONNECT: Duration = Duration::from_secs(3);
/// Headers that belong to the connection.
const REFUSED: [&str; 9] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

type Connections = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// A call that a guest wants.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// 0: the longest.
    pub(crate) timeout_ms: u32,
}

/// Its answer.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// Why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OutboundError {
    Denied(String),
    Invalid(String),
    Timeout,
    TooLarge(String),
    Failed(String),
}

/// What a call is answered with where no call is made: to try a plugin, not to serve it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedAnswer {
    /// `GET`, `POST`, …
    pub method: String,
    /// The whole URL.
    pub url: String,
    /// E.g. 200.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// Bytes of the body.
    pub body: Bytes,
}

/// Calls what one plugin may call.
pub(crate) struct OutboundClient {
    plugin: String,
    grant: Arc<Grant>,
    /// None: calls are made.
    recorded: Option<Vec<RecordedAnswer>>,
}

impl OutboundClient {
    pub(crate) fn new(plugin: &str, grant: Arc<Grant>) -> Arc<Self> {
        Arc::new(Self {
            plugin: plugin.to_owned(),
            grant,
            recorded: None,
        })
    }

    /// Makes no call: gives the first answer that is recorded for the same method and URL.
    pub(crate) fn recorded(
        plugin: &str,
        grant: Arc<Grant>,
        answers: Vec<RecordedAnswer>,
    ) -> Arc<Self> {
        Arc::new(Self {
            plugin: plugin.to_owned(),
            grant,
            recorded: Some(answers),
        })
    }

    /// Makes one call.
    ///
    /// # Errors
    /// See [`OutboundError`]. Any status is an answer.
    pub(crate) async fn send(&self, outgoing: Outgoing) -> Result<Incoming, OutboundError> {
        let time = match outgoing.timeout_ms {
            0 => TIME,
            ms => Duration::from_millis(ms.into()).min(TIME),
        };
        let request = self.request(outgoing)?;
        if let Some(answers) = &self.recorded {
            return look_up(answers, &request);
        }
        match tokio::time::timeout(time, answer(request)).await {
            Ok(answer) => answer,
            Err(_) => Err(OutboundError::Timeout),
        }
    }

    fn request(&self, outgoing: Outgoing) -> Result<Request<Full<Bytes>>, OutboundError> {
        let invalid = |error: &dyn std::fmt::Display| OutboundError::Invalid(error.to_string());
        let url: Uri = outgoing.url.parse().map_err(|error| invalid(&error))?;
        let port = match (url.scheme_str(), url.port_u16()) {
            (Some("http" | "https"), Some(port)) => port,
            (Some("https"), None) => 443,
            (Some("http"), None) => 80,
            _ => {
                return Err(invalid(
                    &"the url must be absolute and begin with http:// or https://",
                ));
            }
        };
        let authority = url.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            return Err(invalid(&"the url may have no user or password in it"));
        }
        let host = url.host().unwrap_or_default();
        if !self.grant.allows_host(host, port) {
            return Err(OutboundError::Denied(format!(
                "the operator has not granted plugin {} the host {host}:{port}",
                self.plugin
            )));
        }
        if outgoing.body.len() > MAX_REQUEST {
            return Err(OutboundError::TooLarge(format!(
                "the request has {} bytes, at most {MAX_REQUEST} are allowed",
                outgoing.body.len()
            )));
        }
        if outgoing.headers.len() > MAX_HEADERS {
            return Err(invalid(&format!("more than {MAX_HEADERS} headers")));
        }
        let method: Method = outgoing.method.parse().map_err(|error| invalid(&error))?;
        if method == Method::CONNECT {
            return Err(invalid(&"method CONNECT is not allowed"));
        }
        let mut request = Request::new(Full::new(Bytes::from(outgoing.body)));
        *request.method_mut() = method;
        *request.uri_mut() = url;
        for (name, value) in outgoing.headers {
            let name: HeaderName = name.parse().map_err(|error| invalid(&error))?;
            if REFUSED.contains(&name.as_str()) {
                return Err(invalid(&format!("header {name} belongs to the connection")));
            }
            let value = HeaderValue::from_str(&value).map_err(|error| invalid(&error))?;
            request.headers_mut().append(name, value);
        }
        Ok(request)
    }
}

fn look_up(
    answers: &[RecordedAnswer],
    request: &Request<Full<Bytes>>,
) -> Result<Incoming, OutboundError> {
    let (method, url) = (request.method(), request.uri());
    let same = |answer: &&RecordedAnswer| {
        let recorded = answer.url.parse::<Uri>();
        answer.method == method.as_str() && recorded.is_ok_and(|recorded| recorded == *url)
    };
    match answers.iter().find(same) {
        Some(answer) => Ok(Incoming {
            status: answer.status,
            headers: answer.headers.clone(),
            body: answer.body.to_vec(),
        }),
        None => Err(OutboundError::Failed(format!(
            "no answer is recorded for {method} {url}"
        ))),
    }
}

/// Shared by all plugins: what is kept are connections, not what went over them.
fn connections() -> &'static Connections {
    static CONNECTIONS: OnceLock<Connections> = OnceLock::new();
    CONNECTIONS.get_or_init(|| {
        let mut plain = HttpConnector::new();
        plain.enforce_http(false);
        plain.set_connect_timeout(Some(CONNECT));
        let provider = rustls::crypto::ring::default_provider();
        let builder = HttpsConnectorBuilder::new();
        let connector = match builder.with_provider_and_native_roots(provider) {
            Ok(builder) => builder,
            Err(error) => {
                tracing::warn!(%error, "this machine knows no certificate authorities: plugins can call http only");
                let roots = rustls::RootCertStore::empty();
                let config = rustls::ClientConfig::builder()
                    .with_root_certificates(roots)
                    .with_no_client_auth();
                HttpsConnectorBuilder::new().with_tls_config(config)
            }
        };
        let connector = connector
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(plain);
        Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(30))
            .pool_max_idle_per_host(4)
            .build(connector)
    })
}

async fn answer(request: Request<Full<Bytes>>) -> Result<Incoming, OutboundError> {
    let answer = connections().request(request).await.map_err(failed)?;
    let (head, body) = answer.into_parts();
    let body = match Limited::new(body, MAX_ANSWER).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return Err(OutboundError::TooLarge(format!(
                "the answer has more than {MAX_ANSWER} bytes"
            )));
        }
        Err(error) => return Err(OutboundError::Failed(error.to_string())),
    };
    let headers = head.headers.iter().take(MAX_HEADERS);
    Ok(Incoming {
        status: head.status.as_u16(),
        headers: headers
            .filter_map(|(name, value)| {
                Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
            })
            .collect(),
        body: body.into(),
    })
}

/// The error and its causes on one line.
fn failed(error: hyper_util::client::legacy::Error) -> OutboundError {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    OutboundError::Failed(text)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    fn client(hosts: &[&str]) -> Arc<OutboundClient> {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        let grant = Grant {
            hosts,
            ..Grant::default()
        };
        OutboundClient::new("weather", Arc::new(grant))
    }

    fn get(url: &str) -> Outgoing {
        Outgoing {
            method: "GET".into(),
            url: url.into(),
            ..Outgoing::default()
        }
    }

    /// Answers each connection with these bytes, and gives what it was sent; never ends an answer of nothing.
    async fn server(answer: Vec<u8>) -> (u16, tokio::sync::mpsc::UnboundedReceiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, seen) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 4096];
                let read = stream.read(&mut request).await.unwrap();
                let _ = sender.send(String::from_utf8_lossy(&request[..read]).into_owned());
                stream.write_all(&answer).await.unwrap();
                if answer.is_empty() {
                    std::future::pending::<()>().await;
                }
            }
        });
        (port, seen)
    }

    #[tokio::test]
    async fn what_is_granted_is_called_and_what_is_not_never_hears_of_it() {
        let answer = b"HTTP/1.1 302 Found\r\nlocation: /b\r\ncontent-length: 2\r\n\r\nhi".to_vec();
        let (port, mut seen) = server(answer).await;
        let url = format!("http://127.0.0.1:{port}/a?b=c");
        let granted = client(&[&format!("127.0.0.1:{port}")]);
        let answer = granted.send(get(&url)).await.unwrap();
        assert_eq!((answer.status, &answer.body[..]), (302, &b"hi"[..]));
        assert!(answer.headers.contains(&("location".into(), "/b".into())));
        assert!(
            seen.recv()
                .await
                .unwrap()
                .starts_with("GET /a?b=c HTTP/1.1\r\n")
        );

        for hosts in [&[][..], &["127.0.0.1"], &["localhost", "127.0.0.1:1"]] {
            let denied = client(hosts).send(get(&url)).await.unwrap_err();
            assert_eq!(
                denied,
                OutboundError::Denied(format!(
                    "the operator has not granted plugin weather the host 127.0.0.1:{port}"
                ))
            );
        }
        assert!(seen.try_recv().is_err());
    }

    #[tokio::test]
    async fn what_is_recorded_is_answered_and_nothing_else_is_called() {
        let grant = Grant {
            hosts: vec!["a.example:80".into()],
            ..Grant::default()
        };
        let answer = RecordedAnswer {
            method: "GET".into(),
            url: "http://a.example/x".into(),
            status: 418,
            headers: Vec::new(),
            body: Bytes::from_static(b"tea"),
        };
        let client = OutboundClient::recorded("weather", Arc::new(grant), vec![answer]);
        let found = client.send(get("http://a.example/x")).await.unwrap();
        assert_eq!((found.status, &found.body[..]), (418, &b"tea"[..]));
        let missing = client.send(get("http://a.example/y")).await.unwrap_err();
        let said = "no answer is recorded for GET http://a.example/y";
        assert_eq!(missing, OutboundError::Failed(said.into()));
        let denied = client.send(get("http://b.example/x")).await.unwrap_err();
        assert!(matches!(denied, OutboundError::Denied(_)), "{denied:?}");
    }

    #[tokio::test]
    async fn what_cannot_be_sent_is_told() {
        let client = client(&["*"]);
        let with = |name: &str| Outgoing {
            headers: vec![(name.into(), "x".into())],
            ..get("http://a.example/")
        };
        for outgoing in [
            get("/relative"),
            get("ftp://a.example/"),
            get("http://user:secret@a.example/"),
            with("host"),
            with("content-length"),
            with("no header"),
            Outgoing {
                method: "CONNECT".into(),
                ..get("http://a.example/")
            },
        ] {
            let said = format!("{outgoing:?}");
            let error = client.send(outgoing).await.unwrap_err();
            assert!(
                matches!(error, OutboundError::Invalid(_)),
                "{said}: {error:?}"
            );
        }
        let large = Outgoing {
            body: vec![0; MAX_REQUEST + 1],
            ..get("http://a.example/")
        };
        let error = client.send(large).await.unwrap_err();
        assert!(matches!(error, OutboundError::TooLarge(_)));
    }

    #[tokio::test]
    async fn time_and_size_of_an_answer_are_bounded() {
        let client = client(&["*"]);
        let (port, _seen) = server(Vec::new()).await;
        let outgoing = Outgoing {
            timeout_ms: 50,
            ..get(&format!("http://127.0.0.1:{port}/"))
        };
        assert_eq!(
            client.send(outgoing).await.unwrap_err(),
            OutboundError::Timeout
        );

        let mut answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
            MAX_ANSWER + 1
        )
        .into_bytes();
        answer.resize(answer.len() + MAX_ANSWER + 1, b'x');
        let (port, _seen) = server(answer).await;
        let error = client.send(get(&format!("http://127.0.0.1:{port}/"))).await;
        assert!(matches!(error.unwrap_err(), OutboundError::TooLarge(_)));
    }
}
