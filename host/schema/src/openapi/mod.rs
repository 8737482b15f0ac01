//! The OpenAPI documents of the resources that Joinery serves: `/openapi/v2`, `/openapi/v3` and `/openapi/v3/apis/<g>/<v>`.
//!
//! They read as those that kube-apiserver makes of CRDs (apiextensions-apiserver, pkg/controller/openapi), because the
//! aggregator merges v2 documents into the cluster's own: paths, definition names and the shared meta types must fit.

mod convert;
mod gnostic;
mod meta;
mod operation;
mod resource;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha512};

pub use resource::{DocError, ResourceDoc, ResourceSubresource};

pub(crate) use meta::description as object_meta_description;

/// A document as it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// JSON.
    pub body: Bytes,
    /// The same as a message of gnostic-models, with the same tag. None where there is no such message.
    pub protobuf: Option<Bytes>,
    /// Upper-case hex SHA-512 of the body, without the quotes of the header.
    pub etag: String,
}

impl Document {
    fn new(value: &Value, protobuf: Option<fn(&Value) -> Vec<u8>>) -> Self {
        let body = Bytes::from(value.to_string());
        let mut etag = String::with_capacity(128);
        for byte in Sha512::digest(&body) {
            let _ = write!(etag, "{byte:02X}");
        }
        Self {
            body,
            protobuf: protobuf.map(|encode| encode(value).into()),
            etag,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V2,
    V3,
}

impl Version {
    fn reference(self, name: &str) -> String {
        match self {
            Self::V2 => format!("#/definitions/{name}"),
            Self::V3 => format!("#/components/schemas/{name}"),
        }
    }
}

/// The OpenAPI v2 document of all resources.
#[must_use]
pub fn openapi_v2(docs: &[ResourceDoc]) -> Document {
    let document = json!({
        "swagger": "2.0",
        "info": info(),
        "paths": paths(docs, Version::V2),
        "definitions": schemas(docs, Version::V2),
    });
    Document::new(&document, Some(gnostic::encode_v2))
}

/// The OpenAPI v3 document of the resources of one group and version.
#[must_use]
pub fn openapi_v3_group_version(docs: &[ResourceDoc]) -> Document {
    let document = json!({
        "openapi": "3.0.0",
        "info": info(),
        "paths": paths(docs, Version::V3),
        "components": {"schemas": schemas(docs, Version::V3)},
    });
    Document::new(&document, Some(gnostic::encode_v3))
}

/// The OpenAPI v3 root: where the document of each group and version is. The keys are those of
/// [`ResourceDoc::root`].
#[must_use]
pub fn openapi_v3_root(documents: &BTreeMap<String, Document>) -> Document {
    let paths: Map<String, Value> = documents
        .iter()
        .map(|(root, document)| {
            let url = format!("/openapi/v3/{root}?hash={}", document.etag);
            (root.clone(), json!({"serverRelativeURL": url}))
        })
        .collect();
    Document::new(&json!({"paths": paths}), None)
}

fn info() -> Value {
    json!({"title": "Joinery", "version": env!("CARGO_PKG_VERSION")})
}

fn paths(docs: &[ResourceDoc], version: Version) -> Value {
    let mut paths = Map::new();
    for doc in docs {
        operation::insert(doc, version, &mut paths);
    }
    Value::Object(paths)
}

fn schemas(docs: &[ResourceDoc], version: Version) -> Value {
    let mut schemas = meta::definitions(docs, version);
    for doc in docs {
        schemas.insert(doc.definition(), convert::object(doc, version));
        schemas.insert(doc.list_definition(), convert::list(doc, version));
    }
    Value::Object(schemas)
}

#[cfg(test)]
mod tests;
