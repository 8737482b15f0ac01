//! The one form in which the host keeps objects of others.

use std::borrow::Cow;
use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::object::ObjectError;

/// Annotation where kubectl keeps what was applied last: a second copy of the object. The canonical form has it not.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The members of a JSON object, in their order, each as it is written.
pub struct Members<'a>(
    /// Name and value.
    pub Vec<(Cow<'a, str>, &'a RawValue)>,
);

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(name) = map.next_key::<Name<'de>>()? {
                    members.push((name.0, map.next_value()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

impl Members<'_> {
    fn write(&self, out: &mut BytesMut, leave_out: &[&str]) {
        let mut separator = if out.last() == Some(&b'{') { "" } else { "," };
        for (name, value) in &self.0 {
            if leave_out.contains(&&**name) {
                continue;
            }
            out.put_slice(separator.as_bytes());
            write_string(out, name);
            out.put_u8(b':');
            out.put_slice(value.get().as_bytes());
            separator = ",";
        }
    }
}

/// Writes a JSON string, quoted and escaped.
pub fn write_string(out: &mut BytesMut, text: &str) {
    // Writing to memory cannot fail, and a str has no value that JSON lacks.
    let _ = serde_json::to_writer(out.writer(), text);
}

/// Makes an object canonical: `apiVersion` and `kind` come first, these where the text has none of its own, as items of built-in lists;
/// metadata.managedFields and kubectl's last-applied annotation, which no view shows, are dropped.
///
/// # Errors
/// When the text is no JSON object with an object as `metadata`.
pub fn canonical(text: &[u8], api_version: &str, kind: &str) -> Result<Bytes, ObjectError> {
    canonical_with_metadata(text, api_version, kind).map(|(text, _)| text)
}

/// The canonical text, and where its `metadata` stands, braces included.
pub(crate) fn canonical_with_metadata(
    text: &[u8],
    api_version: &str,
    kind: &str,
) -> Result<(Bytes, Range<usize>), ObjectError> {
    let malformed = |error: serde_json::Error| ObjectError::Malformed(error.to_string());
    let members: Members<'_> = serde_json::from_slice(text).map_err(malformed)?;
    let own = |wanted: &str| {
        let found = members.0.iter().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.get())
    };
    let mut out = BytesMut::with_capacity(text.len() + api_version.len() + kind.len() + 32);
    for (before, name, given) in [
        ("{\"apiVersion\":", "apiVersion", api_version),
        (",\"kind\":", "kind", kind),
    ] {
        out.put_slice(before.as_bytes());
        match own(name) {
            Some(value) if value.len() > 2 && value.starts_with('"') => {
                out.put_slice(value.as_bytes())
            }
            _ => write_string(&mut out, given),
        }
    }
    let metadata = own("metadata").ok_or(ObjectError::Missing("metadata"))?;
    out.put_slice(b",\"metadata\":");
    let start = out.len();
    out.put_u8(b'{');
    let metadata: Members<'_> = serde_json::from_str(metadata).map_err(malformed)?;
    for (name, value) in metadata.0 {
        let value = match &*name {
            "managedFields" => continue,
            "annotations" if value.get().contains(LAST_APPLIED) => {
                let annotations: Members<'_> =
                    serde_json::from_str(value.get()).map_err(malformed)?;
                if annotations.0.iter().all(|(name, _)| name == LAST_APPLIED) {
                    continue;
                }
                let mut rest = BytesMut::from(&b"{"[..]);
                annotations.write(&mut rest, &[LAST_APPLIED]);
                rest.put_u8(b'}');
                Cow::Owned(rest.to_vec())
            }
            _ => Cow::Borrowed(value.get().as_bytes()),
        };
        if out.last() != Some(&b'{') {
            out.put_u8(b',');
        }
        write_string(&mut out, &name);
        out.put_u8(b':');
        out.put_slice(&value);
    }
    out.put_u8(b'}');
    let end = out.len();
    members.write(&mut out, &["apiVersion", "kind", "metadata"]);
    out.put_u8(b'}');
    // What is dropped is often the larger part, and this is held for long: no more than it needs.
    Ok((Bytes::copy_from_slice(&out), start..end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_is_added_and_what_no_view_shows_is_dropped() {
        let text = br#"{"metadata":{"name":"a","managedFields":[{"x":1}],"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","keep":"\"me\""},"uid":"u"},"spec":{"a":[1,2]}}"#;
        assert_eq!(
            canonical(text, "v1", "Event").unwrap(),
            r#"{"apiVersion":"v1","kind":"Event","metadata":{"name":"a","annotations":{"keep":"\"me\""},"uid":"u"},"spec":{"a":[1,2]}}"#
        );
    }

    #[test]
    fn annotations_go_when_nothing_is_left_of_them() {
        let text = br#"{"kind":"X","apiVersion":"y","metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"},"name":"a"}}"#;
        assert_eq!(
            canonical(text, "v1", "Event").unwrap(),
            r#"{"apiVersion":"y","kind":"X","metadata":{"name":"a"}}"#
        );
    }

    #[test]
    fn the_canonical_form_is_its_own() {
        let once = canonical(br#"{"metadata":{"name":"a"}}"#, "v1", "Event").unwrap();
        assert_eq!(canonical(&once, "v1", "Event").unwrap(), once);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        assert!(canonical(b"[]", "v1", "Event").is_err());
        assert!(canonical(b"{}", "v1", "Event").is_err());
    }
}
