//! Watches over a WebSocket (RFC 6455), as k8s.io/apiserver/pkg/endpoints/handlers/watch.go and
//! golang.org/x/net/websocket: each event is one text frame, what the client says is read and dropped, and the stream
//! ends with a close frame. HTTP/1.1 only.
//!
//! ⚠ Go answers 403 without an `Origin` and takes whatever Origin there is; here it may be missing.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{SinkExt as _, StreamExt as _};
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode, Version};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use crate::body::Body;

/// The client has nothing to say, so it may not say much at once. In bytes.
const MESSAGE_LIMIT: usize = 64 * 1024;
/// How long the last frame may take to leave.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A request to go on as a WebSocket.
pub(crate) struct Handshake {
    upgrade: OnUpgrade,
    accept: HeaderValue,
    protocol: Option<HeaderValue>,
}

/// Why a request cannot go on as a WebSocket; answered in plain text, as upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    Version,
    Key,
    Protocol,
}

impl Refused {
    fn response(self) -> Response<Body> {
        let why = match self {
            Self::Version => "missing or bad WebSocket Version",
            Self::Key => "mismatch challenge/response",
            Self::Protocol => "more than one WebSocket protocol",
        };
        let mut response = crate::respond::with_type(
            StatusCode::BAD_REQUEST,
            "text/plain; charset=utf-8",
            why.into(),
        );
        if self == Self::Version {
            let headers = response.headers_mut();
            headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        }
        response
    }
}

impl Handshake {
    /// None for a request that asks for no WebSocket. The error is the answer to one that asks badly.
    pub(crate) fn of(parts: &Parts) -> Option<Result<Self, Box<Response<Body>>>> {
        let upgrade = parts.extensions.get::<OnUpgrade>()?;
        if parts.version != Version::HTTP_11 || !is_asked_for(&parts.headers) {
            return None;
        }
        let checked = check(&parts.headers).map(|(accept, protocol)| Self {
            upgrade: upgrade.clone(),
            accept,
            protocol,
        });
        Some(checked.map_err(|refused| Box::new(refused.response())))
    }

    /// The answer that switches protocols, and what then sends the frames: to be run beside the connection.
    pub(crate) fn accept(
        self,
        frames: BoxStream<'static, Bytes>,
    ) -> (Response<Body>, impl Future<Output = ()> + Send + 'static) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, self.accept);
        if let Some(protocol) = self.protocol {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        let upgrade = self.upgrade;
        let serve = async move {
            match upgrade.await {
                Ok(connection) => send(connection, frames).await,
                Err(error) => tracing::debug!(%error, "no WebSocket after all"),
            }
        };
        (response, serve)
    }
}

/// k8s.io/apimachinery/pkg/util/httpstream/wsstream IsWebSocketRequest.
fn is_asked_for(headers: &HeaderMap) -> bool {
    let has = |name, word: &str| {
        headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|token| token.trim().eq_ignore_ascii_case(word))
    };
    has(UPGRADE, "websocket") && has(CONNECTION, "upgrade")
}

/// The accept key, and the protocol to confirm: whichever one the client names.
fn check(headers: &HeaderMap) -> Result<(HeaderValue, Option<HeaderValue>), Refused> {
    if headers
        .get(SEC_WEBSOCKET_VERSION)
        .map(HeaderValue::as_bytes)
        != Some(b"13")
    {
        return Err(Refused::Version);
    }
    let key = headers
        .get(SEC_WEBSOCKET_KEY)
        .filter(|key| !key.is_empty())
        .ok_or(Refused::Key)?;
    let accept = derive_accept_key(key.as_bytes())
        .parse()
        .map_err(|_| Refused::Key)?;
    let mut protocols = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    let protocol = protocols.next();
    if protocols.next().is_some() || protocol.is_some_and(|p| p.as_bytes().contains(&b',')) {
        return Err(Refused::Protocol);
    }
    Ok((accept, protocol.cloned()))
}

/// Sends the frames until they or the client end.
async fn send(connection: Upgraded, mut frames: BoxStream<'static, Bytes>) {
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_LIMIT))
        .max_frame_size(Some(MESSAGE_LIMIT));
    let io = TokioIo::new(connection);
    let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
    loop {
        tokio::select! {
            frame = frames.next() => {
                // All of it is JSON.
                let Some(Ok(text)) = frame.map(Utf8Bytes::try_from) else { break };
                if socket.send(Message::Text(text)).await.is_err() {
                    return;
                }
            }
            // Reading also answers pings and the client's close.
            said = socket.next() => match said {
                Some(Ok(Message::Close(_))) => break,
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            },
        }
    }
    let end = async {
        let normal = CloseFrame {
            code: CloseCode::Normal,
            reason: Utf8Bytes::default(),
        };
        // The client may have closed first, and needs no second frame.
        let _ = socket.close(Some(normal)).await;
        let _ = socket.flush().await;
        let _ = tokio::io::AsyncWriteExt::shutdown(socket.get_mut()).await;
    };
    let _ = tokio::time::timeout(LAST_WORDS, end).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn both_headers_ask_for_a_websocket() {
        for (connection, upgrade, asked) in [
            ("Upgrade", "websocket", true),
            ("keep-alive, Upgrade", "WebSocket", true),
            ("keep-alive", "websocket", false),
            ("Upgrade", "SPDY/3.1", false),
        ] {
            let headers = headers(&[("connection", connection), ("upgrade", upgrade)]);
            assert_eq!(is_asked_for(&headers), asked, "{connection} {upgrade}");
        }
    }

    #[test]
    fn the_key_is_answered_as_the_rfc_has_it() {
        let key = ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        let version = ("sec-websocket-version", "13");
        let protocol = |p| ("sec-websocket-protocol", p);
        assert_eq!(
            check(&headers(&[key, version])),
            Ok(("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=".parse().unwrap(), None))
        );
        let one = check(&headers(&[key, version, protocol("base64.binary.k8s.io")])).unwrap();
        assert_eq!(one.1.unwrap(), "base64.binary.k8s.io");
        let refused = |pairs: &[_]| check(&headers(pairs)).unwrap_err();
        assert_eq!(refused(&[version]), Refused::Key);
        assert_eq!(
            refused(&[key, ("sec-websocket-version", "8")]),
            Refused::Version
        );
        assert_eq!(
            refused(&[key, version, protocol("a, b")]),
            Refused::Protocol
        );
    }
}
