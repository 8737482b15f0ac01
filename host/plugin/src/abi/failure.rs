//! What host and guest tell each other of failures, whichever version of the contract says it.

use joinery_object::{Cause, Details, GroupVersionResource, Status, reason};

/// Most causes that a failure may have; the rest is cut.
const MAX_CAUSES: usize = 100;
/// Longest message of a failure, in bytes.
const MAX_MESSAGE: usize = 8 << 10;

/// The parts of a Status that a contract knows.
pub(super) struct Failure {
    /// A metav1 StatusReason.
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) causes: Vec<Cause>,
    pub(super) retry_after_seconds: Option<u32>,
}

impl Failure {
    /// A guest's failure as a Status about one object. A reason that is not known becomes an internal error.
    pub(super) fn status(self, resource: &GroupVersionResource, kind: &str, name: &str) -> Status {
        let (code, reason) = match self.reason.as_str() {
            "BadRequest" => (400, reason::BAD_REQUEST),
            "Forbidden" => (403, reason::FORBIDDEN),
            "NotFound" => (404, reason::NOT_FOUND),
            "AlreadyExists" => (409, reason::ALREADY_EXISTS),
            "Conflict" => (409, reason::CONFLICT),
            "Expired" => (410, reason::EXPIRED),
            "RequestEntityTooLarge" => (413, reason::REQUEST_ENTITY_TOO_LARGE),
            "Invalid" => (422, reason::INVALID),
            "TooManyRequests" => (429, reason::TOO_MANY_REQUESTS),
            "ServerTimeout" => (500, reason::SERVER_TIMEOUT),
            "ServiceUnavailable" => (503, reason::SERVICE_UNAVAILABLE),
            "Timeout" => (504, reason::TIMEOUT),
            _ => (500, reason::INTERNAL_ERROR),
        };
        let mut message = self.message;
        message.truncate(message.floor_char_boundary(MAX_MESSAGE));
        Status::failure(code, reason, message).with_details(Details {
            name: name.to_owned(),
            group: resource.group.to_string(),
            kind: if code == 422 {
                kind.to_owned()
            } else {
                resource.resource.to_string()
            },
            causes: self.causes.into_iter().take(MAX_CAUSES).collect(),
            retry_after_seconds: self.retry_after_seconds.unwrap_or_default(),
            ..Details::default()
        })
    }

    /// The other way: what a look-up was refused with.
    pub(super) fn of(status: Status) -> Self {
        let retry_after_seconds = status.retry_after_seconds();
        let details = status.details.map(|details| *details).unwrap_or_default();
        Self {
            reason: status.reason.into_owned(),
            message: status.message,
            causes: details.causes,
            retry_after_seconds,
        }
    }
}
