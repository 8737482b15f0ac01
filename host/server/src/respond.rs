//! Where a [`Status`] becomes HTTP, and the headers that every answer has.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WARNING};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use joinery_object::Status;

use crate::body::Body;
use crate::encoding::{Format, yaml};

const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache, private");
const NOSNIFF: (HeaderName, HeaderValue) = (
    HeaderName::from_static("x-content-type-options"),
    HeaderValue::from_static("nosniff"),
);
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// kube-apiserver stops adding warnings beyond so many bytes.
const WARNINGS_LIMIT: usize = 4096;
/// One warning is cut after so many.
const WARNING_LIMIT: usize = 256;

/// The response of an error. A client that cannot read it at least has the code.
pub(crate) fn error(status: &Status, format: Format) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let text = status.to_json();
    let as_yaml = match format {
        Format::Yaml => yaml(&text).ok(),
        Format::Json => None,
    };
    let mut response = match as_yaml {
        Some(yaml) => with_type(code, "application/yaml", yaml),
        None => json(code, text),
    };
    if let Some(seconds) = status.retry_after_seconds() {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    warn(response.headers_mut(), &status.warnings);
    // As upstream: its other errors go the way of any object.
    if status.code == 403 {
        response.headers_mut().insert(NOSNIFF.0, NOSNIFF.1);
    }
    response
}

/// A JSON response.
pub(crate) fn json(code: StatusCode, body: Bytes) -> Response<Body> {
    with_type(code, "application/json", body)
}

/// A response of another type.
pub(crate) fn with_type(
    code: StatusCode,
    content_type: &'static str,
    body: Bytes,
) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Adds what every answer has: it is not for caches, unless it says otherwise, and carries the request's audit id.
pub(crate) fn complete(response: &mut Response<Body>, audit_id: &HeaderValue) {
    let headers = response.headers_mut();
    headers.entry(CACHE_CONTROL).or_insert(NO_CACHE);
    headers.insert(AUDIT_ID, audit_id.clone());
}

/// The id under which kube-apiserver audits the request, or a new one.
pub(crate) fn audit_id(request: &HeaderMap) -> HeaderValue {
    match request.get(AUDIT_ID) {
        Some(id) if !id.is_empty() && id.len() <= 64 => id.clone(),
        _ => HeaderValue::from_str(&uuid::Uuid::new_v4().to_string())
            .unwrap_or(HeaderValue::from_static("-")),
    }
}

/// Adds `Warning: 299 - "…"` headers, which kubectl prints.
pub(crate) fn warn(headers: &mut HeaderMap, warnings: &[String]) {
    let mut total = 0;
    for warning in warnings {
        let mut text = String::with_capacity(warning.len() + 10);
        text.push_str("299 - \"");
        for c in warning.chars() {
            match c {
                '"' | '\\' => text.extend(['\\', c]),
                c if c.is_control() => text.push(' '),
                c => text.push(c),
            }
            if text.len() > WARNING_LIMIT {
                break;
            }
        }
        text.push('"');
        total += text.len();
        if total > WARNINGS_LIMIT {
            return;
        }
        if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
            headers.append(WARNING, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_code_its_advice_and_a_json_body() {
        let response = error(&Status::too_many_requests("later", 3), Format::Json);
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()[RETRY_AFTER], "3");
        assert!(!response.headers().contains_key("x-content-type-options"));
        let response = error(&Status::forbidden_path("no"), Format::Json);
        assert_eq!(response.headers()["x-content-type-options"], "nosniff");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
    }

    #[test]
    fn an_error_is_yaml_for_who_reads_that() {
        let response = error(&Status::path_not_found(), Format::Yaml);
        assert_eq!(response.status(), 404);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/yaml");
    }

    #[test]
    fn warnings_are_quoted_and_bounded() {
        let mut headers = HeaderMap::new();
        warn(&mut headers, &["unknown field \"spec.x\"\n".to_owned()]);
        assert_eq!(headers[WARNING], r#"299 - "unknown field \"spec.x\" ""#);
        let mut headers = HeaderMap::new();
        warn(&mut headers, &vec!["x".repeat(1000); 100]);
        let total: usize = headers.values().map(HeaderValue::len).sum();
        assert!(total <= WARNINGS_LIMIT, "{total}");
    }
}
