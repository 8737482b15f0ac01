//! An API server in memory: get, list, create, update, merge patch and delete of any
//! resource, with resourceVersions as guards, finalizers and generations.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

type Answer = (u16, Value);
type Fault = dyn Fn(&Method, &str) -> Option<Answer> + Send + Sync;

/// The server; clones share one state.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    version: u64,
    calls: Vec<String>,
    fault: Option<Arc<Fault>>,
    /// Requests from now on are never answered.
    hangs: bool,
}

impl Fake {
    pub(crate) fn client(&self) -> Client {
        let fake = self.clone();
        let service = tower::service_fn(move |request| {
            let fake = fake.clone();
            async move { Ok::<_, Infallible>(fake.serve(request).await) }
        });
        Client::new(service, "default")
    }

    /// Makes requests fail for which `fault` has an answer.
    pub(crate) fn fails(
        &self,
        fault: impl Fn(&Method, &str) -> Option<Answer> + Send + Sync + 'static,
    ) {
        self.state.lock().unwrap().fault = Some(Arc::new(fault));
    }

    pub(crate) fn recovers(&self) {
        let mut state = self.state.lock().unwrap();
        state.fault = None;
        state.hangs = false;
    }

    pub(crate) fn hangs(&self) {
        self.state.lock().unwrap().hangs = true;
    }

    /// Stores an object past all rules.
    pub(crate) fn put(&self, path: &str, object: Value) {
        self.state.lock().unwrap().store(path, object);
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.state.lock().unwrap().objects.get(path).cloned()
    }

    pub(crate) fn remove(&self, path: &str) {
        self.state.lock().unwrap().objects.remove(path);
    }

    /// Objects whose path begins with `path` and a slash.
    pub(crate) fn list(&self, path: &str) -> Vec<Value> {
        let prefix = format!("{path}/");
        let state = self.state.lock().unwrap();
        state
            .objects
            .iter()
            .filter(|(key, _)| key.starts_with(&prefix))
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// The requests since the last call, as `METHOD path`.
    pub(crate) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().calls)
    }

    async fn serve(&self, request: Request<Body>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let path = parts.uri.path().to_owned();
        if self.state.lock().unwrap().hangs {
            std::future::pending::<()>().await;
        }
        let (code, answer) = {
            let mut state = self.state.lock().unwrap();
            state.calls.push(format!("{} {path}", parts.method));
            let fault = state.fault.clone();
            match fault.and_then(|fault| fault(&parts.method, &path)) {
                Some(answer) => answer,
                None => state.answer(&parts.method, &path, &body),
            }
        };
        Response::builder()
            .status(code)
            .header("content-type", "application/json")
            .body(Full::new(answer.to_string().into()))
            .unwrap()
    }
}

impl State {
    fn answer(&mut self, method: &Method, path: &str, body: &[u8]) -> Answer {
        let sent: Value = serde_json::from_slice(body).unwrap_or_default();
        if method == Method::POST {
            let path = format!("{path}/{}", sent["metadata"]["name"].as_str().unwrap());
            if self.objects.contains_key(&path) {
                return failure(409, "AlreadyExists", json!({}));
            }
            return (201, self.store(&path, sent));
        }

        let (path, is_status) = match path.strip_suffix("/status") {
            Some(main) => (main, true),
            None => (path, false),
        };
        let Some(known) = self.objects.get(path).cloned() else {
            return failure(404, "NotFound", json!({}));
        };
        if method == Method::GET {
            return (200, known);
        }
        let guard = &sent["metadata"]["resourceVersion"];
        if !guard.is_null() && *guard != known["metadata"]["resourceVersion"] {
            return failure(409, "Conflict", json!({}));
        }

        let mut next = known.clone();
        match *method {
            Method::PUT => next = sent,
            Method::PATCH => json_patch::merge(&mut next, &sent),
            ref other => panic!("unexpected {other} {path}"),
        }
        if is_status {
            let status = next["status"].take();
            next = known.clone();
            next["status"] = status;
        } else {
            next["status"] = known["status"].clone();
        }
        next["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"].clone();
        if next == known {
            return (200, known);
        }
        let going = !next["metadata"]["deletionTimestamp"].is_null();
        if going
            && next["metadata"]["finalizers"]
                .as_array()
                .is_none_or(Vec::is_empty)
        {
            self.objects.remove(path);
            return (200, next);
        }
        (200, self.store(path, next))
    }

    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.objects.insert(path.to_owned(), object.clone());
        object
    }
}

/// A metav1.Status with its code.
pub(crate) fn failure(code: u16, reason: &str, details: Value) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("refused: {reason}"), "reason": reason, "details": details, "code": code,
    });
    (code, status)
}
