//! What is said below HTTP, or badly.

use std::time::Duration;

use joinery_server::Limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{BASE, Client, start, start_with, within};

async fn rest(mut stream: impl tokio::io::AsyncRead + Unpin) -> String {
    let mut answer = Vec::new();
    let _ = within(10, stream.read_to_end(&mut answer)).await;
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn plain_http_is_told_that_this_is_https() {
    let server = start().await;
    for request in ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", "P"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(
            rest(stream).await,
            "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
        );
    }
}

#[tokio::test]
async fn a_head_that_never_ends_costs_its_connection() {
    let limits = Limits {
        head_timeout: Duration::from_millis(300),
        ..Limits::default()
    };
    let server = start_with(limits, None).await;
    let client = Client {
        http1: true,
        ..Client::default()
    };
    for begun in ["", "GET", "GET /healthz HTTP/1.1\r\nHost: x\r\n"] {
        let mut stream = client.connect(&server).await;
        stream.write_all(begun.as_bytes()).await.unwrap();
        rest(stream).await;
    }
}

#[tokio::test]
async fn a_long_head_is_read_and_a_longer_one_refused() {
    let server = start().await;
    for http1 in [false, true] {
        let client = Client {
            http1,
            ..Client::admin()
        };
        // An HTTP/2 client that makes small frames gets no more into the five that the library takes.
        let long = "x".repeat(if http1 { 200_000 } else { 70_000 });
        let answer = client.get(&server, "/healthz", &[("x-long", &long)]).await;
        assert_eq!(answer.status, 200, "http1: {http1}");
        // A front proxy sends a header for each group.
        let groups: Vec<_> = (0..500).map(|_| ("x-remote-group", "g")).collect();
        assert_eq!(client.get(&server, "/healthz", &groups).await.status, 200);
    }
    let client = Client {
        http1: true,
        ..Client::default()
    };
    for (length, codes) in [(200_000, &["414"][..]), (1_200_000, &["414", "431"])] {
        let mut stream = client.connect(&server).await;
        let line = format!(
            "GET /healthz?{} HTTP/1.1\r\nHost: x\r\n\r\n",
            "a".repeat(length)
        );
        // It may be refused before all of it is sent.
        let _ = stream.write_all(line.as_bytes()).await;
        let answer = rest(stream).await;
        let refused = |code: &&str| answer.starts_with(&format!("HTTP/1.1 {code} "));
        assert!(codes.iter().any(refused), "{answer}");
    }
}

#[tokio::test]
async fn the_deprecated_paths_of_watches_watch() {
    let server = start().await;
    server.things.put(Some("n"), "a", 1);
    server.things.put(Some("n"), "b", 1);
    let lines = async |path: &str| {
        let path = format!("{BASE}/{path}");
        let answer = Client::admin().get(&server, &path, &[]).await;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        (
            answer.status.as_u16(),
            text.matches(r#""type":"ADDED""#).count(),
        )
    };
    let second = "timeoutSeconds=1";
    assert_eq!(lines(&format!("watch/things?{second}")).await, (200, 2));
    let one = "watch/namespaces/n/things/a";
    assert_eq!(lines(&format!("{one}?{second}&watch=0")).await, (200, 1));
    let other = "fieldSelector=metadata.name%3Db";
    assert_eq!(lines(&format!("{one}?{second}&{other}")).await.0, 400);
    assert_eq!(lines(&format!("{one}/status?{second}")).await.0, 404);
    assert_eq!(lines("watch/nothing").await.0, 404);
    assert_eq!(lines("watch").await.0, 404);
}

#[tokio::test]
async fn an_empty_namespace_in_the_path_is_all_of_them() {
    let server = start().await;
    server.things.put(Some("n"), "a", 1);
    let admin = Client::admin();
    let list = admin
        .get(&server, &format!("{BASE}/namespaces//things"), &[])
        .await;
    assert_eq!(list.status, 200);
    assert_eq!(list.json()["items"][0]["metadata"]["name"], "a");
    let one = format!("{BASE}/namespaces//things/a");
    assert_eq!(admin.get(&server, &one, &[]).await.status, 404);
}
