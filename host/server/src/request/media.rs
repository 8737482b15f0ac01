//! The type of a request's body.

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use joinery_object::Status;
use joinery_resource::PatchType;

use super::protobuf;

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    Json,
    Yaml,
    /// Of a built-in kind.
    Protobuf,
    /// No Content-Type: what `kubectl create --raw` sends is whatever the file holds.
    Either,
}

/// What every resource takes.
const BODIES: [&str; 2] = ["application/json", "application/yaml"];
const PATCHES: [&str; 3] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
];

/// The media type without its parameters, in lower case; empty for none.
fn media_type(headers: &HeaderMap) -> String {
    let value = headers
        .get(CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default();
    let media_type = value.split(';').next().unwrap_or_default();
    media_type.trim().to_ascii_lowercase()
}

/// Whether there is no Content-Type, or an empty one. `;` is a type that nobody knows.
fn says_nothing(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .is_none_or(|value| value.as_bytes().trim_ascii().is_empty())
}

/// How the body of a create, update or delete is written.
///
/// # Errors
/// 415 for anything but JSON, YAML and Kubernetes' protobuf.
pub(crate) fn body_format(headers: &HeaderMap) -> Result<BodyFormat, Status> {
    match media_type(headers).as_str() {
        "" if says_nothing(headers) => Ok(BodyFormat::Either),
        "application/json" => Ok(BodyFormat::Json),
        "application/yaml" => Ok(BodyFormat::Yaml),
        protobuf::MEDIA_TYPE => Ok(BodyFormat::Protobuf),
        _ => Err(unsupported_body()),
    }
}

/// 415 for a body that the resource does not take in this format.
pub(super) fn unsupported_body() -> Status {
    Status::unsupported_media_type(&BODIES)
}

/// What kind of patch the body is.
///
/// # Errors
/// 415 for anything else. For a resource outside of Kubernetes' own groups, strategic merge patches are among it: as for
/// custom resources there is no strategy to go by.
pub(crate) fn patch_type(headers: &HeaderMap, group: &str) -> Result<PatchType, Status> {
    match media_type(headers).as_str() {
        "application/json-patch+json" => Ok(PatchType::Json),
        "application/merge-patch+json" => Ok(PatchType::Merge),
        "application/apply-patch+yaml" => Ok(PatchType::Apply),
        // kubectl sends it for every kind that it has a Go type of, whatever OpenAPI says.
        "application/strategic-merge-patch+json" if is_built_in(group) => Ok(PatchType::Strategic),
        _ => Err(Status::unsupported_media_type(&PATCHES)),
    }
}

/// Whether a group is Kubernetes' own.
fn is_built_in(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_a_missing_type_leaves_the_format_open() {
        let format = |value: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static(value));
            }
            body_format(&headers).map_err(|status| status.code)
        };
        assert_eq!(format(None), Ok(BodyFormat::Either));
        assert_eq!(format(Some(" ")), Ok(BodyFormat::Either));
        assert_eq!(
            format(Some("Application/JSON; charset=utf-8")),
            Ok(BodyFormat::Json)
        );
        for unknown in [";;;", ";charset=utf-8", "text/plain"] {
            assert_eq!(format(Some(unknown)), Err(415), "{unknown}");
        }
    }
}
