//! One object, as shared bytes and the little that the host itself looks at.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::canonical::{canonical_with_metadata, write_string};
use crate::key::ObjectKey;
use crate::resource_version::ResourceVersion;
use crate::rope::Rope;

/// One Kubernetes object: JSON as on the wire, never taken apart, with its identity read once.
///
/// Shared behind an `Arc` by caches, lists and watches. What is derived from it for output is kept beside it
/// ([`Object::row`]), so that it is made once for all readers.
#[derive(Debug)]
pub struct Object {
    key: ObjectKey,
    uid: Box<str>,
    labels: Box<[(Box<str>, Box<str>)]>,
    created: Box<str>,
    resource_version: ResourceVersion,
    body: Body,
    row: RwLock<Option<Box<MadeRow>>>,
    compressed: OnceLock<Box<Compressed>>,
}

/// The text, with the place of metadata.resourceVersion known, so that it can be exchanged.
#[derive(Debug)]
enum Body {
    /// One piece; the range is that of the quoted version.
    Whole(Bytes, Range<usize>),
    /// Apart, for it is the larger: of a source's objects, which are the most, hardly one is so.
    Cut(Box<Cut>),
}

/// A text in pieces.
#[derive(Debug)]
struct Cut {
    head: Rope,
    /// The quoted version, perhaps with its name.
    version: Bytes,
    tail: Rope,
}

/// A row, with the columns that it was made for.
type MadeRow = (Bytes, Arc<Row>);

/// An object's cells in a Table, without what changes with the time of reading.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The cells as a JSON array without its brackets, cut where ages stand.
    pub text: Vec<Bytes>,
    /// One time per cut, in order: between `text[i]` and `text[i + 1]` stands the age of `dates[i]`.
    pub dates: Vec<jiff::Timestamp>,
    /// The object as PartialObjectMetadata.
    pub metadata: Bytes,
}

/// An object's text, compressed apart from all others.
#[derive(Clone, Debug)]
pub struct Compressed {
    /// Whole blocks of a deflate stream (RFC 1951), none of them the last, ending on a byte boundary.
    pub blocks: Bytes,
    /// The CRC-32 of the text (RFC 1952).
    pub crc: u32,
    /// What a CRC-32 is multiplied with when this text follows: x to its length in bits, modulo the polynomial.
    pub shift: u32,
}

/// Text that is no Kubernetes object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// Not JSON, or not of the shape that ObjectMeta has.
    #[error("not a Kubernetes object: {0}")]
    Malformed(String),
    /// A member that every object must have.
    #[error("the object has no {0}")]
    Missing(&'static str),
    /// Of another kind than it must be.
    #[error("the object is a {found}, not a {wanted}")]
    Kind {
        /// apiVersion and kind as they must be.
        wanted: String,
        /// As they are.
        found: String,
    },
    /// The version is there, but is none.
    #[error(transparent)]
    ResourceVersion(#[from] crate::resource_version::InvalidResourceVersion),
}

/// One hole of a composed text, and what fills it.
#[derive(Clone, Debug)]
pub struct Insert {
    /// Byte offset in the text, where a JSON value may stand.
    pub at: usize,
    /// The value.
    pub value: Bytes,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outer<'a> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Inner<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uid: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "raw")]
    resource_version: Option<&'a RawValue>,
    #[serde(borrow)]
    labels: Option<Labels<'a>>,
    #[serde(borrow)]
    creation_timestamp: Option<Cow<'a, str>>,
}

/// Also `null` as it is written, which an `Option` would swallow.
fn raw<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Labels in the order of their keys.
struct Labels<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Labels<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Labels<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object with strings as values")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Self::Value, A::Error> {
                let mut labels = Vec::new();
                while let Some(key) = map.next_key::<Text<'de>>()? {
                    labels.push((key.0, map.next_value::<Text<'de>>()?.0));
                }
                labels.sort();
                Ok(Labels(labels))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// A string that is borrowed where it has no escapes; a `Cow` in a container would always be copied.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

struct Read {
    key: ObjectKey,
    uid: Box<str>,
    labels: Box<[(Box<str>, Box<str>)]>,
    created: Box<str>,
    /// Of the quoted resourceVersion, or an empty range after metadata's opening brace.
    version: Range<usize>,
}

fn read(text: &[u8], kind: Option<(&str, &str)>) -> Result<Read, ObjectError> {
    let malformed = |error: serde_json::Error| ObjectError::Malformed(error.to_string());
    let outer: Outer<'_> = serde_json::from_slice(text).map_err(malformed)?;
    if kind.is_some_and(|kind| kind != (&*outer.api_version, &*outer.kind)) {
        let (api_version, kind) = kind.unwrap_or_default();
        return Err(ObjectError::Kind {
            wanted: format!("{api_version}, {kind}"),
            found: format!("{}, {}", outer.api_version, outer.kind),
        });
    }
    let metadata = outer.metadata.ok_or(ObjectError::Missing("metadata"))?;
    read_metadata(text, metadata.get().as_bytes())
}

/// Reads the metadata of an object, a part of its text.
fn read_metadata(text: &[u8], metadata: &[u8]) -> Result<Read, ObjectError> {
    let malformed = |error: serde_json::Error| ObjectError::Malformed(error.to_string());
    let inner: Inner<'_> = serde_json::from_slice(metadata).map_err(malformed)?;
    let offset = |part: &[u8]| part.as_ptr() as usize - text.as_ptr() as usize;
    let version = match inner.resource_version {
        Some(raw) => {
            let start = offset(raw.get().as_bytes());
            start..start + raw.get().len()
        }
        None => {
            let start = offset(metadata) + 1;
            start..start
        }
    };
    let name = inner
        .name
        .filter(|name| !name.is_empty())
        .ok_or(ObjectError::Missing("metadata.name"))?;
    let namespace = inner.namespace.filter(|namespace| !namespace.is_empty());
    Ok(Read {
        key: ObjectKey::new(namespace.as_deref(), &name),
        uid: inner.uid.unwrap_or_default().into(),
        labels: inner
            .labels
            .map(|labels| labels.0)
            .unwrap_or_default()
            .into_iter()
            .map(|(key, value)| (key.into(), value.into()))
            .collect(),
        created: inner.creation_timestamp.unwrap_or_default().into(),
        version,
    })
}

fn quoted(version: &ResourceVersion) -> Bytes {
    format!("\"{version}\"").into()
}

impl Object {
    /// Reads an object that has a resource version of a single source.
    ///
    /// # Errors
    /// When the text is no object, or lacks metadata.name or a decimal metadata.resourceVersion.
    pub fn parse(text: Bytes) -> Result<Self, ObjectError> {
        let read = read(&text, None)?;
        Self::versioned(text, read)
    }

    /// Makes an object of a source canonical, as [`canonical`](crate::canonical()) does, and reads it, in one go.
    ///
    /// # Errors
    /// As [`Object::parse`].
    pub fn of_source(text: &[u8], api_version: &str, kind: &str) -> Result<Self, ObjectError> {
        let (text, metadata) = canonical_with_metadata(text, api_version, kind)?;
        Self::parse_canonical(text, metadata)
    }

    /// Reads an object whose text is canonical, `metadata` in this range of it, braces included.
    ///
    /// # Errors
    /// As [`Object::parse`].
    pub fn parse_canonical(text: Bytes, metadata: Range<usize>) -> Result<Self, ObjectError> {
        let part = text.get(metadata).ok_or(ObjectError::Missing("metadata"))?;
        let read = read_metadata(&text, part)?;
        Self::versioned(text, read)
    }

    /// An object that has the version that its text says.
    fn versioned(text: Bytes, read: Read) -> Result<Self, ObjectError> {
        let raw = std::str::from_utf8(&text[read.version.clone()]).unwrap_or_default();
        let version = raw.trim_matches('"');
        if version.is_empty() {
            return Err(ObjectError::Missing("metadata.resourceVersion"));
        }
        let resource_version = ResourceVersion::parse(version, 1)?;
        let range = read.version.clone();
        Ok(Self::new(read, resource_version, Body::Whole(text, range)))
    }

    /// Reads an object and gives it this resource version, whatever it had.
    ///
    /// # Errors
    /// When the text is no object or lacks metadata.name.
    pub fn parse_at(text: Bytes, version: ResourceVersion) -> Result<Self, ObjectError> {
        Self::compose(text, Vec::new(), version, None)
    }

    /// Reads an object that is stored nowhere, as a dry run makes it: without a resource version.
    ///
    /// # Errors
    /// When the text is no object or lacks metadata.name.
    pub fn unversioned(text: Bytes) -> Result<Self, ObjectError> {
        let read = read(&text, None)?;
        let range = read.version.clone();
        let version = ResourceVersion::single(0);
        Ok(Self::new(read, version, Body::Whole(text, range)))
    }

    /// Fills the holes of a composed text and gives the object this resource version.
    ///
    /// The result shares the inserted bytes. `inserts` are by rising offset. `kind` is `(apiVersion, kind)`, if these
    /// must be so.
    ///
    /// # Errors
    /// When the text, its holes filled, is no object, is of another kind or lacks metadata.name, or a hole lies
    /// outside it.
    pub fn compose(
        text: Bytes,
        inserts: Vec<Insert>,
        version: ResourceVersion,
        kind: Option<(&str, &str)>,
    ) -> Result<Self, ObjectError> {
        const FILLER: &[u8] = b"null";
        if !inserts.is_sorted_by_key(|insert| insert.at)
            || inserts.last().is_some_and(|last| last.at > text.len())
        {
            return Err(ObjectError::Malformed(
                "the holes are not by rising offset within the text".to_owned(),
            ));
        }
        let mut read = if inserts.is_empty() {
            read(&text, kind)?
        } else {
            // The holes lie where values may stand: with a value in each, the text must be JSON.
            let mut filled = BytesMut::with_capacity(text.len() + inserts.len() * FILLER.len());
            let mut from = 0;
            for insert in &inserts {
                filled.extend_from_slice(&text[from..insert.at]);
                filled.extend_from_slice(FILLER);
                from = insert.at;
            }
            filled.extend_from_slice(&text[from..]);
            read(&filled, kind)?
        };
        if !inserts.is_empty() {
            if inserts
                .iter()
                .enumerate()
                .any(|(i, insert)| read.version.contains(&(insert.at + i * FILLER.len())))
            {
                return Err(ObjectError::Malformed(
                    "a hole lies in metadata.resourceVersion, which the host writes".to_owned(),
                ));
            }
            // From offsets in the filled text to offsets in the text with holes.
            let shift = inserts
                .iter()
                .enumerate()
                .take_while(|(i, insert)| insert.at + i * FILLER.len() < read.version.start)
                .count()
                * FILLER.len();
            read.version = read.version.start - shift..read.version.end - shift;
        }
        let (mut head, mut tail) = (Rope::new(), Rope::new());
        let mut from = 0;
        let cut = read.version.clone();
        let mut inserts = inserts.into_iter().peekable();
        while let Some(insert) = inserts.next_if(|insert| insert.at <= cut.start) {
            head.push(text.slice(from..insert.at));
            head.push(insert.value);
            from = insert.at;
        }
        head.push(text.slice(from..cut.start));
        from = cut.end;
        for insert in inserts {
            tail.push(text.slice(from..insert.at));
            tail.push(insert.value);
            from = insert.at;
        }
        tail.push(text.slice(from..));
        let piece = if cut.is_empty() {
            format!("\"resourceVersion\":\"{version}\",").into()
        } else {
            quoted(&version)
        };
        let cut = Box::new(Cut {
            head,
            version: piece,
            tail,
        });
        Ok(Self::new(read, version, Body::Cut(cut)))
    }

    fn new(read: Read, resource_version: ResourceVersion, body: Body) -> Self {
        Self {
            key: read.key,
            uid: read.uid,
            labels: read.labels,
            created: read.created,
            resource_version,
            body,
            row: RwLock::default(),
            compressed: OnceLock::new(),
        }
    }

    /// The same object at another resource version, as a DELETED event or a later position wants it.
    pub fn at(&self, version: ResourceVersion) -> Self {
        let (head, old, tail) = match &self.body {
            Body::Whole(text, range) => (
                text.slice(..range.start).into(),
                text.slice(range.clone()),
                text.slice(range.end..).into(),
            ),
            Body::Cut(cut) => (cut.head.clone(), cut.version.clone(), cut.tail.clone()),
        };
        let piece = if old.is_empty() || old.starts_with(b"\"resourceVersion\"") {
            format!("\"resourceVersion\":\"{version}\",").into()
        } else {
            quoted(&version)
        };
        Self {
            key: self.key.clone(),
            uid: self.uid.clone(),
            labels: self.labels.clone(),
            created: self.created.clone(),
            resource_version: version,
            body: Body::Cut(Box::new(Cut {
                head,
                version: piece,
                tail,
            })),
            row: RwLock::default(),
            compressed: OnceLock::new(),
        }
    }

    /// What is told to be gone to one who may have had it, and may not see what it was: its kind and its key.
    pub fn tombstone(&self, version: ResourceVersion) -> Self {
        let text = self.bytes();
        // It could be read when it was made.
        let (api_version, kind) = serde_json::from_slice::<Outer<'_>>(&text)
            .map(|outer| (outer.api_version, outer.kind))
            .unwrap_or_default();
        Self::bare(&api_version, &kind, &self.key, version)
    }

    /// An object of which nothing is known but its kind and its key.
    pub fn bare(api_version: &str, kind: &str, key: &ObjectKey, version: ResourceVersion) -> Self {
        let mut text = BytesMut::new();
        let mut member = |before: &[u8], value: &str| {
            text.extend_from_slice(before);
            write_string(&mut text, value);
        };
        member(b"{\"apiVersion\":", api_version);
        member(b",\"kind\":", kind);
        member(b",\"metadata\":{\"name\":", &key.name);
        if let Some(namespace) = &key.namespace {
            member(b",\"namespace\":", namespace);
        }
        text.extend_from_slice(b",\"resourceVersion\":");
        let start = text.len();
        text.extend_from_slice(&quoted(&version));
        let range = start..text.len();
        text.extend_from_slice(b"}}");
        let read = Read {
            key: key.clone(),
            uid: Box::default(),
            labels: Box::default(),
            created: Box::default(),
            version: range.clone(),
        };
        Self::new(read, version, Body::Whole(text.freeze(), range))
    }

    /// Namespace and name.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// metadata.uid; empty where there is none.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// metadata.creationTimestamp as it is written (RFC 3339); empty where there is none.
    pub fn created(&self) -> &str {
        &self.created
    }

    /// metadata.resourceVersion.
    pub fn resource_version(&self) -> &ResourceVersion {
        &self.resource_version
    }

    /// A label's value.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels
            .binary_search_by(|(k, _)| (**k).cmp(key))
            .ok()
            .map(|at| &*self.labels[at].1)
    }

    /// All labels, by key.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter().map(|(k, v)| (&**k, &**v))
    }

    /// The text as shared pieces, without a copy.
    pub fn rope(&self) -> Rope {
        match &self.body {
            Body::Whole(text, _) => text.clone().into(),
            Body::Cut(cut) => {
                let mut rope = cut.head.clone();
                rope.push(cut.version.clone());
                rope.append(&cut.tail);
                rope
            }
        }
    }

    /// The pieces of the text in order, as they are held.
    pub fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        let (head, middle, tail) = match &self.body {
            Body::Whole(text, _) => (&[][..], text, &[][..]),
            Body::Cut(cut) => (cut.head.pieces(), &cut.version, cut.tail.pieces()),
        };
        head.iter().chain([middle]).chain(tail)
    }

    /// The text in one piece; copied together where it is held in several.
    pub fn bytes(&self) -> Bytes {
        match &self.body {
            Body::Whole(text, _) => text.clone(),
            Body::Cut(..) => self.rope().to_bytes(),
        }
    }

    /// Copies the text to the end of a buffer.
    pub fn write_to(&self, buffer: &mut BytesMut) {
        match &self.body {
            Body::Whole(text, _) => buffer.extend_from_slice(text),
            Body::Cut(cut) => {
                cut.head.write_to(buffer);
                buffer.extend_from_slice(&cut.version);
                cut.tail.write_to(buffer);
            }
        }
    }

    /// Length of the text in bytes.
    pub fn len(&self) -> usize {
        match &self.body {
            Body::Whole(text, _) => text.len(),
            Body::Cut(cut) => cut.head.len() + cut.version.len() + cut.tail.len(),
        }
    }

    /// Never true: an object has at least its metadata.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether both texts are the same but for metadata.resourceVersion, which only what went through
    /// [`Object::compose`] can say without a copy.
    pub fn same_but_version(&self, other: &Self) -> bool {
        match (&self.body, &other.body) {
            (Body::Cut(a), Body::Cut(b)) => a.head == b.head && a.tail == b.tail,
            (Body::Whole(a, r), Body::Whole(b, s)) => {
                a[..r.start] == b[..s.start] && a[r.end..] == b[s.end..]
            }
            _ => false,
        }
    }

    /// The text compressed, made on first use.
    pub fn compressed(&self, make: impl FnOnce() -> Compressed) -> &Compressed {
        self.compressed.get_or_init(|| Box::new(make()))
    }

    /// Whether [`Object::compressed`] has been made.
    pub fn is_compressed(&self) -> bool {
        self.compressed.get().is_some()
    }

    /// The row of this object in a Table of these columns, made on first use.
    ///
    /// `columns` is shared text; other columns, as another generation of a plugin may have, make another row.
    pub fn row(&self, columns: &Bytes, make: impl FnOnce() -> Row) -> Arc<Row> {
        let same = |(of, row): &(Bytes, Arc<Row>)| {
            let same = of.as_ptr() == columns.as_ptr() && of.len() == columns.len();
            same.then(|| row.clone())
        };
        if let Some(row) = self.row.read().as_deref().and_then(same) {
            return row;
        }
        let row = Arc::new(make());
        *self.row.write() = Some(Box::new((columns.clone(), row.clone())));
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    fn insert(at: usize, value: &'static str) -> Insert {
        Insert {
            at,
            value: Bytes::from_static(value.as_bytes()),
        }
    }

    #[test]
    fn an_object_is_read_without_being_changed() {
        let json = r#"{"kind":"Task","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7","labels":{"z":"1","b":"2"}}}"#;
        let object = Object::parse(text(json)).unwrap();
        assert_eq!(object.key(), &ObjectKey::new(Some("n"), "a"));
        assert_eq!(object.uid(), "u");
        assert_eq!(object.resource_version(), &ResourceVersion::single(7));
        assert_eq!((object.label("b"), object.label("c")), (Some("2"), None));
        assert_eq!(object.bytes(), json);
    }

    #[test]
    fn a_version_is_exchanged_and_nothing_else() {
        let object = Object::parse(text(
            r#"{"metadata":{"name":"a","resourceVersion":"7","x":1},"spec":{}}"#,
        ))
        .unwrap();
        let later = object.at(ResourceVersion::single(12));
        assert_eq!(
            later.bytes(),
            r#"{"metadata":{"name":"a","resourceVersion":"12","x":1},"spec":{}}"#
        );
        assert_eq!(later.len(), later.bytes().len());
        assert!(later.same_but_version(&later.at(ResourceVersion::single(13))));
    }

    #[test]
    fn holes_before_in_and_after_metadata_are_filled() {
        let skeleton = r#"{"first":,"metadata":{"name":"a","more":},"events":[,]}"#;
        let holes = [
            skeleton.find(":,").unwrap() + 1,
            skeleton.find(":}").unwrap() + 1,
            skeleton.find("[,").unwrap() + 1,
            skeleton.find(",]").unwrap() + 1,
        ];
        let inserts = vec![
            insert(holes[0], "[1]"),
            insert(holes[1], r#"{"x":2}"#),
            insert(holes[2], "3"),
            insert(holes[3], "4"),
        ];
        let object =
            Object::compose(text(skeleton), inserts, ResourceVersion::single(5), None).unwrap();
        assert_eq!(
            object.bytes(),
            r#"{"first":[1],"metadata":{"resourceVersion":"5","name":"a","more":{"x":2}},"events":[3,4]}"#
        );
    }

    #[test]
    fn a_hole_where_the_host_writes_the_version_is_refused() {
        let skeleton = r#"{"metadata":{"resourceVersion":,"name":"a"}}"#;
        let at = skeleton.find(":,").unwrap() + 1;
        let result = Object::compose(
            text(skeleton),
            vec![insert(at, "1")],
            ResourceVersion::single(5),
            None,
        );
        assert!(
            matches!(result, Err(ObjectError::Malformed(_))),
            "{result:?}"
        );
    }

    #[test]
    fn two_values_in_one_hole_are_refused() {
        let skeleton = r#"{"metadata":{"name":"a"},"events":[]}"#;
        let at = skeleton.find("[]").unwrap() + 1;
        let result = Object::compose(
            text(skeleton),
            vec![insert(at, "1"), insert(at, "2")],
            ResourceVersion::single(5),
            None,
        );
        assert!(
            matches!(result, Err(ObjectError::Malformed(_))),
            "{result:?}"
        );
    }

    #[test]
    fn a_row_is_made_once_for_the_same_columns() {
        let object =
            Object::parse(text(r#"{"metadata":{"name":"a","resourceVersion":"7"}}"#)).unwrap();
        let (columns, others) = (Bytes::from("[1]".to_owned()), Bytes::from("[1]".to_owned()));
        let first = object.row(&columns, Row::default);
        assert!(Arc::ptr_eq(
            &first,
            &object.row(&columns, || unreachable!())
        ));
        assert!(!Arc::ptr_eq(&first, &object.row(&others, Row::default)));
    }

    #[test]
    fn what_is_no_object_is_refused_with_the_missing_member() {
        let parse = |json: &'static str| Object::parse(text(json)).unwrap_err();
        assert_eq!(parse("{}"), ObjectError::Missing("metadata"));
        assert_eq!(
            parse(r#"{"metadata":{}}"#),
            ObjectError::Missing("metadata.name")
        );
        assert_eq!(
            parse(r#"{"metadata":{"name":"a"}}"#),
            ObjectError::Missing("metadata.resourceVersion")
        );
        assert!(matches!(parse("[1"), ObjectError::Malformed(_)));
    }
}
