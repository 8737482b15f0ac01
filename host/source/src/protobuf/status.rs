//! `metav1.Status` in protobuf: how kube-apiserver refuses who asks for protobuf.

use joinery_object::protobuf::{Envelope, Value, fields};
use joinery_object::{Details, Status};

/// Reads an error; none when it is no Status.
pub(crate) fn status(body: &[u8]) -> Option<Status> {
    let envelope = Envelope::open(body).ok()?;
    if envelope.kind != "Status" {
        return None;
    }
    let (mut message, mut reason, mut code, mut details) = ("", "", 0, None);
    for field in fields(envelope.message) {
        match field.ok()? {
            (3, value) => message = value.text().ok()?,
            (4, value) => reason = value.text().ok()?,
            (5, value) => details = Some(read_details(value)?),
            (6, value) => code = value.number().ok()?,
            _ => {}
        }
    }
    let status = Status::failure(u16::try_from(code).ok()?, reason.to_owned(), message);
    Some(match details {
        Some(details) => status.with_details(details),
        None => status,
    })
}

/// What decides how an error is taken: causes are left out.
fn read_details(value: Value<'_>) -> Option<Details> {
    let mut details = Details::default();
    for field in fields(value.bytes().ok()?) {
        match field.ok()? {
            (1, value) => details.name = value.text().ok()?.to_owned(),
            (2, value) => details.group = value.text().ok()?.to_owned(),
            (3, value) => details.kind = value.text().ok()?.to_owned(),
            (5, value) => {
                details.retry_after_seconds = u32::try_from(value.number().ok()?).ok()?;
            }
            (6, value) => details.uid = value.text().ok()?.to_owned(),
            _ => {}
        }
    }
    Some(details)
}
