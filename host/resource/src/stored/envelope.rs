//! How an object lies in the store: a line about it, then the object.
//!
//! ```text
//! {"namespaceUid":"…","written":1767225600000}
//! {"apiVersion":…,"kind":…,"metadata":{…},…}
//! ```
//!
//! The object has no resourceVersion: that is the revision of the store at which it was put, and is written into it when
//! it is read.

use bytes::{BufMut, Bytes, BytesMut};
use joinery_object::{Object, ObjectError, ResourceVersion};
use joinery_store::Versioned;
use serde::{Deserialize, Serialize};

/// What the host remembers of an object besides the object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Envelope {
    /// The uid of the namespace that the object was created in. An object does not come back in a namesake.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) namespace_uid: String,
    /// Time of the last write, milliseconds since 1970.
    pub(crate) written: u64,
}

/// A stored value that is none.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EnvelopeError {
    /// No line before the object, or none that can be read.
    #[error("the stored value has no envelope")]
    Envelope,
    /// What follows it is no object.
    #[error(transparent)]
    Object(#[from] ObjectError),
}

impl Envelope {
    /// The value to store.
    pub(crate) fn seal(&self, object: &[u8]) -> Bytes {
        let mut value = BytesMut::with_capacity(object.len() + 96).writer();
        // A string and a number, written to memory: this cannot fail.
        let _ = serde_json::to_writer(&mut value, self);
        let mut value = value.into_inner();
        value.put_u8(b'\n');
        value.put_slice(object);
        value.freeze()
    }

    /// What was sealed.
    pub(crate) fn open(value: &Bytes) -> Result<(Self, Bytes), EnvelopeError> {
        let end = value
            .iter()
            .position(|b| *b == b'\n')
            .ok_or(EnvelopeError::Envelope)?;
        let envelope =
            serde_json::from_slice(&value[..end]).map_err(|_| EnvelopeError::Envelope)?;
        Ok((envelope, value.slice(end + 1..)))
    }
}

/// The stored object at its resource version.
pub(crate) fn object(stored: &Versioned) -> Result<Object, EnvelopeError> {
    let (_, text) = Envelope::open(&stored.value)?;
    Ok(Object::parse_at(
        text,
        ResourceVersion::single(stored.revision),
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_is_opened_and_gets_its_version() {
        let envelope = Envelope {
            namespace_uid: "u".to_owned(),
            written: 7,
        };
        let value = envelope.seal(br#"{"kind":"Task","metadata":{"name":"a"}}"#);
        assert_eq!(Envelope::open(&value).unwrap().0, envelope);
        let object = object(&Versioned {
            value,
            revision: 12,
        })
        .unwrap();
        assert_eq!(
            object.bytes(),
            r#"{"kind":"Task","metadata":{"resourceVersion":"12","name":"a"}}"#
        );
    }

    #[test]
    fn a_value_without_a_line_is_refused() {
        assert!(Envelope::open(&Bytes::from_static(b"{}")).is_err());
        assert!(Envelope::open(&Bytes::from_static(b"x\n{}")).is_err());
    }
}
