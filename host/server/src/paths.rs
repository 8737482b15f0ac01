//! What is no resource: discovery, OpenAPI, health, version, metrics.

use http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderValue, Method, Response, StatusCode};
use joinery_object::Status;

use crate::app::App;
use crate::body::{Body, Pieces};
use crate::discovery::{AggregatedVersion, Documents};
use crate::encoding::{Format, clauses, finish, wants_pretty};
use crate::handler::Asked;
use crate::respond;
use crate::version::Version;

const JSON: &str = "application/json";

/// Answers a path that is no resource.
///
/// # Errors
/// 404 for an unknown one, 405 for writing, 406 for what is not JSON.
pub(crate) async fn respond(app: &App, asked: &Asked) -> Result<Response<Body>, Status> {
    let path = asked.path();
    let reading = matches!(asked.parts.method, Method::GET | Method::HEAD);
    if let Some(health) = app.health.respond(path, &asked.query) {
        return if reading {
            health
        } else {
            Err(Status::method_not_allowed())
        };
    }
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let known = matches!(
        segments.as_slice(),
        ["" | "api" | "apis" | "openapi" | "version" | "metrics", ..]
    );
    if known && !reading {
        return Err(Status::method_not_allowed());
    }
    match segments.as_slice() {
        ["openapi", ..] => {
            let snapshot = app.catalog.snapshot();
            app.openapi
                .respond(&snapshot, path, &asked.parts.headers, &asked.query)
                .await
        }
        ["metrics"] if path == "/metrics" => app.metrics.respond(),
        ["version"] => {
            // Always for people, as upstream.
            let version = serde_json::to_vec(&Version::current()).map_err(Status::internal)?;
            finish(
                StatusCode::OK,
                pieces(version),
                Format::Json,
                true,
                &asked.parts.headers,
            )
            .await
        }
        ["api" | "apis", ..] => discovery(app, asked, &segments).await,
        [""] => {
            let paths = serde_json::json!({"paths": root_paths(app)});
            plain(asked, pieces(paths.to_string())).await
        }
        _ => Err(Status::path_not_found()),
    }
}

fn pieces(text: impl Into<bytes::Bytes>) -> Pieces {
    Pieces::from(text.into())
}

fn documents(app: &App) -> std::sync::Arc<Documents> {
    app.discovery.documents(&app.catalog.snapshot())
}

fn root_paths(app: &App) -> Vec<String> {
    let documents = documents(app);
    let mut paths: Vec<String> = [
        "/apis",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
    ]
    .map(str::to_owned)
    .into();
    paths.push("/version".to_owned());
    if documents.core.is_some() {
        paths.push("/api".to_owned());
    }
    for group in documents.group.keys() {
        paths.push(format!("/apis/{group}"));
    }
    for (group, version) in documents.resources.keys() {
        paths.push(match group.as_str() {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        });
    }
    paths.sort();
    paths
}

async fn discovery(app: &App, asked: &Asked, segments: &[&str]) -> Result<Response<Body>, Status> {
    let documents = documents(app);
    let find = |group: &str, version: &str| {
        documents
            .resources
            .get(&(group.to_owned(), version.to_owned()))
            .cloned()
    };
    let json = match *segments {
        ["api"] | ["apis"] => {
            let core = segments == ["api"];
            match wanted_discovery(asked) {
                None => return Err(Status::not_acceptable(&[JSON])),
                Some(Wanted::Aggregated(version)) => {
                    return aggregated(&documents, core, version, asked).await;
                }
                // The aggregator must not take this for the aggregated format, so it says what it is.
                Some(Wanted::Legacy) if core => documents.core.clone(),
                Some(Wanted::Legacy) => Some(documents.groups.clone()),
            }
        }
        ["api", version] => find("", version),
        ["apis", group] => documents.group.get(group).cloned(),
        ["apis", group, version] => find(group, version),
        _ => None,
    };
    match json {
        Some(json) => plain(asked, Pieces::from(json)).await,
        None if !app.health.is_ready() => Err(starting()),
        None => Err(Status::path_not_found()),
    }
}

/// While resources are still being loaded, "not there" would be taken for "gone".
pub(crate) fn starting() -> Status {
    Status::service_unavailable("the server is starting: its resources are not loaded yet")
        .with_retry_after(1)
}

enum Wanted {
    Legacy,
    Aggregated(AggregatedVersion),
}

/// The format of `/api` and `/apis`; none when nothing can be met.
fn wanted_discovery(asked: &Asked) -> Option<Wanted> {
    clauses(&asked.parts.headers).iter().find_map(|clause| {
        if !clause.accepts(JSON) {
            return None;
        }
        match (
            clause.parameter("g"),
            clause.parameter("v"),
            clause.parameter("as"),
        ) {
            ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList") => {
                Some(Wanted::Aggregated(AggregatedVersion::V2))
            }
            ("apidiscovery.k8s.io", "v2beta1", "APIGroupDiscoveryList") => {
                Some(Wanted::Aggregated(AggregatedVersion::V2Beta1))
            }
            (_, _, "") => Some(Wanted::Legacy),
            _ => None,
        }
    })
}

async fn plain(asked: &Asked, document: Pieces) -> Result<Response<Body>, Status> {
    let headers = &asked.parts.headers;
    if !clauses(headers).iter().any(|clause| clause.accepts(JSON)) {
        return Err(Status::not_acceptable(&[JSON]));
    }
    let pretty = wants_pretty(headers, &asked.query);
    finish(StatusCode::OK, document, Format::Json, pretty, headers).await
}

async fn aggregated(
    documents: &Documents,
    core: bool,
    version: AggregatedVersion,
    asked: &Asked,
) -> Result<Response<Body>, Status> {
    let document = documents.aggregated(core, version);
    let headers = &asked.parts.headers;
    let etag = format!("\"{}\"", document.etag);
    let unchanged = headers
        .get(IF_NONE_MATCH)
        .is_some_and(|tag| tag.as_bytes() == etag.as_bytes());
    let mut response = if unchanged {
        let mut response = respond::json(StatusCode::NOT_MODIFIED, bytes::Bytes::new());
        *response.body_mut() = Body::empty();
        response
    } else {
        let json = Pieces::from(document.json.clone());
        finish(
            StatusCode::OK,
            json,
            Format::Json,
            wants_pretty(headers, &asked.query),
            headers,
        )
        .await?
    };
    let content_type = format!(
        "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList",
        version.as_str()
    );
    let headers = response.headers_mut();
    for (name, value) in [(ETAG, etag), (http::header::CONTENT_TYPE, content_type)] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    headers.append(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    Ok(response)
}
