//! Random requests, most of them good ones with something wrong: whatever a client sends, the answer comes soon, is no
//! redirect and no failure of ours, and an error is a Status.

mod dice;
mod request;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use joinery_resource::builtin::{self, BuiltinOptions, Builtins};
use joinery_resource::{Resource, Rules, StoredResource};
use joinery_store::Embedded;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::harness::{Client, Running, start};
use dice::Dice;
use request::Sent;

/// Longer than a list that waits for a version of the future, by far shorter than a client's patience.
const SOON: Duration = Duration::from_secs(10);
/// So long a watch is listened to.
const LISTEN: Duration = Duration::from_millis(30);
/// Requests on one connection.
const KEEP: usize = 64;

/// The built-in resources and one of a CustomResourceDefinition, on a store of their own.
async fn stored(server: &Running) {
    let store = Arc::new(Embedded::temporary().unwrap());
    let Builtins {
        storage,
        background,
        ..
    } = builtin::install(
        store,
        &server.catalog,
        server.rules.clone(),
        BuiltinOptions::default(),
    )
    .await
    .unwrap();
    tokio::spawn(background);
    let (definition, schema) = builtin::from_crd(&json!({"spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [{
            "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "selectableFields": [{"jsonPath": ".spec.color"}],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "required": ["size"], "properties": {
                    "size": {"type": "integer", "minimum": 0, "maximum": 10},
                    "color": {"type": "string", "pattern": "^[a-z]*$", "default": "red"},
                    "port": {"x-kubernetes-int-or-string": true},
                    "when": {"type": "string", "format": "date-time"},
                    "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "n": {"type": "number"}}}},
                    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }},
                "status": {"type": "object", "properties": {"seen": {"type": "integer"}}},
            }}},
        }],
    }}))
    .unwrap();
    let widgets = StoredResource::open(&storage, definition, Some(schema), None, Rules::default())
        .await
        .unwrap();
    server.catalog.change(&[], [widgets as Arc<dyn Resource>]);
}

/// What came back.
struct Got {
    status: u16,
    content_type: String,
    location: bool,
    /// None while the answer goes on, as that of a watch does.
    body: Option<Bytes>,
}

/// Why an answer must not be.
fn fault(sent: &Sent, got: &Got) -> Option<String> {
    if (300..400).contains(&got.status) || got.location {
        return Some("a redirect".to_owned());
    }
    if !sent.may_stream() && got.body.is_none() {
        return Some("it does not end".to_owned());
    }
    let body = got.body.as_deref().unwrap_or_default();
    if got.status < 400 || sent.method == "HEAD" {
        return (got.status >= 500).then(|| "a failure".to_owned());
    }
    let status: Value = if got.content_type.contains("yaml") {
        std::str::from_utf8(body)
            .ok()
            .and_then(|text| serde_saphyr::from_str(text).ok())
    } else {
        serde_json::from_slice(body).ok()
    }
    .unwrap_or_default();
    if status["kind"] != "Status" || status["apiVersion"] != "v1" || status["code"] != got.status {
        return Some(format!("no Status: {}", String::from_utf8_lossy(body)));
    }
    if status["message"].as_str().is_none_or(str::is_empty) {
        return Some("it says nothing".to_owned());
    }
    // A version that this server has not reached yet: 504, as kube-apiserver says it.
    let too_large = status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge";
    (got.status >= 500 && !too_large).then(|| format!("a failure: {}", status["message"]))
}

/// A connection that is kept for a while.
struct Kept {
    sender: http2::SendRequest<Full<Bytes>>,
    left: usize,
}

impl Kept {
    async fn open(server: &Running) -> Self {
        let stream = TokioIo::new(Client::default().connect(server).await);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream)
            .await
            .unwrap();
        tokio::spawn(connection);
        Self { sender, left: KEEP }
    }

    async fn send(&mut self, sent: &Sent) -> Got {
        self.left -= 1;
        let mut request = http::Request::builder()
            .method(sent.method.as_str())
            .uri(format!("https://localhost{}", sent.target));
        for (name, value) in &sent.headers {
            request = request.header(name.as_str(), value.as_str());
        }
        let request = request.body(Full::new(sent.body.clone())).unwrap();
        let (head, body) = self
            .sender
            .send_request(request)
            .await
            .unwrap()
            .into_parts();
        let collected = if sent.may_stream() {
            tokio::time::timeout(LISTEN, body.collect()).await.ok()
        } else {
            tokio::time::timeout(SOON, body.collect()).await.ok()
        };
        let text = |name: &str| {
            let value = head.headers.get(name)?;
            Some(value.to_str().unwrap().to_owned())
        };
        Got {
            status: head.status.as_u16(),
            content_type: text("content-type").unwrap_or_default(),
            location: text("location").is_some(),
            body: collected.map(|collected| collected.unwrap().to_bytes()),
        }
    }
}

/// How many requests are made: a twentieth of it but with `JOINERY_TEST_FULL=1`.
fn count(full: u64) -> u64 {
    if std::env::var("JOINERY_TEST_FULL").is_ok_and(|value| value == "1") {
        full
    } else {
        full.div_ceil(20)
    }
}

/// The first seed; another one makes other requests.
fn seed() -> u64 {
    std::env::var("JOINERY_FUZZ_SEED").map_or(1, |text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_asked_is_answered_well() {
    let server = start().await;
    stored(&server).await;
    let mut kept = Kept::open(&server).await;
    let mut faults = Vec::new();
    let mut statuses = std::collections::BTreeMap::<u16, u64>::new();
    for number in seed()..seed() + count(20_000) {
        let sent = Sent::random(&mut Dice::new(number));
        if kept.left == 0 {
            kept = Kept::open(&server).await;
        }
        let fault = match tokio::time::timeout(SOON, kept.send(&sent)).await {
            Ok(got) => {
                *statuses.entry(got.status).or_default() += 1;
                fault(&sent, &got).map(|fault| format!("{} {fault}", got.status))
            }
            Err(_) => Some("no answer".to_owned()),
        };
        if let Some(fault) = fault {
            faults.push(format!("{number}: {sent}\n    {fault}"));
            kept = Kept::open(&server).await;
        }
    }
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults[..faults.len().min(20)].join("\n")
    );
    // It has seen good requests and bad ones of many kinds.
    for expected in [200, 201, 400, 404, 405, 406, 409, 415, 422] {
        assert!(statuses.contains_key(&expected), "{expected}: {statuses:?}");
    }
    let list = Client::admin()
        .get(&server, "/apis/example.com/v1/widgets", &[])
        .await;
    assert_eq!(list.status, 200);
    assert!(!server.done.is_finished());
}

/// Bytes that are hardly HTTP any more. What is no request at all is the HTTP library's to refuse, without a Status.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_hardly_a_request_harms_nothing() {
    let server = start().await;
    stored(&server).await;
    let client = Client {
        http1: true,
        ..Client::default()
    };
    for number in seed()..seed() + count(4_000) {
        let mut dice = Dice::new(number);
        let mut sent = Sent::random(&mut dice);
        sent.headers
            .push(("connection".to_owned(), "close".to_owned()));
        let raw = dice.spoil(sent.raw());
        let mut stream = client.connect(&server).await;
        let mut answer = Vec::new();
        let exchange = async {
            // The server may answer and close before it has read all.
            let _ = stream.write_all(&raw).await;
            let _ = stream.shutdown().await;
            let _ = tokio::time::timeout(
                Duration::from_millis(300),
                (&mut stream).take(1 << 20).read_to_end(&mut answer),
            )
            .await;
        };
        tokio::time::timeout(SOON, exchange).await.unwrap();
        let head = String::from_utf8_lossy(&answer);
        let status = head
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3));
        if let Some(status) = status {
            assert!(
                !status.starts_with('3')
                    && (!status.starts_with('5') || head.contains("ResourceVersionTooLarge")),
                "{number}: {}\n{head}",
                String::from_utf8_lossy(&raw)
            );
        }
    }
    let list = Client::admin()
        .get(&server, "/apis/example.com/v1/widgets", &[])
        .await;
    assert_eq!(list.status, 200);
}
