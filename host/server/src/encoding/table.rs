//! Tables and PartialObjectMetadata: what kubectl prints and what metadata clients watch.

use bytes::{BufMut as _, Bytes, BytesMut};
use jiff::Timestamp;
use joinery_object::{Object, Query, ResourceVersion, Row, Status};
use joinery_resource::Definition;
use joinery_schema::{Cell, human_duration};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::MetaVersion;
use crate::body::Pieces;

const METADATA_V1: &[u8] = br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","#;
const METADATA_V1BETA1: &[u8] =
    br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1beta1","#;

/// What a Table's rows carry of their objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    /// Reads `?includeObject=`.
    ///
    /// # Errors
    /// 400 for an unknown value.
    pub(crate) fn from_query(query: &Query) -> Result<Self, Status> {
        match query.get("includeObject") {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be \
                 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// Writes Tables of one resource, with ages as of one moment.
pub(crate) struct TableWriter<'a> {
    definition: &'a Definition,
    version: MetaVersion,
    include: IncludeObject,
    now: Timestamp,
}

impl<'a> TableWriter<'a> {
    pub(crate) fn new(
        definition: &'a Definition,
        version: MetaVersion,
        include: IncludeObject,
    ) -> Self {
        Self::as_of(Timestamp::now(), definition, version, include)
    }

    /// With ages as of this moment.
    pub(crate) fn as_of(
        now: Timestamp,
        definition: &'a Definition,
        version: MetaVersion,
        include: IncludeObject,
    ) -> Self {
        Self {
            definition,
            version,
            include,
            now,
        }
    }

    /// The Table up to its first row. `metadata` is a JSON object. Without `headers` the columns are null, as in the
    /// later events of a watch.
    pub(crate) fn begin(&self, out: &mut Pieces, metadata: &[u8], headers: bool) {
        out.write(br#"{"kind":"Table","apiVersion":""#);
        out.write(self.version.api_version().as_bytes());
        out.write(br#"","metadata":"#);
        out.write(metadata);
        out.write(br#","columnDefinitions":"#);
        if headers {
            out.write(self.definition.columns.definitions());
        } else {
            out.write(b"null");
        }
        out.write(br#","rows":["#);
    }

    /// One row. Rows are separated by commas, which are the caller's.
    pub(crate) fn row(&self, out: &mut Pieces, object: &Object) {
        let row = &object.row(self.definition.columns.definitions(), || {
            make_row(self.definition, object)
        });
        out.write(br#"{"cells":["#);
        for (i, text) in row.text.iter().enumerate() {
            out.write(text);
            if let Some(date) = row.dates.get(i) {
                out.write(b"\"");
                out.write(human_duration(self.now.duration_since(*date)).as_bytes());
                out.write(b"\"");
            }
        }
        out.write(b"]");
        match self.include {
            // Go writes a member that holds no object as null.
            IncludeObject::None => out.write(br#","object":null"#),
            IncludeObject::Metadata => {
                out.write(br#","object":"#);
                write_metadata(out, row, self.version);
            }
            IncludeObject::Object => {
                out.write(br#","object":"#);
                for piece in object.pieces() {
                    out.push(piece);
                }
            }
        }
        out.write(b"}");
    }

    /// The rest of the Table.
    pub(crate) fn end(&self, out: &mut Pieces) {
        out.write(b"]}");
    }

    /// The metadata of a Table with one row: the object's version.
    pub(crate) fn version_of(object: &Object) -> Vec<u8> {
        metadata_at(object.resource_version())
    }
}

/// `{"resourceVersion":"…"}`
fn metadata_at(version: &ResourceVersion) -> Vec<u8> {
    format!(r#"{{"resourceVersion":"{version}"}}"#).into_bytes()
}

/// Writes an object as PartialObjectMetadata.
pub(crate) fn partial_metadata(
    out: &mut Pieces,
    definition: &Definition,
    object: &Object,
    version: MetaVersion,
) {
    write_metadata(
        out,
        &object.row(definition.columns.definitions(), || {
            make_row(definition, object)
        }),
        version,
    );
}

fn write_metadata(out: &mut Pieces, row: &Row, version: MetaVersion) {
    match version {
        MetaVersion::V1 => out.push(&row.metadata),
        MetaVersion::V1Beta1 => {
            out.write(METADATA_V1BETA1);
            out.write(row.metadata.get(METADATA_V1.len()..).unwrap_or_default());
        }
    }
}

fn make_row(definition: &Definition, object: &Object) -> Row {
    #[derive(Deserialize)]
    struct Outer<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
    }

    let bytes = object.bytes();
    let mut text = Vec::new();
    let mut dates = Vec::new();
    let mut piece = Vec::new();
    for (i, cell) in definition.columns.cells(&bytes).iter().enumerate() {
        if i > 0 {
            piece.push(b',');
        }
        match cell {
            Cell::Json(json) => piece.extend_from_slice(json),
            Cell::Date(date) => {
                text.push(Bytes::from(std::mem::take(&mut piece)));
                dates.push(*date);
            }
        }
    }
    text.push(piece.into());
    let mut metadata = BytesMut::from(METADATA_V1);
    metadata.put_slice(br#""metadata":"#);
    // An Object's text has been read before, so this cannot fail.
    let raw =
        serde_json::from_slice::<Outer<'_>>(&bytes).map_or("{}", |outer| outer.metadata.get());
    metadata.put_slice(raw.as_bytes());
    metadata.put_slice(b"}");
    Row {
        text,
        dates,
        metadata: metadata.freeze(),
    }
}
