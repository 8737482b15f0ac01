//! `metav1.Status`: the one error type.
//!
//! # How errors flow
//!
//! An error is born where the reason is known: the parser that could not read a selector, the store whose guard did
//! not hold, the plugin that refused an object. There it becomes a [`Status`], because only there the words for the
//! client are known, and the reason (`NotFound`, `Conflict`, `Invalid`) is what a program at the other end acts on.
//! From then on it travels unchanged, by `?`, through resource and server. Nothing on the way knows HTTP: `code` is a
//! field of the Status that clients read, not a response. Only the server's edge makes status line, headers and body of
//! it, so every error, on every path, has the one shape that kubectl and client-go understand.
//!
//! Internal errors (I/O, a broken invariant, another server's failure) have types of their own in their crates. Who
//! turns one into a Status chooses what a client may see; [`Status::internal`] shows its text, the rest goes to the log.
//!
//! Inside a watch an error is an event: the HTTP status was sent long ago, so the Status travels in an `ERROR` frame.
//!
//! The wording is that of `k8s.io/apimachinery/pkg/api/errors`, since people search for it and some clients match it.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use crate::GroupVersionResource;

/// The machine-readable reasons, as `metav1.StatusReason`.
pub mod reason {
    /// 401.
    pub const UNAUTHORIZED: &str = "Unauthorized";
    /// 403.
    pub const FORBIDDEN: &str = "Forbidden";
    /// 404.
    pub const NOT_FOUND: &str = "NotFound";
    /// 409 on create.
    pub const ALREADY_EXISTS: &str = "AlreadyExists";
    /// 409 on update, patch and delete.
    pub const CONFLICT: &str = "Conflict";
    /// 422.
    pub const INVALID: &str = "Invalid";
    /// 500, try again.
    pub const SERVER_TIMEOUT: &str = "ServerTimeout";
    /// 504.
    pub const TIMEOUT: &str = "Timeout";
    /// 429.
    pub const TOO_MANY_REQUESTS: &str = "TooManyRequests";
    /// 400.
    pub const BAD_REQUEST: &str = "BadRequest";
    /// 405.
    pub const METHOD_NOT_ALLOWED: &str = "MethodNotAllowed";
    /// 406.
    pub const NOT_ACCEPTABLE: &str = "NotAcceptable";
    /// 413.
    pub const REQUEST_ENTITY_TOO_LARGE: &str = "RequestEntityTooLarge";
    /// 415.
    pub const UNSUPPORTED_MEDIA_TYPE: &str = "UnsupportedMediaType";
    /// 500.
    pub const INTERNAL_ERROR: &str = "InternalError";
    /// 410: the resource version or continue token is too old.
    pub const EXPIRED: &str = "Expired";
    /// 503.
    pub const SERVICE_UNAVAILABLE: &str = "ServiceUnavailable";
}

/// What a client with an expired continue token is told, next to a token for the inconsistent remainder.
const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. \
    You can start a new list without the continue parameter, or use the continue token in this response to retrieve \
    the remainder of the list. Continuing with the provided token results in an inconsistent list - objects that were \
    created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// One `metav1.StatusCause`: what is wrong with one field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// A `metav1.CauseType`, e.g. `FieldValueRequired`.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: Cow<'static, str>,
    /// Without the field's name, e.g. `Required value`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// JSON path of the field, e.g. `spec.priority` or `items[0].name`. Empty when it is about no field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// The constructors of `k8s.io/apimachinery/pkg/util/validation/field`, with their wording. Values appear as JSON.
impl Cause {
    fn new(reason: &'static str, field: impl Into<String>, title: &str, detail: &str) -> Self {
        let message = if detail.is_empty() {
            title.to_owned()
        } else {
            format!("{title}: {detail}")
        };
        Self {
            reason: reason.into(),
            message,
            field: field.into(),
        }
    }

    fn with_value(
        reason: &'static str,
        field: impl Into<String>,
        title: &str,
        value: impl Serialize,
        detail: &str,
    ) -> Self {
        let value = serde_json::to_string(&value).unwrap_or_default();
        Self::new(reason, field, &format!("{title}: {value}"), detail)
    }

    /// The value is malformed or out of bounds.
    pub fn invalid(field: impl Into<String>, value: impl Serialize, detail: &str) -> Self {
        Self::with_value("FieldValueInvalid", field, "Invalid value", value, detail)
    }

    /// The value is of another type than the schema's.
    pub fn type_invalid(field: impl Into<String>, value: impl Serialize, detail: &str) -> Self {
        Self::with_value(
            "FieldValueTypeInvalid",
            field,
            "Invalid value",
            value,
            detail,
        )
    }

    /// The value is missing.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        Self::new("FieldValueRequired", field, "Required value", detail)
    }

    /// The value may not be set, or not so under these conditions.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::new("FieldValueForbidden", field, "Forbidden", detail)
    }

    /// The value must be unique and is not.
    pub fn duplicate(field: impl Into<String>, value: impl Serialize) -> Self {
        Self::with_value("FieldValueDuplicate", field, "Duplicate value", value, "")
    }

    /// The value names something that does not exist.
    pub fn not_found(field: impl Into<String>, value: impl Serialize) -> Self {
        Self::with_value("FieldValueNotFound", field, "Not found", value, "")
    }

    /// The value is none of an enumeration.
    pub fn not_supported(
        field: impl Into<String>,
        value: impl Serialize,
        supported: &[&str],
    ) -> Self {
        let supported: Vec<_> = supported.iter().map(|v| format!("{v:?}")).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        Self::with_value(
            "FieldValueNotSupported",
            field,
            "Unsupported value",
            value,
            &detail,
        )
    }

    /// The value has more than `max` bytes. It is not repeated in the message.
    pub fn too_long(field: impl Into<String>, max: usize) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::new(
            "FieldValueTooLong",
            field,
            "Too long",
            &format!("may not be more than {max} {unit}"),
        )
    }

    /// The list has `actual` items, more than `max`.
    pub fn too_many(field: impl Into<String>, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {unit}");
        Self::with_value("FieldValueTooMany", field, "Too many", actual, &detail)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.field, self.message)
        }
    }
}

/// `metav1.StatusDetails`: what the error is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Details {
    /// Of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// ⚠ The plural of the resource, except in `Invalid`, where it is the kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// One per field or failed precondition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Also sent as `Retry-After`. 0: no such advice.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

fn is_zero(seconds: &u32) -> bool {
    *seconds == 0
}

impl Details {
    fn of(resource: &GroupVersionResource, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            group: resource.group.to_string(),
            kind: resource.resource.to_string(),
            ..Self::default()
        }
    }
}

/// An error, or the success that a delete answers with. Serializes as `metav1.Status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The HTTP status code: 200 for success, else 400 to 599.
    pub code: u16,
    /// A `metav1.StatusReason`, see [`reason`]. Empty for success.
    pub reason: Cow<'static, str>,
    /// For people. [`fmt::Display`] shows just this.
    pub message: String,
    /// What it is about.
    pub details: Option<Box<Details>>,
    /// `metadata.continue`, with an expired continue token only.
    pub continue_token: Option<Box<str>>,
    /// What there was to warn about before the refusal: for `Warning` headers, and not part of the object.
    pub warnings: Box<[String]>,
}

/// The result of what a request may be refused.
pub type Result<T, E = Status> = std::result::Result<T, E>;

impl Status {
    /// An error of any code and reason, without details.
    pub fn failure(
        code: u16,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            code,
            reason: reason.into(),
            message: message.into(),
            details: None,
            continue_token: None,
            warnings: Box::default(),
        }
    }

    /// `Status: Success`, what a delete answers with once the object is gone.
    pub fn success(resource: &GroupVersionResource, name: &str, uid: &str) -> Self {
        Self::failure(200, "", "").with_details(Details {
            uid: uid.to_owned(),
            ..Details::of(resource, name)
        })
    }

    /// With these details in place of any earlier.
    #[must_use]
    pub fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// With one more cause.
    #[must_use]
    pub fn with_cause(mut self, cause: Cause) -> Self {
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// With the advice to come back after so many seconds.
    #[must_use]
    pub fn with_retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// With what there was to warn about before.
    pub fn with_warnings(mut self, warnings: &[String]) -> Self {
        self.warnings = warnings.into();
        self
    }

    /// Seconds after which the client should try again.
    pub fn retry_after_seconds(&self) -> Option<u32> {
        let seconds = self.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then_some(seconds)
    }

    /// Whether the reason is this one of [`reason`].
    pub fn is(&self, reason: &str) -> bool {
        self.reason == reason
    }

    /// 404: there is no such object.
    pub fn not_found(resource: &GroupVersionResource, name: &str) -> Self {
        let message = format!("{} {name:?} not found", resource.group_resource());
        Self::failure(404, reason::NOT_FOUND, message).with_details(Details::of(resource, name))
    }

    /// 404: the server has nothing at this path.
    pub fn path_not_found() -> Self {
        let message = "the server could not find the requested resource";
        Self::failure(404, reason::NOT_FOUND, message).with_details(Details::default())
    }

    /// 409: there is such an object already.
    pub fn already_exists(resource: &GroupVersionResource, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", resource.group_resource());
        Self::failure(409, reason::ALREADY_EXISTS, message)
            .with_details(Details::of(resource, name))
    }

    /// 409: eight names made from `generateName` were all taken.
    pub fn generate_name_conflict(resource: &GroupVersionResource, name: &str) -> Self {
        let message = format!(
            "{} {name:?} already exists, the server was not able to generate a unique name for the object",
            resource.group_resource()
        );
        Self::failure(409, reason::ALREADY_EXISTS, message)
            .with_details(Details::of(resource, name))
            .with_retry_after(1)
    }

    /// 409: the object changed since the client read it, or a precondition does not hold.
    pub fn conflict(resource: &GroupVersionResource, name: &str, message: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: {message}",
            resource.group_resource()
        );
        Self::failure(409, reason::CONFLICT, message).with_details(Details::of(resource, name))
    }

    /// 409 of an update whose resourceVersion is stale.
    pub fn modified(resource: &GroupVersionResource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 422: the object or the options are not valid. `causes` has at least one entry.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let mut message = if group.is_empty() {
            format!("{kind} {name:?} is invalid")
        } else {
            format!("{kind}.{group} {name:?} is invalid")
        };
        // Each text once, as Go's aggregate does: several rules may complain with the same words.
        let mut texts: Vec<String> = Vec::with_capacity(causes.len());
        for cause in &causes {
            let text = cause.to_string();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        match texts.as_slice() {
            [] => {}
            [one] => message.push_str(&format!(": {one}")),
            several => message.push_str(&format!(": [{}]", several.join(", "))),
        }
        Self::failure(422, reason::INVALID, message).with_details(Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes,
            ..Details::default()
        })
    }

    /// 422 without an object, e.g. a JSON patch whose operation failed.
    pub fn unprocessable(message: &str) -> Self {
        let message =
            format!("the server rejected our request due to an error in our request: {message}");
        Self::failure(422, reason::INVALID, message).with_details(Details::default())
    }

    /// 400: the request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, reason::BAD_REQUEST, message)
    }

    /// 401: no credentials, or none that hold.
    pub fn unauthorized() -> Self {
        Self::failure(401, reason::UNAUTHORIZED, "Unauthorized")
    }

    /// 403: the user may not do this to the resource. `message` says who and what; `name` may be empty.
    pub fn forbidden(resource: &GroupVersionResource, name: &str, message: &str) -> Self {
        let what = resource.group_resource();
        let message = if name.is_empty() {
            format!("{what} is forbidden: {message}")
        } else {
            format!("{what} {name:?} is forbidden: {message}")
        };
        Self::failure(403, reason::FORBIDDEN, message).with_details(Details::of(resource, name))
    }

    /// 403 of a path that is no resource.
    pub fn forbidden_path(message: &str) -> Self {
        Self::failure(403, reason::FORBIDDEN, format!("forbidden: {message}"))
            .with_details(Details::default())
    }

    /// 405: the resource is there but does not have this verb.
    pub fn method_not_supported(resource: &GroupVersionResource, action: &str) -> Self {
        let message = format!(
            "{action} is not supported on resources of kind {:?}",
            resource.group_resource()
        );
        Self::failure(405, reason::METHOD_NOT_ALLOWED, message)
            .with_details(Details::of(resource, ""))
    }

    /// 405 of a path that is no resource.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::failure(405, reason::METHOD_NOT_ALLOWED, message).with_details(Details::default())
    }

    /// 406: no clause of the Accept header is among `accepted`.
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!(
            "only the following media types are accepted: {}",
            accepted.join(", ")
        );
        Self::failure(406, reason::NOT_ACCEPTABLE, message)
    }

    /// 415: the body's Content-Type is none of `accepted`.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::failure(415, reason::UNSUPPORTED_MEDIA_TYPE, message)
    }

    /// 413: the body has more than `limit` bytes.
    pub fn request_entity_too_large(limit: usize) -> Self {
        Self::too_large(format!("limit is {limit}"))
    }

    /// 413 for another reason than the body's bytes.
    pub fn too_large(message: impl fmt::Display) -> Self {
        let message = format!("Request entity too large: {message}");
        Self::failure(413, reason::REQUEST_ENTITY_TOO_LARGE, message)
    }

    /// 410: the resource version, or the history behind it, is gone.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, reason::EXPIRED, message)
    }

    /// 410 of a continue token, with a token that reads the remainder at another revision, if there can be one.
    pub fn continue_expired(remainder: Option<&str>) -> Self {
        Self {
            continue_token: remainder.map(Into::into),
            warnings: Box::default(),
            ..Self::expired(CONTINUE_EXPIRED)
        }
    }

    /// 429: come back after so many seconds.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::failure(429, reason::TOO_MANY_REQUESTS, message).with_retry_after(retry_after_seconds)
    }

    /// 500. The text is shown to the client.
    pub fn internal(error: impl fmt::Display) -> Self {
        let error = error.to_string();
        Self::failure(
            500,
            reason::INTERNAL_ERROR,
            format!("Internal error occurred: {error}"),
        )
        .with_cause(Cause {
            message: error,
            ..Cause::default()
        })
    }

    /// 503: not now.
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::failure(503, reason::SERVICE_UNAVAILABLE, message)
    }

    /// 504: it took too long; it may still happen.
    pub fn timeout(message: &str) -> Self {
        Self::failure(504, reason::TIMEOUT, format!("Timeout: {message}"))
            .with_details(Details::default())
    }

    /// 504: the client asked for a resource version that this server has not seen. client-go retries on the cause.
    pub fn too_large_resource_version(
        requested: impl fmt::Display,
        current: impl fmt::Display,
    ) -> Self {
        Self::timeout(&format!(
            "Too large resource version: {requested}, current: {current}"
        ))
        .with_retry_after(1)
        .with_cause(Cause {
            reason: "ResourceVersionTooLarge".into(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        })
    }

    /// As on the wire.
    pub fn to_json(&self) -> Bytes {
        // Strings and integers only: this cannot fail.
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Metadata<'a> {
            #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
            continue_token: Option<&'a str>,
        }

        let failure = self.code >= 400;
        let mut status = serializer.serialize_struct("Status", 8)?;
        status.serialize_field("kind", "Status")?;
        status.serialize_field("apiVersion", "v1")?;
        status.serialize_field(
            "metadata",
            &Metadata {
                continue_token: self.continue_token.as_deref(),
            },
        )?;
        status.serialize_field("status", if failure { "Failure" } else { "Success" })?;
        if !self.message.is_empty() {
            status.serialize_field("message", &self.message)?;
        }
        if !self.reason.is_empty() {
            status.serialize_field("reason", &self.reason)?;
        }
        if let Some(details) = &self.details {
            status.serialize_field("details", details)?;
        }
        // A delete's success carries no code on the wire.
        if failure {
            status.serialize_field("code", &self.code)?;
        }
        status.end()
    }
}

/// Reads what another server answered. All members are optional, as they are for Go clients.
impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> std::result::Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Metadata {
            #[serde(rename = "continue")]
            continue_token: Option<Box<str>>,
        }
        #[derive(Deserialize)]
        struct Wire {
            #[serde(default)]
            code: u16,
            #[serde(default)]
            reason: String,
            #[serde(default)]
            message: String,
            details: Option<Box<Details>>,
            #[serde(default)]
            metadata: Metadata,
        }
        let wire = Wire::deserialize(deserializer)?;
        Ok(Self {
            code: if wire.code == 0 { 200 } else { wire.code },
            reason: wire.reason.into(),
            message: wire.message,
            details: wire.details,
            continue_token: wire.metadata.continue_token,
            warnings: Box::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tasks() -> GroupVersionResource {
        GroupVersionResource::new("tasks.example.com", "v1", "tasks")
    }

    fn json_of(status: &Status) -> Value {
        serde_json::from_slice(&status.to_json()).unwrap()
    }

    #[test]
    fn not_found_is_written_as_kube_apiserver_writes_it() {
        assert_eq!(
            json_of(&Status::not_found(&tasks(), "x")),
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "tasks.tasks.example.com \"x\" not found", "reason": "NotFound",
                "details": {"name": "x", "group": "tasks.example.com", "kind": "tasks"}, "code": 404,
            })
        );
    }

    #[test]
    fn a_core_resource_is_named_without_a_group() {
        let events = GroupVersionResource::new("", "v1", "events");
        assert_eq!(
            Status::not_found(&events, "e").message,
            "events \"e\" not found"
        );
    }

    #[test]
    fn one_cause_stands_plain_and_several_in_brackets() {
        let priority = Cause::invalid("spec.priority", 11, "should be less than or equal to 10");
        let one = Status::invalid("tasks.example.com", "Task", "x", vec![priority.clone()]);
        assert_eq!(
            one.message,
            "Task.tasks.example.com \"x\" is invalid: spec.priority: Invalid value: 11: should be less than or equal to 10"
        );
        let two = Status::invalid(
            "tasks.example.com",
            "Task",
            "x",
            vec![
                priority.clone(),
                Cause::required("spec.deadline", ""),
                priority,
            ],
        );
        assert_eq!(
            two.message,
            "Task.tasks.example.com \"x\" is invalid: [spec.priority: Invalid value: 11: should be less than or equal \
             to 10, spec.deadline: Required value]"
        );
        assert_eq!(
            json_of(&two)["details"]["causes"][1],
            json!({"reason": "FieldValueRequired", "message": "Required value", "field": "spec.deadline"})
        );
    }

    #[test]
    fn unsupported_values_name_the_supported_ones() {
        assert_eq!(
            Cause::not_supported("spec.taskState", "Gone", &["Pending", "Finished"]).to_string(),
            "spec.taskState: Unsupported value: \"Gone\": supported values: \"Pending\", \"Finished\""
        );
    }

    #[test]
    fn a_future_resource_version_tells_clients_to_retry() {
        let status = Status::too_large_resource_version(9, 7);
        assert_eq!(status.code, 504);
        assert_eq!(
            status.message,
            "Timeout: Too large resource version: 9, current: 7"
        );
        assert_eq!(status.retry_after_seconds(), Some(1));
        assert_eq!(
            json_of(&status)["details"],
            json!({
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1,
            })
        );
    }

    #[test]
    fn an_expired_continue_token_carries_one_for_the_remainder() {
        assert_eq!(
            json_of(&Status::continue_expired(Some("abc")))["metadata"],
            json!({"continue": "abc"})
        );
    }

    #[test]
    fn success_has_neither_code_nor_reason() {
        assert_eq!(
            json_of(&Status::success(&tasks(), "x", "u-1")),
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "details": {"name": "x", "group": "tasks.example.com", "kind": "tasks", "uid": "u-1"},
            })
        );
    }

    #[test]
    fn a_status_is_small_enough_to_be_returned_by_value() {
        assert!(size_of::<Status>() <= 96, "{}", size_of::<Status>());
    }
}
