//! `/openapi/v2` and `/openapi/v3`: what kubectl explains and validates by, and the aggregator merges.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use joinery_object::{Query, Status};
use joinery_resource::{Definition, Snapshot};
use joinery_schema::{
    Document, ResourceDoc, ResourceSubresource, StructuralSchema, openapi_v2,
    openapi_v3_group_version, openapi_v3_root,
};
use parking_lot::Mutex;

use crate::body::{Body, Pieces};
use crate::encoding::{clauses, finish_as};

const JSON: &str = "application/json";
/// What client-go asks `/openapi/v2` for (a `@` is no letter of a media type, but it was the first name), and the name
/// that kube-openapi answers with: pkg/handler and pkg/handler3.
const V2_PROTOBUF: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];
const V3_PROTOBUF: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
];

/// The documents of one catalog snapshot.
struct Documents {
    v2: Document,
    v3_root: Document,
    /// By [`ResourceDoc::root`].
    v3: BTreeMap<String, Document>,
}

impl Documents {
    fn new(snapshot: &Snapshot) -> Self {
        let docs: Vec<ResourceDoc> = snapshot
            .resources()
            .filter_map(|(_, resource)| describe(&resource.definition()))
            .collect();
        let mut by_version: BTreeMap<String, Vec<ResourceDoc>> = BTreeMap::new();
        for doc in &docs {
            by_version.entry(doc.root()).or_default().push(doc.clone());
        }
        let v3: BTreeMap<_, _> = by_version
            .into_iter()
            .map(|(key, docs)| (key, openapi_v3_group_version(&docs)))
            .collect();
        Self {
            v2: openapi_v2(&docs),
            v3_root: openapi_v3_root(&v3),
            v3,
        }
    }
}

/// None for a resource whose names would break the document: it is served, but cannot be explained.
fn describe(definition: &Definition) -> Option<ResourceDoc> {
    let schema = match StructuralSchema::parse(&definition.schema) {
        Ok(schema) => schema,
        Err(error) => {
            tracing::warn!(resource = %definition.gvr, %error, "left out of OpenAPI: its schema is not structural");
            return None;
        }
    };
    let doc = ResourceDoc {
        group: definition.gvr.group.to_string(),
        version: definition.gvr.version.to_string(),
        kind: definition.kind.clone(),
        list_kind: definition.list_kind.clone(),
        plural: definition.gvr.resource.to_string(),
        namespaced: definition.namespaced,
        verbs: definition
            .verbs
            .iter()
            .map(|verb| (*verb).to_owned())
            .collect(),
        schema,
        subresources: definition
            .status_subresource
            .then_some(ResourceSubresource::Status)
            .into_iter()
            .collect(),
        selectable_fields: definition
            .selectable_fields
            .iter()
            .map(|path| path.trim_start_matches('.').to_owned())
            .collect(),
    };
    match doc.check() {
        Ok(()) => Some(doc),
        Err(error) => {
            tracing::debug!(resource = %definition.gvr, %error, "left out of OpenAPI");
            None
        }
    }
}

/// Makes the documents when they are first asked for.
#[derive(Default)]
pub(crate) struct OpenApi {
    kept: Mutex<Option<(u64, Arc<Documents>)>>,
}

impl OpenApi {
    fn documents(&self, snapshot: &Snapshot) -> Arc<Documents> {
        let mut kept = self.kept.lock();
        match &*kept {
            Some((revision, documents)) if *revision == snapshot.revision() => documents.clone(),
            _ => {
                let documents = Arc::new(Documents::new(snapshot));
                *kept = Some((snapshot.revision(), documents.clone()));
                documents
            }
        }
    }

    /// Answers the paths below `/openapi`.
    ///
    /// # Errors
    /// 404 for other paths, 406 for what is neither JSON nor the document's protobuf.
    pub(crate) async fn respond(
        &self,
        snapshot: &Snapshot,
        path: &str,
        headers: &HeaderMap,
        query: &Query,
    ) -> Result<Response<Body>, Status> {
        let documents = self.documents(snapshot);
        let (document, protobuf) = match path.trim_end_matches('/') {
            "/openapi/v2" => (&documents.v2, V2_PROTOBUF),
            "/openapi/v3" => (&documents.v3_root, V3_PROTOBUF),
            path => path
                .strip_prefix("/openapi/v3/")
                .and_then(|key| documents.v3.get(key))
                .map(|document| (document, V3_PROTOBUF))
                .ok_or_else(Status::path_not_found)?,
        };
        let (body, content_type) = negotiate(document, protobuf, headers)?;
        let etag = format!("\"{}\"", document.etag);
        // A URL with the hash in it never changes what it means. Go redirects one with an old hash; the aggregator
        // turns every redirect into an error, so the current document is served instead.
        let immutable = query.get("hash") == document.etag;
        let unchanged = headers
            .get(IF_NONE_MATCH)
            .is_some_and(|tag| tag.as_bytes() == etag.as_bytes());
        let mut response = if unchanged {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        } else {
            finish_as(
                StatusCode::OK,
                Pieces::from(body),
                HeaderValue::from_static(content_type),
                headers,
            )
            .await?
        };
        let headers = response.headers_mut();
        if let Ok(etag) = HeaderValue::from_str(&etag) {
            headers.insert(ETAG, etag);
        }
        headers.append(VARY, HeaderValue::from_static("Accept"));
        if immutable {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        }
        Ok(response)
    }
}

/// The text that the client can read, and its type. The root of v3 is JSON for everybody, as upstream.
fn negotiate(
    document: &Document,
    protobuf: [&'static str; 2],
    headers: &HeaderMap,
) -> Result<(Bytes, &'static str), Status> {
    let json = (document.body.clone(), JSON);
    let Some(message) = &document.protobuf else {
        return Ok(json);
    };
    let [deprecated, name] = protobuf;
    for clause in clauses(headers) {
        if clause.accepts(JSON) {
            return Ok(json);
        }
        if clause.accepts(deprecated) || clause.accepts(name) {
            return Ok((message.clone(), name));
        }
    }
    Err(Status::not_acceptable(&[JSON, name]))
}
