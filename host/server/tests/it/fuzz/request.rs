//! Good requests, and what may be wrong with them.

use std::fmt;

use bytes::Bytes;
use serde_json::{Value, json};

use super::dice::Dice;

const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A request.
pub struct Sent {
    pub method: String,
    /// Path and query.
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            method,
            target,
            headers,
            body,
        } = self;
        let body = String::from_utf8_lossy(&body[..body.len().min(400)]);
        write!(f, "{method} {target} {headers:?} {body}")
    }
}

impl Sent {
    /// Mostly a good request with one or a few faults.
    pub fn random(dice: &mut Dice) -> Self {
        let mut sent = Self::good(dice);
        for _ in 0..dice.below(4) {
            match dice.below(6) {
                0 => sent.spoil_path(dice),
                1 | 2 => sent.spoil_query(dice),
                3 => sent.spoil_method(dice),
                4 => sent.spoil_headers(dice),
                _ => sent.spoil_body(dice),
            }
        }
        sent.target = sendable(&sent.target);
        sent.headers.retain(|(_, value)| {
            let bytes = value.bytes();
            bytes.clone().all(|byte| (32..127).contains(&byte))
        });
        sent
    }

    /// Whether the answer may go on without an end: a watch.
    pub fn may_stream(&self) -> bool {
        self.method == "GET" && self.target.contains("watch")
    }

    /// As bytes of HTTP/1.1.
    pub fn raw(&self) -> Vec<u8> {
        let mut raw = format!(
            "{} {} HTTP/1.1\r\nhost: localhost\r\n",
            self.method, self.target
        );
        for (name, value) in &self.headers {
            raw.push_str(&format!("{name}: {value}\r\n"));
        }
        raw.push_str(&format!("content-length: {}\r\n\r\n", self.body.len()));
        let mut raw = raw.into_bytes();
        raw.extend_from_slice(&self.body);
        raw
    }

    fn new(method: &str, target: &str, content_type: &str, body: &Value) -> Self {
        let token = ("authorization".to_owned(), "Bearer admin-token".to_owned());
        let mut headers = vec![token];
        if !content_type.is_empty() {
            headers.push(("content-type".to_owned(), content_type.to_owned()));
        }
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers,
            body: if body.is_null() {
                Bytes::new()
            } else {
                body.to_string().into()
            },
        }
    }

    fn good(dice: &mut Dice) -> Self {
        let name = dice.pick(&["a", "b", "c", "d"]);
        let one = format!("{WIDGETS}/{name}");
        let none = &Value::Null;
        let widget = widget(name);
        match dice.below(24) {
            0 => Self::new("GET", WIDGETS, "", none),
            1 => Self::new("GET", "/apis/example.com/v1/widgets?limit=1", "", none),
            2 => Self::new("GET", &one, "", none),
            3..=5 => Self::new("POST", WIDGETS, JSON, &widget),
            6 => {
                let mut widget = widget;
                widget["metadata"] = json!({"generateName": "g-"});
                let target = format!("{WIDGETS}?dryRun=All");
                Self::new("POST", &target, JSON, &widget)
            }
            7 => Self::new("PUT", &one, JSON, &widget),
            8 => Self::new("PUT", &format!("{one}/status"), JSON, &widget),
            9 => Self::new("PATCH", &one, MERGE, &json!({"spec": {"size": 3}})),
            10 => {
                let patch = json!([{"op": "replace", "path": "/spec/size", "value": 5}]);
                Self::new("PATCH", &one, "application/json-patch+json", &patch)
            }
            11 | 12 => {
                let target = format!("{one}?fieldManager=fuzz&force=true");
                Self::new("PATCH", &target, APPLY, &widget)
            }
            13 => {
                let target = format!("{one}/status?fieldManager=fuzz");
                Self::new("PATCH", &target, APPLY, &widget)
            }
            14 => {
                let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
                Self::new("DELETE", &one, JSON, &options)
            }
            15 => {
                let target = format!("{WIDGETS}?labelSelector=n%3D{name}");
                Self::new("DELETE", &target, "", none)
            }
            16 => {
                let target = format!("{WIDGETS}?watch=true&allowWatchBookmarks=true");
                Self::new("GET", &target, "", none)
            }
            17 => {
                let namespace =
                    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
                Self::new("POST", "/api/v1/namespaces", JSON, &namespace)
            }
            18 => Self::new("DELETE", &format!("/api/v1/namespaces/{name}"), "", none),
            19 => {
                let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name},
                    "involvedObject": {"namespace": "default", "name": "x"}, "reason": "Fuzz", "count": 1});
                Self::new("POST", "/api/v1/namespaces/default/events", JSON, &event)
            }
            20 => {
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}});
                Self::new("POST", "/api/v1/namespaces/default/configmaps", JSON, &map)
            }
            21 => {
                let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                    "spec": {"resourceAttributes": {"verb": "get", "resource": "widgets"}}});
                let target = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
                Self::new("POST", target, JSON, &review)
            }
            22 => {
                let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
                    "spec": {"holderIdentity": "x", "renewTime": "2026-01-01T00:00:00.000000Z"}});
                let target = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
                Self::new("POST", target, JSON, &lease)
            }
            _ => {
                let target = dice.pick(&[
                    "/",
                    "/api",
                    "/apis",
                    "/api/v1",
                    "/apis/example.com",
                    "/apis/example.com/v1",
                    "/openapi/v2",
                    "/openapi/v3",
                    "/openapi/v3/apis/example.com/v1",
                    "/version",
                    "/api/v1/namespaces",
                ]);
                Self::new("GET", target, "", none)
            }
        }
    }

    fn spoil_path(&mut self, dice: &mut Dice) {
        let (path, query) = split(&self.target);
        let mut segments: Vec<String> = path.split('/').skip(1).map(str::to_owned).collect();
        let at = dice.below(segments.len());
        match dice.below(6) {
            0 => segments[at] = dice.scrap(),
            1 => segments.insert(at, dice.scrap()),
            2 => drop(segments.remove(at)),
            3 => segments.push(
                dice.pick(&["status", "scale", "finalize", "", "x"])
                    .to_owned(),
            ),
            4 => segments.truncate(at + 1),
            _ => segments[at].push_str(&dice.scrap()),
        }
        self.target = format!("/{}{query}", segments.join("/"));
    }

    fn spoil_query(&mut self, dice: &mut Dice) {
        let name = dice.pick(&[
            "watch",
            "limit",
            "continue",
            "resourceVersion",
            "resourceVersionMatch",
            "labelSelector",
            "fieldSelector",
            "timeoutSeconds",
            "sendInitialEvents",
            "allowWatchBookmarks",
            "dryRun",
            "fieldManager",
            "fieldValidation",
            "force",
            "propagationPolicy",
            "gracePeriodSeconds",
            "orphanDependents",
            "pretty",
            "includeObject",
            "timeout",
            "",
            "nosuch",
        ]);
        let value = match dice.below(3) {
            0 => dice.scrap(),
            _ => dice
                .pick(&[
                    "true",
                    "false",
                    "0",
                    "1",
                    "3",
                    "-1",
                    "All",
                    "Exact",
                    "NotOlderThan",
                    "Strict",
                    "Warn",
                    "Ignore",
                    "Foreground",
                    "Orphan",
                    "5s",
                    "99999h",
                    "Metadata",
                    "None",
                    "eyJ2IjoxfQ",
                    "metadata.namespace=default",
                    "n in (a,b)",
                ])
                .to_owned(),
        };
        let value = value.replace(['&', '#', ' '], "+");
        let separator = if self.target.contains('?') { '&' } else { '?' };
        self.target.push_str(&format!("{separator}{name}={value}"));
    }

    fn spoil_method(&mut self, dice: &mut Dice) {
        let methods = [
            "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW", "get",
        ];
        self.method = dice.pick(&methods).to_owned();
    }

    fn spoil_headers(&mut self, dice: &mut Dice) {
        let (name, values): (&str, &[&str]) = match dice.below(9) {
            0 => (
                "accept",
                &[
                    "*/*",
                    "",
                    "application/json;as=Table;v=v1;g=meta.k8s.io",
                    "application/json;as=Table;v=v9;g=meta.k8s.io",
                    "application/yaml",
                    "application/vnd.kubernetes.protobuf",
                    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
                    "text/html",
                    "application/json;q=0",
                    ";;;",
                    "application/json;as=Table;g=meta.k8s.io;v=v1,application/yaml",
                    "application/json;stream=watch",
                    "application/cbor",
                ],
            ),
            1 | 2 => (
                "content-type",
                &[
                    "",
                    "application/yaml",
                    "text/plain",
                    "application/vnd.kubernetes.protobuf",
                    "application/strategic-merge-patch+json",
                    MERGE,
                    APPLY,
                    "application/json-patch+json",
                    "application/json; charset=utf-16",
                    ";",
                    "multipart/form-data; boundary=x",
                ],
            ),
            3 => ("accept-encoding", &["gzip", "br", "gzip;q=0", "*", ",,,"]),
            4 => ("content-encoding", &["gzip", "identity", "x"]),
            5 => ("impersonate-user", &["nobody", "", "system:masters"]),
            6 => ("if-none-match", &["*", "\"x\"", "x"]),
            7 => ("x-remote-user", &["admin", ""]),
            _ => (
                "authorization",
                &["Bearer nosuch", "Basic YTpi", "Bearer", ""],
            ),
        };
        self.headers.retain(|(there, _)| there != name);
        self.headers
            .push((name.to_owned(), dice.pick(values).to_owned()));
    }

    fn spoil_body(&mut self, dice: &mut Dice) {
        self.body = match (dice.below(8), serde_json::from_slice::<Value>(&self.body)) {
            (0, _) => dice.spoil(self.body.to_vec()).into(),
            (1, _) => dice.value(3).to_string().into(),
            (2, _) => {
                let depth = 1 + dice.below(20_000);
                let text = dice.pick(&["[", "{\"a\":", "{\"spec\":{\"free\":", "- ", "a: {"]);
                text.repeat(depth).into()
            }
            (3, _) => dice
                .pick(&[
                    "a: &a [x,x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nd: [*c,*c,*c,*c]\n", "---\n---\n", "k8s\0\n", "\u{feff}{}",
                    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {size: 1}\n", "!!binary x", "{\"a\":1,\"a\":2}",
                    "[{\"op\":\"move\",\"from\":\"/\",\"path\":\"/spec\"}]", "[{\"op\":\"test\",\"path\":\"/spec/size\",\"value\":99}]",
                    "[{\"op\":\"remove\",\"path\":\"/metadata\"}]", "[{\"op\":\"add\",\"path\":\"/metadata/name\",\"value\":{}}]",
                ])
                .to_owned()
                .into(),
            (_, Ok(mut value)) => {
                for _ in 0..=dice.below(3) {
                    dice.disturb(&mut value);
                }
                value.to_string().into()
            }
            (_, Err(_)) => dice.spoil(self.body.to_vec()).into(),
        };
    }
}

fn widget(name: &str) -> Value {
    json!({
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {
            "name": name, "labels": {"n": name}, "annotations": {"a": "b"}, "finalizers": [],
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1"}],
        },
        "spec": {
            "size": 1, "color": "red", "port": "http", "when": "2026-01-01T00:00:00Z", "set": ["a", "b"],
            "list": [{"name": "a", "n": 1}, {"name": "b", "n": 2.5}], "free": {"x": [1, {"y": null}]},
        },
        "status": {"seen": 1},
    })
}

fn split(target: &str) -> (&str, String) {
    match target.split_once('?') {
        Some((path, query)) => (path, format!("?{query}")),
        None => (target, String::new()),
    }
}

/// With what no client library would send escaped.
fn sendable(target: &str) -> String {
    let mut out = String::new();
    for byte in target.bytes() {
        if byte.is_ascii_graphic() && !b"\"<>\\^`{|}#".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
