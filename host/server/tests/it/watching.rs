use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use joinery_server::Limits;
use serde_json::{Value, json};

use crate::harness::{BASE, Client, Running, start, start_with, within};

/// Reads a watch line by line.
struct Lines {
    body: Incoming,
    rest: Vec<u8>,
}

impl Lines {
    async fn open(
        client: &Client,
        server: &Running,
        query: &str,
        headers: &[(&str, &str)],
    ) -> Self {
        let path = format!("{BASE}/namespaces/n/things?watch=true{query}");
        let response = within(5, client.open(server, "GET", &path, headers, Bytes::new())).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "application/json");
        assert!(!response.headers().contains_key("content-encoding"));
        Self {
            body: response.into_body(),
            rest: Vec::new(),
        }
    }

    /// None at the end of the stream.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            match within(20, self.body.frame()).await {
                Some(frame) => self
                    .rest
                    .extend_from_slice(&frame.unwrap().into_data().unwrap()),
                None => {
                    assert!(self.rest.is_empty(), "the last line is whole");
                    return None;
                }
            }
        }
    }
}

fn short(event: &Value) -> String {
    let metadata = &event["object"]["metadata"];
    format!(
        "{} {}",
        event["type"].as_str().unwrap(),
        metadata["name"].as_str().unwrap_or("-")
    )
}

#[tokio::test]
async fn headers_come_before_any_event_and_each_event_at_once() {
    let server = start().await;
    for http1 in [false, true] {
        let client = Client {
            http1,
            ..Client::admin()
        };
        let path = format!("{BASE}/namespaces/n/things");
        let list = client.get(&server, &path, &[]).await.json();
        let version = list["metadata"]["resourceVersion"].as_str().unwrap();
        let query = format!("&resourceVersion={version}");
        let began = Instant::now();
        let mut lines = Lines::open(&client, &server, &query, &[("accept-encoding", "gzip")]).await;
        assert!(
            began.elapsed() < Duration::from_millis(500),
            "{:?}",
            began.elapsed()
        );
        server.things.put(Some("n"), &format!("x{http1}"), 1);
        let event = lines.next().await.unwrap();
        assert_eq!(short(&event), format!("ADDED x{http1}"));
    }
}

#[tokio::test]
async fn a_watch_ends_cleanly_when_its_time_is_up() {
    let server = start().await;
    for http1 in [false, true] {
        let client = Client {
            http1,
            ..Client::admin()
        };
        let began = Instant::now();
        let mut lines = Lines::open(&client, &server, "&timeoutSeconds=2", &[]).await;
        assert_eq!(lines.next().await, None);
        let took = began.elapsed();
        assert!(
            (Duration::from_secs(2)..Duration::from_secs(4)).contains(&took),
            "{took:?}"
        );
    }
}

#[tokio::test]
async fn without_a_timeout_the_server_chooses_one() {
    let limits = Limits {
        min_watch_timeout: Duration::from_secs(1),
        ..Limits::default()
    };
    let server = start_with(limits, None).await;
    let began = Instant::now();
    let mut lines = Lines::open(&Client::admin(), &server, "", &[]).await;
    assert_eq!(lines.next().await, None);
    assert!(began.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn a_watch_is_open_until_its_client_goes() {
    let server = start().await;
    let gauge = async || {
        let metrics = Client::admin().get(&server, "/metrics", &[]).await;
        let text = String::from_utf8(metrics.body.to_vec()).unwrap();
        text.lines()
            .find(|line| {
                line.starts_with("apiserver_longrunning_requests{") && line.contains("things")
            })
            .map(|line| line.rsplit(' ').next().unwrap().to_owned())
    };
    let lines = Lines::open(&Client::admin(), &server, "", &[]).await;
    assert_eq!(gauge().await.as_deref(), Some("1"));
    drop(lines);
    within(10, async {
        while gauge().await.as_deref() != Some("0") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn initial_events_end_with_a_marked_bookmark_even_when_there_are_none() {
    let server = start().await;
    let query = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=60";
    for (count, change) in [(0, "ADDED one"), (1, "MODIFIED one")] {
        let mut lines = Lines::open(&Client::admin(), &server, query, &[]).await;
        for _ in 0..count {
            assert_eq!(lines.next().await.unwrap()["type"], "ADDED");
        }
        let bookmark = lines.next().await.unwrap();
        assert_eq!(bookmark["type"], "BOOKMARK");
        let object = &bookmark["object"];
        assert_eq!(
            (&object["kind"], &object["apiVersion"]),
            (&json!("Thing"), &json!("test.example.com/v1"))
        );
        let metadata = &object["metadata"];
        assert_eq!(metadata["annotations"]["k8s.io/initial-events-end"], "true");
        let version = metadata["resourceVersion"].as_str().unwrap();
        assert!(version.parse::<u64>().unwrap() > 0);
        server.things.put(Some("n"), "one", 1);
        assert_eq!(short(&lines.next().await.unwrap()), change);
    }
}

#[tokio::test]
async fn tables_name_their_columns_once_and_metadata_has_no_spec() {
    let server = start().await;
    server.things.put(Some("n"), "a", 1);
    server.things.put(Some("n"), "b", 2);
    let table = [(
        "accept",
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    )];
    let mut lines = Lines::open(&Client::admin(), &server, "", &table).await;
    let (first, second) = (lines.next().await.unwrap(), lines.next().await.unwrap());
    assert_eq!(first["object"]["kind"], "Table");
    assert_eq!(first["object"]["columnDefinitions"][1]["name"], "Size");
    assert_eq!(first["object"]["rows"][0]["cells"][1], 1);
    assert_eq!(second["object"]["columnDefinitions"], Value::Null);
    assert_eq!(second["object"]["rows"].as_array().unwrap().len(), 1);
    assert_eq!(
        second["object"]["rows"][0]["object"]["metadata"]["name"],
        "b"
    );
    let metadata = [(
        "accept",
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
         application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    )];
    let mut lines = Lines::open(&Client::admin(), &server, "", &metadata).await;
    let event = lines.next().await.unwrap();
    assert_eq!(event["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(event["object"]["spec"], Value::Null);
}

#[tokio::test]
async fn entering_a_selection_is_added_and_leaving_it_deleted() {
    let server = start().await;
    server.things.put(Some("n"), "x", 1);
    let mut lines = Lines::open(&Client::admin(), &server, "&labelSelector=size%3D2", &[]).await;
    server.things.put(Some("n"), "x", 2);
    assert_eq!(short(&lines.next().await.unwrap()), "ADDED x");
    server.things.put(Some("n"), "x", 3);
    assert_eq!(short(&lines.next().await.unwrap()), "DELETED x");
    let mut one = Lines::open(
        &Client::admin(),
        &server,
        "&fieldSelector=metadata.name%3Dy",
        &[],
    )
    .await;
    server.things.put(Some("n"), "x", 4);
    server.things.put(Some("n"), "y", 4);
    assert_eq!(short(&one.next().await.unwrap()), "ADDED y");
}

#[tokio::test]
async fn an_expired_version_is_told_in_the_stream() {
    let server = start().await;
    server.things.put(Some("n"), "x", 1);
    let mut lines = Lines::open(&Client::admin(), &server, "&resourceVersion=5", &[]).await;
    let event = lines.next().await.unwrap();
    assert_eq!(event["type"], "ERROR");
    assert_eq!(
        (&event["object"]["reason"], &event["object"]["code"]),
        (&json!("Expired"), &json!(410))
    );
    assert_eq!(lines.next().await, None);
}
