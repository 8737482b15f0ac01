use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use joinery_server::Limits;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::harness::{BASE, Client, Running, start, start_with, within};

type Socket = WebSocketStream<tokio_rustls::client::TlsStream<TcpStream>>;

async fn connect(
    server: &Running,
    token: &str,
    path: &str,
    headers: &[(&'static str, &str)],
) -> Result<(Socket, tungstenite::handshake::client::Response), tungstenite::Error> {
    let client = Client {
        http1: true,
        ..Client::default()
    };
    let stream = client.connect(server).await;
    let mut request = format!("wss://localhost{BASE}{path}")
        .into_client_request()
        .unwrap();
    let bearer = format!("Bearer {token}");
    for (name, value) in headers.iter().chain(&[("authorization", bearer.as_str())]) {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    within(5, client_async(request, stream)).await
}

async fn watch(server: &Running, query: &str) -> Socket {
    let path = format!("/namespaces/n/things?watch=1{query}");
    connect(server, "admin-token", &path, &[]).await.unwrap().0
}

async fn next(socket: &mut Socket) -> Message {
    within(20, socket.next()).await.unwrap().unwrap()
}

async fn event(socket: &mut Socket) -> Value {
    let message = next(socket).await;
    let text = message.to_text().unwrap();
    assert!(message.is_text() && text.ends_with("}\n"), "{message:?}");
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn each_event_is_one_text_frame_and_the_end_a_normal_close() {
    let server = start().await;
    server.things.put(Some("n"), "a", 1);
    let mut socket = watch(&server, "&timeoutSeconds=2").await;
    let first = event(&mut socket).await;
    assert_eq!(
        (&first["type"], &first["object"]["metadata"]["name"]),
        (&"ADDED".into(), &"a".into())
    );
    server.things.put(Some("n"), "a", 2);
    assert_eq!(event(&mut socket).await["type"], "MODIFIED");
    let Message::Close(Some(close)) = next(&mut socket).await else {
        panic!("no close");
    };
    assert_eq!(close.code, CloseCode::Normal);
}

#[tokio::test]
async fn what_the_client_says_is_dropped_and_its_pings_are_answered() {
    let server = start().await;
    let mut socket = watch(&server, "").await;
    socket.send(Message::text("hello")).await.unwrap();
    socket
        .send(Message::Ping("are you there".into()))
        .await
        .unwrap();
    assert_eq!(
        next(&mut socket).await,
        Message::Pong("are you there".into())
    );
    server.things.put(Some("n"), "a", 1);
    assert_eq!(event(&mut socket).await["type"], "ADDED");
    socket.close(None).await.unwrap();
    assert!(next(&mut socket).await.is_close());
}

#[tokio::test]
async fn an_error_in_the_stream_is_a_frame_and_one_before_it_an_answer() {
    let server = start().await;
    server.things.put(Some("n"), "a", 1);
    let mut socket = watch(&server, "&resourceVersion=5").await;
    assert_eq!(event(&mut socket).await["object"]["code"], 410);
    assert!(next(&mut socket).await.is_close());
    for (token, path, headers, code) in [
        ("bob-token", "/things?watch=1", &[][..], 403),
        (
            "admin-token",
            "/things?watch=1",
            &[("sec-websocket-version", "8")][..],
            400,
        ),
        (
            "admin-token",
            "/things?watch=1",
            &[("accept", "application/yaml")][..],
            406,
        ),
        ("admin-token", "/nothing?watch=1", &[][..], 404),
    ] {
        match connect(&server, token, path, headers).await {
            Err(tungstenite::Error::Http(answer)) => assert_eq!(answer.status(), code),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn the_protocol_that_the_client_names_is_confirmed() {
    let server = start().await;
    let named = [("sec-websocket-protocol", "base64.binary.k8s.io")];
    let (_, answer) = connect(&server, "admin-token", "/things?watch=1", &named)
        .await
        .unwrap();
    assert_eq!(answer.status(), 101);
    assert_eq!(answer.headers()["sec-websocket-protocol"], named[0].1);
}

#[tokio::test]
async fn a_server_that_stops_closes_its_websockets_first() {
    let limits = Limits {
        shutdown_grace: Duration::from_secs(2),
        ..Limits::default()
    };
    let server = start_with(limits, None).await;
    let mut socket = watch(&server, "").await;
    server.stop.cancel();
    assert!(next(&mut socket).await.is_close());
    within(5, server.done).await.unwrap();
}
