//! The way of a request: who, may they, what is asked, the resource, how to say it.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use futures::FutureExt as _;
use http::header::EXPECT;
use http::request::Parts;
use http::{Method, Request, Response, Version};
use joinery_object::{Query, Status};
use joinery_resource::Caller;

use crate::app::App;
use crate::authn::{Credentials, FRONT_PROXY, Presented, X509, impersonate};
use crate::body::Body;
use crate::encoding::error_format;
use crate::metrics::{Metrics, RequestLabels};
use crate::request::{RequestInfo, Target, discard};
use crate::{authz, limits, paths, respond, verbs};

/// One request, taken apart, without its body.
pub(crate) struct Asked {
    pub(crate) parts: Parts,
    pub(crate) query: Query,
    pub(crate) info: RequestInfo,
    pub(crate) labels: RequestLabels,
}

impl Asked {
    pub(crate) fn path(&self) -> &str {
        self.parts.uri.path()
    }
}

/// Answers a request; whatever happens there is an answer.
pub(crate) async fn handle<B>(
    app: &App,
    peer: &Presented,
    request: Request<B>,
) -> Result<Response<Body>, Infallible>
where
    B: http_body::Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let began = Instant::now();
    let (parts, body) = request.into_parts();
    let audit_id = respond::audit_id(&parts.headers);
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let info = RequestInfo::new(&parts.method, parts.uri.path(), &query);
    let served = match &info.target {
        Target::Resource(path) => app.catalog.snapshot().find(&path.gvr).is_some(),
        Target::Path => false,
    };
    let asked = Asked {
        labels: Metrics::labels(&info, served),
        parts,
        query,
        info,
    };
    // A panic in one request must not take its connection, which carries those of all other clients.
    let mut body = Box::pin(body);
    let answer = AssertUnwindSafe(answer(app, peer, &asked, body.as_mut()))
        .catch_unwind()
        .await;
    // In HTTP/2 a stream can end by itself; who expects a 100 has sent nothing yet.
    if asked.parts.version < Version::HTTP_2 && !asked.parts.headers.contains_key(EXPECT) {
        discard(body.as_mut()).await;
    }
    let answer = answer.unwrap_or_else(|_| {
        tracing::error!(method = %asked.parts.method, path = asked.path(), "the request panicked");
        Err(Status::internal(
            "the server failed while answering this request; its log has more",
        ))
    });
    let mut response = answer.unwrap_or_else(|status| {
        if status.code >= 500 {
            tracing::warn!(method = %asked.parts.method, path = asked.path(), code = status.code, %status, "request failed");
        }
        respond::error(&status, error_format(&asked.parts.headers))
    });
    respond::complete(&mut response, &audit_id);
    app.metrics.answered(&asked.labels, &response, began);
    tracing::debug!(
        method = %asked.parts.method,
        path = asked.path(),
        verb = asked.info.verb,
        code = response.status().as_u16(),
        took = ?began.elapsed(),
        audit_id = audit_id.to_str().unwrap_or_default(),
        "answered"
    );
    if asked.parts.method == Method::HEAD {
        *response.body_mut() = Body::empty();
    }
    Ok(response)
}

async fn answer<B>(
    app: &App,
    peer: &Presented,
    asked: &Asked,
    body: B,
) -> Result<Response<Body>, Status>
where
    B: http_body::Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let timeout = limits::request_timeout(&asked.query, &app.limits)?;
    let work = async {
        let credentials = Credentials {
            headers: &asked.parts.headers,
            certificates: peer,
        };
        let (user, way) = app
            .authentication
            .authenticate(credentials)
            .await
            .inspect_err(|_| {
                app.metrics.authenticated(None);
            })?;
        app.metrics.authenticated(Some(way));
        if matches!(way, FRONT_PROXY | X509) {
            app.metrics.client_certificate(peer.leaf_ends());
        }
        let user = impersonate(user, &asked.parts.headers, &*app.authorizer).await?;

        let mutating = !matches!(asked.parts.method, Method::GET | Method::HEAD);
        let _place = if asked.info.is_long_running() {
            None
        } else {
            let place = app.places.take(&user, mutating).inspect_err(|status| {
                app.metrics.terminated(asked.info.verb, status.code);
            })?;
            Some((place, app.metrics.in_flight(mutating)))
        };

        let attributes = asked.info.attributes(asked.path(), &asked.query);
        authz::check(&*app.authorizer, &user, &attributes).await?;

        match &asked.info.target {
            Target::Path => paths::respond(app, asked).await,
            Target::Resource(path) => {
                let caller = Caller { user, now: now() };
                verbs::respond(app, asked, path, &caller, body).await
            }
        }
    };
    // Only opening a watch is bounded by this, not the watch itself: its frames come later.
    match tokio::time::timeout(timeout, work).await {
        Ok(answer) => answer,
        Err(_) => {
            app.metrics.terminated(asked.info.verb, 504);
            Err(Status::timeout(
                "request did not complete within the allotted timeout",
            ))
        }
    }
}

/// Milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or_default()
}
