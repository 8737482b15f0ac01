//! `/metrics`, under the names that k8s.io/apiserver uses.

use std::time::Instant;

use http::{Response, StatusCode};
use joinery_object::Status;
use parking_lot::RwLock;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::body::Body;
use crate::request::{RequestInfo, Target};
use crate::respond;

/// What a request was for. Only names of resources that are served appear, so that no client can make more of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TotalLabels {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    request_kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabels {
    way: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TerminationLabels {
    verb: &'static str,
    code: u16,
}

type Histograms = Family<RequestLabels, Histogram, fn() -> Histogram>;

/// The counters of the server, and the registry that others' are in too.
pub(crate) struct Metrics {
    registry: RwLock<Registry>,
    total: Family<TotalLabels, Counter>,
    duration: Histograms,
    sizes: Histograms,
    inflight: Family<KindLabels, Gauge>,
    long_running: Family<RequestLabels, Gauge>,
    watch_events: Family<RequestLabels, Counter>,
    terminations: Family<TerminationLabels, Counter>,
    attempts: Family<AttemptLabels, Counter>,
    serving_expiry: Gauge,
    client_certificates: Histogram,
}

/// From expired to a year, as k8s.io/apiserver.
const CERTIFICATE_SECONDS: [f64; 14] = [
    0.0,
    1800.0,
    3600.0,
    7200.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
];

fn seconds() -> Histogram {
    Histogram::new([
        0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0,
    ])
}

fn bytes() -> Histogram {
    // 1000 bytes to 10^9, as k8s.io/apiserver.
    Histogram::new((3..10).map(|exponent| 10_f64.powi(exponent)))
}

impl Metrics {
    pub(crate) fn new(mut registry: Registry) -> Self {
        let new = Self {
            registry: RwLock::default(),
            total: Family::default(),
            duration: Family::new_with_constructor(seconds),
            sizes: Family::new_with_constructor(bytes),
            inflight: Family::default(),
            long_running: Family::default(),
            watch_events: Family::default(),
            terminations: Family::default(),
            attempts: Family::default(),
            serving_expiry: Gauge::default(),
            client_certificates: Histogram::new(CERTIFICATE_SECONDS),
        };
        // The library adds `_total` to counters.
        registry.register(
            "apiserver_request",
            "Requests, by verb, resource and code",
            new.total.clone(),
        );
        registry.register(
            "apiserver_request_duration_seconds",
            "Time to the response, watches excluded",
            new.duration.clone(),
        );
        registry.register(
            "apiserver_response_sizes",
            "Bytes of response bodies, watches excluded",
            new.sizes.clone(),
        );
        registry.register(
            "apiserver_current_inflight_requests",
            "Requests being answered, watches excluded",
            new.inflight.clone(),
        );
        registry.register(
            "apiserver_longrunning_requests",
            "Open watches",
            new.long_running.clone(),
        );
        registry.register(
            "apiserver_watch_events",
            "Watch events sent",
            new.watch_events.clone(),
        );
        registry.register(
            "apiserver_request_terminations",
            "Requests that the server gave up in self-defence",
            new.terminations.clone(),
        );
        registry.register(
            "authentication_attempts",
            "Authenticated and rejected requests",
            new.attempts.clone(),
        );
        registry.register(
            "apiserver_serving_certificate_expiration_timestamp_seconds",
            "When the serving certificate ends, in seconds since 1970",
            new.serving_expiry.clone(),
        );
        registry.register(
            "apiserver_client_certificate_expiration_seconds",
            "Remaining life of the client certificates that requests were authenticated with",
            new.client_certificates.clone(),
        );
        *new.registry.write() = registry;
        new
    }

    /// `/metrics`.
    ///
    /// # Errors
    /// 500 when a metric cannot be written.
    pub(crate) fn respond(&self) -> Result<Response<Body>, Status> {
        let mut text = String::new();
        encode(&mut text, &self.registry.read()).map_err(Status::internal)?;
        let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        Ok(respond::with_type(
            StatusCode::OK,
            content_type,
            text.into(),
        ))
    }

    /// What of a request its metrics may carry; `served`: the resource exists.
    pub(crate) fn labels(info: &RequestInfo, served: bool) -> RequestLabels {
        match &info.target {
            Target::Resource(path) if served => RequestLabels {
                verb: info.verb,
                group: path.gvr.group.to_string(),
                version: path.gvr.version.to_string(),
                resource: path.gvr.resource.to_string(),
                subresource: path
                    .subresource
                    .clone()
                    .filter(|s| s == "status")
                    .unwrap_or_default(),
                scope: match (&path.name, &path.namespace) {
                    (Some(_), _) => "resource",
                    (None, Some(_)) => "namespace",
                    (None, None) => "cluster",
                },
            },
            _ => RequestLabels {
                verb: info.verb,
                ..RequestLabels::default()
            },
        }
    }

    /// Counts a request that has been answered.
    pub(crate) fn answered(
        &self,
        labels: &RequestLabels,
        response: &Response<Body>,
        began: Instant,
    ) {
        let code = response.status().as_u16();
        let total = TotalLabels {
            verb: labels.verb,
            group: labels.group.clone(),
            version: labels.version.clone(),
            resource: labels.resource.clone(),
            subresource: labels.subresource.clone(),
            scope: labels.scope,
            code,
        };
        self.total.get_or_create(&total).inc();
        if let Some(len) = response.body().len() {
            self.duration
                .get_or_create(labels)
                .observe(began.elapsed().as_secs_f64());
            #[expect(clippy::cast_precision_loss, reason = "a length in bytes")]
            self.sizes.get_or_create(labels).observe(len as f64);
        }
    }

    /// Counts a request as being answered until dropped.
    pub(crate) fn in_flight(&self, mutating: bool) -> Held {
        let request_kind = if mutating { "mutating" } else { "readOnly" };
        Held::new(
            self.inflight
                .get_or_create(&KindLabels { request_kind })
                .clone(),
        )
    }

    /// Counts an open watch until dropped, and its events.
    pub(crate) fn watch(&self, labels: &RequestLabels) -> (Held, Counter) {
        let gauge = self.long_running.get_or_create(labels).clone();
        (
            Held::new(gauge),
            self.watch_events.get_or_create(labels).clone(),
        )
    }

    /// Counts a request that was refused or given up to protect the server.
    pub(crate) fn terminated(&self, verb: &'static str, code: u16) {
        self.terminations
            .get_or_create(&TerminationLabels { verb, code })
            .inc();
    }

    /// Counts an authentication; none: rejected.
    pub(crate) fn authenticated(&self, way: Option<&'static str>) {
        let labels = AttemptLabels {
            way: way.unwrap_or_default(),
            result: if way.is_some() { "success" } else { "failure" },
        };
        self.attempts.get_or_create(&labels).inc();
    }

    /// A request was authenticated by a certificate that ends then, in seconds since 1970.
    pub(crate) fn client_certificate(&self, end: Option<i64>) {
        if let Some(end) = end {
            let now = jiff::Timestamp::now().as_second();
            #[expect(
                clippy::cast_precision_loss,
                reason = "seconds of a certificate's life"
            )]
            self.client_certificates.observe((end - now) as f64);
        }
    }

    /// The serving certificate ends then, in seconds since 1970.
    pub(crate) fn serving_until(&self, end: i64) {
        self.serving_expiry.set(end);
    }
}

/// A gauge that counts this value.
pub(crate) struct Held(Gauge);

impl Held {
    fn new(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.dec();
    }
}
