//! Answers that are one document: an object, a list.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use joinery_object::{Object, Query, Status};
use joinery_resource::{Definition, List};
use serde::Serialize;

use super::{
    Format, IncludeObject, Representation, Shape, TableWriter, gzip, partial_metadata, pretty,
};
use crate::body::{Body, Pieces};

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

/// A list in the negotiated shape, as JSON.
///
/// # Errors
/// 400 for bad Table options.
pub(crate) fn encode_list(
    definition: &Definition,
    list: &List,
    representation: Representation,
    query: &Query,
) -> Result<Pieces, Status> {
    let mut out = Pieces::default();
    let metadata = list_metadata(list);
    if let Shape::Table(version) = representation.shape {
        let table = TableWriter::new(definition, version, IncludeObject::from_query(query)?);
        table.begin(&mut out, &metadata, true);
        separated(&mut out, list, |out, object| table.row(out, object));
        table.end(&mut out);
        return Ok(out);
    }
    let (kind, api_version) = match representation.shape {
        Shape::Metadata(version) => ("PartialObjectMetadataList", version.api_version().into()),
        _ => (
            definition.list_kind.as_str(),
            Cow::from(definition.gvr.api_version()),
        ),
    };
    out.write(format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":"#).as_bytes());
    out.write(&metadata);
    out.write(br#","items":["#);
    separated(&mut out, list, |out, object| match representation.shape {
        Shape::Metadata(version) => partial_metadata(out, definition, object, version),
        _ => push_object(out, object),
    });
    out.write(b"]}");
    Ok(out)
}

fn push_object(out: &mut Pieces, object: &Object) {
    for piece in object.rope().pieces() {
        out.push(piece);
    }
}

fn separated(out: &mut Pieces, list: &List, mut each: impl FnMut(&mut Pieces, &Object)) {
    for (i, object) in list.items.iter().enumerate() {
        if i > 0 {
            out.write(b",");
        }
        each(out, object);
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
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    Ok(response)
}

impl From<Pieces> for Bytes {
    fn from(pieces: Pieces) -> Self {
        pieces.into_bytes()
    }
}
