//! Answers that are one document: an object, a list.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use jiff::Timestamp;
use joinery_object::{Object, Query, Status};
use joinery_resource::{Definition, List};
use serde::Serialize;

use super::{
    Format, IncludeObject, MetaVersion, Representation, Shape, TableWriter, gzip, partial_metadata,
    pretty,
};
use crate::body::{Body, Pieces};

/// Lists of fewer objects are written at once.
const FEW: usize = 64;
/// Bytes of an object that is worth compressing by itself.
const LONG: usize = 4096;

/// An object in the negotiated shape, as JSON.
///
/// # Errors
/// 400 for bad Table options.
pub(crate) fn encode_object(
    definition: &Definition,
    object: &Object,
    representation: Representation,
    query: &Query,
) -> Result<Pieces, Status> {
    let mut out = Pieces::default();
    match representation.shape {
        Shape::Object => push_object(&mut out, object),
        Shape::Metadata(version) => partial_metadata(&mut out, definition, object, version),
        Shape::Table(version) => {
            let table = TableWriter::new(definition, version, IncludeObject::from_query(query)?);
            table.begin(&mut out, &TableWriter::version_of(object), true);
            table.row(&mut out, object);
            table.end(&mut out);
        }
    }
    Ok(out)
}

/// A list in the negotiated shape, as JSON, written as it is sent: what is waiting for a client is the objects, which are shared,
/// and not a second copy of them.
pub(crate) struct ListWriter {
    definition: Arc<Definition>,
    shape: Shape,
    include: IncludeObject,
    /// Ages are as of one moment.
    now: Timestamp,
    metadata: Vec<u8>,
    items: Vec<Arc<Object>>,
    /// The next item.
    next: usize,
}

impl ListWriter {
    /// # Errors
    /// 400 for bad Table options.
    pub(crate) fn new(
        definition: Arc<Definition>,
        list: List,
        shape: Shape,
        query: &Query,
    ) -> Result<Self, Status> {
        let include = match shape {
            Shape::Table(_) => IncludeObject::from_query(query)?,
            _ => IncludeObject::default(),
        };
        Ok(Self {
            metadata: list_metadata(&list),
            items: list.items,
            definition,
            shape,
            include,
            now: Timestamp::now(),
            next: 0,
        })
    }

    /// The whole document.
    pub(crate) fn into_pieces(mut self) -> Pieces {
        let mut out = Pieces::default();
        while self.write_next(&mut out) {}
        out
    }

    fn into_body(mut self, len: Option<usize>) -> Body {
        let mut over = false;
        Body::written(len, move |out| {
            if over {
                return false;
            }
            over = !self.write_next(out);
            if over {
                out.write(b"\n");
            }
            true
        })
    }

    /// The list of objects as gzip, put together from what the objects are compressed to.
    fn into_compressed_body(mut self) -> Body {
        let mut member = gzip::Member::default();
        let mut over = false;
        Body::written(None, move |out| {
            if over {
                return false;
            }
            let mut between = Pieces::default();
            if self.next == 0 {
                gzip::Member::begin(out);
                self.begin(&mut between);
            } else if self.next < self.items.len() {
                between.write(b",");
            }
            over = self.next == self.items.len();
            if over {
                self.end(&mut between);
                between.write(b"\n");
            }
            member.text(out, &between.into_bytes());
            match self.items.get(self.next) {
                Some(object) => member.object(out, object),
                None => member.end(out),
            }
            self.next += 1;
            true
        })
    }

    /// How many bytes there will be, where that can be said without writing them.
    fn len(&self) -> Option<usize> {
        let (mut head, mut tail) = (Pieces::default(), Pieces::default());
        self.begin(&mut head);
        self.end(&mut tail);
        let commas = self.items.len().saturating_sub(1);
        let items: usize = self.items.iter().map(|object| object.len()).sum();
        matches!(self.shape, Shape::Object).then(|| head.len() + items + commas + tail.len())
    }

    /// Writes the next item, with what stands around the items. False: that was all.
    fn write_next(&mut self, out: &mut Pieces) -> bool {
        if self.next == 0 {
            self.begin(out);
        }
        let Some(object) = self.items.get(self.next) else {
            self.end(out);
            return false;
        };
        if self.next > 0 {
            out.write(b",");
        }
        match self.shape {
            Shape::Object => push_object(out, object),
            Shape::Metadata(version) => partial_metadata(out, &self.definition, object, version),
            Shape::Table(version) => self.table(version).row(out, object),
        }
        self.next += 1;
        true
    }

    fn begin(&self, out: &mut Pieces) {
        let (kind, api_version) = match self.shape {
            Shape::Table(version) => {
                return self.table(version).begin(out, &self.metadata, true);
            }
            Shape::Metadata(version) => ("PartialObjectMetadataList", version.api_version().into()),
            Shape::Object => (
                self.definition.list_kind.as_str(),
                Cow::from(self.definition.gvr.api_version()),
            ),
        };
        out.write(
            format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":"#).as_bytes(),
        );
        out.write(&self.metadata);
        out.write(br#","items":["#);
    }

    fn end(&self, out: &mut Pieces) {
        out.write(b"]}");
    }

    fn table(&self, version: MetaVersion) -> TableWriter<'_> {
        TableWriter::as_of(self.now, &self.definition, version, self.include)
    }
}

fn push_object(out: &mut Pieces, object: &Object) {
    for piece in object.pieces() {
        out.push(piece);
    }
}

fn list_metadata(list: &List) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct ListMeta<'a> {
        resource_version: String,
        #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
        continue_token: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        remaining_item_count: Option<u64>,
    }

    let metadata = ListMeta {
        resource_version: list.resource_version.to_string(),
        continue_token: list.continue_token.as_deref(),
        remaining_item_count: list.remaining.filter(|_| list.continue_token.is_some()),
    };
    // Strings and a number: this cannot fail.
    serde_json::to_vec(&metadata).unwrap_or_default()
}

/// The response of a list, written as it is sent. What would have to be changed as a whole is written first, and so is what is short.
///
/// # Errors
/// As [`finish`].
pub(crate) async fn finish_list(
    list: ListWriter,
    format: Format,
    indent: bool,
    request: &HeaderMap,
) -> Result<Response<Body>, Status> {
    let plain = matches!(format, Format::Json) && !indent && list.items.len() >= FEW;
    let len = list.len().map(|len| len + 1);
    let accepted = gzip::is_accepted(request);
    let (body, compressed) = match len {
        _ if plain && !accepted => (list.into_body(len), false),
        // What objects compress to is kept. Short ones compress much better together; the other shapes are short.
        Some(len) if plain && len > gzip::THRESHOLD && len / list.items.len() >= LONG => {
            gzip::prepare(&list.items).await;
            (list.into_compressed_body(), true)
        }
        _ => return finish(StatusCode::OK, list.into_pieces(), format, indent, request).await,
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if compressed {
        say_compressed(headers);
    }
    Ok(response)
}

fn say_compressed(headers: &mut HeaderMap) {
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
}

/// The response of a JSON document: in YAML or indented where wanted, compressed where that pays.
///
/// # Errors
/// 500 when the text cannot be written as YAML.
pub(crate) async fn finish(
    status: StatusCode,
    mut document: Pieces,
    format: Format,
    indent: bool,
    request: &HeaderMap,
) -> Result<Response<Body>, Status> {
    let mut content_type = HeaderValue::from_static("application/json");
    match format {
        Format::Yaml => {
            document = pretty::yaml(&document.into_bytes())
                .map_err(Status::internal)?
                .into();
            content_type = HeaderValue::from_static("application/yaml");
        }
        Format::Json if indent => document = pretty::pretty(&document.into_bytes()).into(),
        Format::Json => document.write(b"\n"),
    }
    finish_as(status, document, content_type, request).await
}

/// The response of a finished text, compressed where that pays.
///
/// # Errors
/// 500 when it cannot be compressed.
pub(crate) async fn finish_as(
    status: StatusCode,
    document: Pieces,
    content_type: HeaderValue,
    request: &HeaderMap,
) -> Result<Response<Body>, Status> {
    let compress = document.len() > gzip::THRESHOLD && gzip::is_accepted(request);
    let pieces = if compress {
        let pieces = document.into_pieces();
        match gzip::gzip(pieces).await {
            Some(compressed) => Body::from(compressed),
            None => return Err(Status::internal("the answer could not be compressed")),
        }
    } else {
        Body::Pieces(document)
    };
    let mut response = Response::new(pieces);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type);
    if compress {
        say_compressed(headers);
    }
    Ok(response)
}

impl From<Pieces> for Bytes {
    fn from(pieces: Pieces) -> Self {
        pieces.into_bytes()
    }
}
