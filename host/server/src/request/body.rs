//! Reading a request's body.

use std::pin::Pin;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use joinery_object::Status;

use super::{BodyFormat, media, protobuf, yaml};

/// As kube-apiserver: `MaxRequestBodyBytes`.
const LIMIT: usize = 3 * 1024 * 1024;
/// At most so much is read only to be thrown away.
const DISCARDED: usize = 16 * 1024 * 1024;
const DISCARDING: Duration = Duration::from_secs(5);

/// The whole body.
///
/// # Errors
/// 413 above 3 MiB, 400 when the client stops in the middle.
pub(crate) async fn read_body<B>(body: B) -> Result<Bytes, Status>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    // A length that is announced is refused before anything is read.
    if body.size_hint().lower() > LIMIT as u64 {
        return Err(Status::request_entity_too_large(LIMIT));
    }
    match Limited::new(body, LIMIT).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Status::request_entity_too_large(LIMIT))
        }
        Err(error) => Err(Status::bad_request(format!(
            "the body could not be read: {error}"
        ))),
    }
}

/// Reads what is left of a body and throws it away, within bounds. An HTTP/1.1 connection that is closed over bytes that
/// nobody read is reset, and a client that still writes then never sees the answer.
pub(crate) async fn discard<B: http_body::Body>(mut body: Pin<&mut B>) {
    if body.is_end_stream() {
        return;
    }
    let reading = async {
        let mut length = 0;
        while length <= DISCARDED
            && let Some(Ok(frame)) = body.frame().await
        {
            length += frame.data_ref().map_or(0, |data| data.remaining());
        }
    };
    // Who is that slow does without the answer.
    let _ = tokio::time::timeout(DISCARDING, reading).await;
}

/// The body as JSON. An empty body stays empty.
///
/// # Errors
/// 400 when it is not what its type says, 415 for protobuf of a kind that has none.
pub(crate) fn to_json(body: Bytes, format: BodyFormat) -> Result<Bytes, Status> {
    if body.is_empty() {
        return Ok(body);
    }
    let is_json = || serde_json::from_slice::<&serde_json::value::RawValue>(&body).map(drop);
    match format {
        BodyFormat::Json => match is_json() {
            Ok(()) => Ok(body),
            Err(error) => Err(Status::bad_request(format!("the body is no JSON: {error}"))),
        },
        BodyFormat::Protobuf => protobuf::to_json(&body)?.ok_or_else(media::unsupported_body),
        BodyFormat::Either if is_json().is_ok() => Ok(body),
        BodyFormat::Either | BodyFormat::Yaml => {
            let text = std::str::from_utf8(&body)
                .map_err(|e| Status::bad_request(format!("the body is no UTF-8 text: {e}")))?;
            yaml::to_json(text)
                .map_err(|e| Status::bad_request(format!("the body is neither JSON nor YAML: {e}")))
                .map(Bytes::from)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_becomes_json_and_json_stays_as_it_is() {
        let json = Bytes::from_static(br#"{ "a": 1 }"#);
        assert_eq!(to_json(json.clone(), BodyFormat::Either).unwrap(), json);
        assert_eq!(to_json(json.clone(), BodyFormat::Json).unwrap(), json);
        let yaml = Bytes::from_static(b"a: 1\nb: [x, \"2\"]\n");
        assert_eq!(
            to_json(yaml.clone(), BodyFormat::Either).unwrap(),
            r#"{"a":1,"b":["x","2"]}"#
        );
        assert_eq!(to_json(yaml, BodyFormat::Json).unwrap_err().code, 400);
        assert_eq!(
            to_json(Bytes::from_static(b"a: [1"), BodyFormat::Yaml)
                .unwrap_err()
                .code,
            400
        );
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_413() {
        let body = |len: usize| http_body_util::Full::new(Bytes::from(vec![b' '; len]));
        assert_eq!(read_body(body(LIMIT)).await.unwrap().len(), LIMIT);
        assert_eq!(read_body(body(LIMIT + 1)).await.unwrap_err().code, 413);
    }
}
