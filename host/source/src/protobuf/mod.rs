//! Lists of built-in kinds in Kubernetes' protobuf encoding, which kube-apiserver writes with far less work than JSON.
//!
//! What comes out is the text that kube-apiserver would have sent as JSON, so nobody can tell how an object was read. Only kinds
//! whose messages are known here, to the last field, are asked for so: an upstream whose messages have further fields is asked for
//! JSON, so that nothing is lost; so is a list with something in it that only Go can write.

mod kinds;
mod status;
mod text;

use std::sync::Arc;

use joinery_object::protobuf::{Envelope, Value, fields};
use joinery_object::{GroupVersionResource, Object};

use crate::list::unreadable;
use crate::upstream::{Page, UpstreamError};
pub(crate) use status::status;
use text::{Message, Unwritten, Writer};

/// Content-Type of such a list.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// What is read as this kind of list.
#[derive(Debug)]
pub(crate) struct Kind {
    api_version: &'static str,
    kind: &'static str,
    /// Without apiVersion and kind: those of metadata, and all others.
    metadata: &'static Message,
    rest: &'static Message,
}

/// Why a list was not read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// It has a field that is not known here.
    Unfamiliar(u32),
    /// It, or an object in it, is not as these messages are, or has a time that no calendar here knows.
    Malformed(String),
    /// As of any other list.
    Failed(UpstreamError),
}

impl From<UpstreamError> for Unread {
    fn from(error: UpstreamError) -> Self {
        Self::Failed(error)
    }
}

impl From<Unread> for UpstreamError {
    fn from(why: Unread) -> Self {
        match why {
            Unread::Failed(error) => error,
            Unread::Unfamiliar(number) => unreadable(format!("field {number} is not known")),
            Unread::Malformed(why) => unreadable(why),
        }
    }
}

impl From<Unwritten> for Unread {
    fn from(why: Unwritten) -> Self {
        match why {
            Unwritten::Unfamiliar(number) => Self::Unfamiliar(number),
            Unwritten::Malformed(why) => Self::Malformed(why),
        }
    }
}

/// The kind of a resource's objects; none where they are read as JSON.
pub(crate) fn kind(gvr: &GroupVersionResource) -> Option<&'static Kind> {
    let events = (&*gvr.group, &*gvr.version, &*gvr.resource) == ("", "v1", "events");
    events.then_some(&kinds::EVENT)
}

/// Reads a page of a list, as [`page`](crate::list::page) does.
///
/// # Errors
/// [`Unread`].
pub(crate) fn page(
    body: &[u8],
    kind: &Kind,
    next: impl FnOnce(Option<String>),
) -> Result<Page, Unread> {
    let malformed = Unread::Malformed;
    let envelope = Envelope::open(body).map_err(malformed)?;
    if envelope.kind.strip_suffix("List") != Some(kind.kind)
        || envelope.api_version != kind.api_version
    {
        let what = format!("{}, {}", envelope.api_version, envelope.kind);
        return Err(malformed(format!("a list of {what}")));
    }
    let (mut meta, mut items) = (&[][..], Vec::new());
    for field in fields(envelope.message) {
        match field.map_err(malformed)? {
            (1, value) => meta = value.bytes().map_err(malformed)?,
            (2, value) => items.push(value.bytes().map_err(malformed)?),
            (number, _) => return Err(Unread::Unfamiliar(number)),
        }
    }
    let mut page = Page::default();
    let mut position = None;
    for field in fields(meta) {
        match field.map_err(malformed)? {
            (2, value) => {
                let version = value.text().map_err(malformed)?;
                position = Some(version.parse().map_err(|_| {
                    malformed(format!("resourceVersion {version:?} is no decimal integer"))
                })?);
            }
            (3, value) => {
                let token = value.text().map_err(malformed)?;
                page.continue_token = Some(token.to_owned()).filter(|token| !token.is_empty());
            }
            (4, Value::Number(remaining)) => page.remaining = Some(remaining),
            _ => {}
        }
    }
    page.position = position.ok_or_else(|| malformed("it has no resourceVersion".to_owned()))?;
    next(page.continue_token.clone());
    let mut writer = Writer::default();
    page.items = items
        .into_iter()
        .map(|item| object(item, kind, &mut writer))
        .collect::<Result<_, _>>()?;
    Ok(page)
}

/// One object: canonical, as [`joinery_object::canonical`] makes them.
fn object(message: &[u8], kind: &Kind, writer: &mut Writer) -> Result<Arc<Object>, Unread> {
    let metadata = writer.object(message, kind)?;
    let object = Object::parse_canonical(writer.take(), metadata);
    object
        .map(Arc::new)
        .map_err(|error| Unread::Malformed(error.to_string()))
}
