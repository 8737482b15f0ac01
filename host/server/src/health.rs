//! `/healthz`, `/livez` and `/readyz`, as k8s.io/apiserver/pkg/server/healthz.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Response, StatusCode};
use joinery_object::{Query, Status};
use parking_lot::RwLock;

use crate::body::Body;
use crate::respond;

/// The answer may have a note for those who ask verbosely; empty for none.
type Check = Arc<dyn Fn() -> Result<String, String> + Send + Sync>;

/// What must hold for this server to be healthy, and to be ready.
#[derive(Default)]
pub struct Health {
    checks: RwLock<Vec<(String, Scope, Check)>>,
    shutting_down: AtomicBool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Live,
    Ready,
}

/// The three endpoints.
const ENDPOINTS: [&str; 3] = ["healthz", "livez", "readyz"];

impl Health {
    /// Healthy and ready.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Adds what must hold for the process to be kept running: `/livez`, `/healthz` and `/readyz`. Checks are asked
    /// on each request, so they only look at what is known.
    pub fn live(&self, name: &str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.add(
            name,
            Scope::Live,
            Arc::new(move || check().map(|()| String::new())),
        );
    }

    /// Adds what must hold for requests to be sent here: `/readyz` only. When it holds, there may still be something to
    /// note: `?verbose` shows it, to everybody.
    pub fn ready(
        &self,
        name: &str,
        check: impl Fn() -> Result<String, String> + Send + Sync + 'static,
    ) {
        self.add(name, Scope::Ready, Arc::new(check));
    }

    fn add(&self, name: &str, scope: Scope, check: Check) {
        self.checks.write().push((name.to_owned(), scope, check));
    }

    /// Whether `/readyz` would say ok.
    pub fn is_ready(&self) -> bool {
        self.run("readyz").iter().all(|(_, result)| result.is_ok())
    }

    /// From now on not ready, so that no more requests are sent here.
    pub(crate) fn shut_down(&self) {
        self.shutting_down.store(true, Ordering::Release);
    }

    fn run(&self, endpoint: &str) -> Vec<(String, Result<String, String>)> {
        let mut results = vec![("ping".to_owned(), Ok(String::new()))];
        for (name, scope, check) in self.checks.read().iter() {
            if endpoint == "readyz" || *scope == Scope::Live {
                results.push((name.clone(), check()));
            }
        }
        if endpoint == "readyz" {
            let result = if self.shutting_down.load(Ordering::Acquire) {
                Err("process is shutting down".to_owned())
            } else {
                Ok(String::new())
            };
            results.push(("shutdown".to_owned(), result));
        }
        results
    }

    /// Answers `/readyz`, `/readyz/<check>` and so on; none for other paths.
    pub(crate) fn respond(
        &self,
        path: &str,
        query: &Query,
    ) -> Option<Result<Response<Body>, Status>> {
        let path = path.trim_matches('/');
        let (endpoint, one) = path
            .split_once('/')
            .map_or((path, None), |(e, c)| (e, Some(c)));
        if !ENDPOINTS.contains(&endpoint) {
            return None;
        }
        let mut results = self.run(endpoint);
        if let Some(one) = one {
            results.retain(|(name, _)| name == one);
            if results.is_empty() {
                return Some(Err(Status::path_not_found()));
            }
        }
        let excluded = query.all("exclude");
        let failed = results
            .iter()
            .any(|(name, result)| result.is_err() && !excluded.contains(name));
        let text = if failed || query.has("verbose") {
            let mut text = String::new();
            for (name, result) in &results {
                // Writing to a String cannot fail.
                let _ = match result {
                    _ if excluded.contains(name) => writeln!(text, "[+]{name} excluded: ok"),
                    Ok(note) if note.is_empty() => writeln!(text, "[+]{name} ok"),
                    Ok(note) => writeln!(text, "[+]{name} ok: {note}"),
                    // Why is in the log only: this is open to everybody.
                    Err(reason) => {
                        tracing::info!(check = %name, %reason, "health check failed");
                        writeln!(text, "[-]{name} failed: reason withheld")
                    }
                };
            }
            let _ = writeln!(
                text,
                "{endpoint} check {}",
                if failed { "failed" } else { "passed" }
            );
            text
        } else {
            "ok".to_owned()
        };
        // 503 rather than Go's 500 when not ready: a balancer then knows that it is not a fault.
        let code = match (failed, endpoint) {
            (false, _) => StatusCode::OK,
            (true, "readyz") => StatusCode::SERVICE_UNAVAILABLE,
            (true, _) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Some(Ok(respond::with_type(
            code,
            "text/plain; charset=utf-8",
            text.into(),
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(health: &Health, path: &str, query: &str) -> (u16, String) {
        let response = health.respond(path, &Query::parse(query)).unwrap().unwrap();
        let code = response.status().as_u16();
        let Body::Pieces(pieces) = response.into_body() else {
            panic!("a stream")
        };
        (
            code,
            String::from_utf8(pieces.into_bytes().to_vec()).unwrap(),
        )
    }

    #[test]
    fn a_failing_check_of_readiness_leaves_liveness_alone() {
        let health = Health::new();
        health.ready("plugins", || Err("none loaded".to_owned()));
        assert_eq!(get(&health, "/livez", ""), (200, "ok".to_owned()));
        let (code, text) = get(&health, "/readyz", "");
        assert_eq!(code, 503);
        assert_eq!(
            text,
            "[+]ping ok\n[-]plugins failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n"
        );
        assert_eq!(
            get(&health, "/readyz", "exclude=plugins"),
            (200, "ok".to_owned())
        );
        assert_eq!(get(&health, "/readyz/ping", "").0, 200);
        assert_eq!(get(&health, "/readyz/plugins", "").0, 503);
        assert!(
            health
                .respond("/readyz/other", &Query::default())
                .unwrap()
                .is_err()
        );
        assert!(health.respond("/other", &Query::default()).is_none());
    }

    #[test]
    fn a_note_is_shown_to_who_asks_for_more() {
        let health = Health::new();
        health.ready("plugins", || Ok("refused: x".to_owned()));
        assert_eq!(get(&health, "/readyz", ""), (200, "ok".to_owned()));
        assert_eq!(
            get(&health, "/readyz", "verbose").1,
            "[+]ping ok\n[+]plugins ok: refused: x\n[+]shutdown ok\nreadyz check passed\n"
        );
    }

    #[test]
    fn shutting_down_is_not_ready_but_alive() {
        let health = Health::new();
        assert!(health.is_ready());
        health.shut_down();
        assert_eq!(get(&health, "/readyz", "").0, 503);
        assert_eq!(
            get(&health, "/healthz", "verbose"),
            (200, "[+]ping ok\nhealthz check passed\n".to_owned())
        );
    }
}
