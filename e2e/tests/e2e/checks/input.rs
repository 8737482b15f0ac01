//! Bad input gets the answer that kube-apiserver gives: code, reason, and which details. The table says what that is; behind a real control
//! plane the table itself is checked too, against a resource of kube-apiserver's own.

use serde_json::Value;

use crate::client::{Answer, Client};
use crate::fixtures::{TASKS, VIEW};
use crate::shared::Shared;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// Who else is asked.
#[derive(Clone, Copy)]
enum Peer {
    /// Tasks, a custom resource.
    Tasks,
    /// Nobody: the case is the same for every resource, or has no counterpart.
    Nobody,
}

enum Body {
    None,
    Text(&'static str),
    /// An object of the resource, with this in place of its spec and these metadata.
    Object {
        metadata: &'static str,
        spec: &'static str,
    },
    /// More than the 3 MiB that a request may have, and not so much more that kube-apiserver closes the connection over it.
    Oversized,
}

use Body::{None as NoBody, Object, Oversized, Text};

struct Case {
    what: &'static str,
    peer: Peer,
    method: &'static str,
    /// After `…/namespaces/default/RESOURCE`.
    path: &'static str,
    content_type: &'static str,
    body: Body,
    code: u16,
    reason: &'static str,
    /// The keys of `details`.
    details: &'static [&'static str],
}

const STRATEGIC: &str = "application/strategic-merge-patch+json";

const GOOD: &str = r#"{"priority":1,"deadline":"2099-01-01T00:00:00Z"}"#;
const TOO_MUCH: &str = r#"{"priority":99,"deadline":"2099-01-01T00:00:00Z"}"#;
const NO_NUMBER: &str = r#"{"priority":"high","deadline":"2099-01-01T00:00:00Z"}"#;
const UNKNOWN: &str = r#"{"priority":1,"deadline":"2099-01-01T00:00:00Z","nosuch":1}"#;

impl Case {
    const fn asking(self, peer: Peer) -> Case {
        Case { peer, ..self }
    }

    const fn with(self, content_type: &'static str) -> Case {
        Case {
            content_type,
            ..self
        }
    }
}

const fn reading(
    what: &'static str,
    path: &'static str,
    code: u16,
    reason: &'static str,
    details: &'static [&'static str],
) -> Case {
    Case {
        what,
        peer: Peer::Tasks,
        method: "GET",
        path,
        content_type: "",
        body: NoBody,
        code,
        reason,
        details,
    }
}

const fn writing(
    what: &'static str,
    method: &'static str,
    path: &'static str,
    body: Body,
    code: u16,
    reason: &'static str,
    details: &'static [&'static str],
) -> Case {
    Case {
        what,
        peer: Peer::Tasks,
        method,
        path,
        content_type: JSON,
        body,
        code,
        reason,
        details,
    }
}

/// Needed for the causes of a 422: which field, and why.
const CAUSES: &[&str] = &["causes", "group", "kind"];
const NAMED_CAUSES: &[&str] = &["causes", "group", "kind", "name"];
/// Which resource.
const GROUP_AND_KIND: &[&str] = &["group", "kind"];
/// Which object.
const NAMED: &[&str] = &["group", "kind", "name"];
const X: &str = r#"{"name":"x"}"#;

#[rustfmt::skip]
const READING: &[Case] = &[
    reading("an object that is not there", "/nosuch", 404, "NotFound", NAMED),
    reading("a name that cannot be", "/..%2F", 400, "BadRequest", &[]).asking(Peer::Nobody),
    reading("a name with a percent sign", "/a%25b", 400, "BadRequest", &[]),
    reading("a name with a query in it", "/x%3Fwatch=1", 404, "NotFound", NAMED),
    reading("a name with a line break", "/x%0d%0a", 404, "NotFound", NAMED),
    reading("a malformed label selector", "?labelSelector=a%20in%20(", 400, "BadRequest", &[]),
    reading("a field that cannot be selected", "?fieldSelector=spec.nosuch%3D1", 400, "BadRequest", &[]),
    reading("a malformed field selector", "?fieldSelector=abc", 400, "BadRequest", &[]),
    reading("a limit that is no number", "?limit=x", 400, "BadRequest", &[]),
    reading("a timeout that is no number", "?timeoutSeconds=x", 400, "BadRequest", &[]),
    reading("a resourceVersion that is no number", "?resourceVersion=abc", 400, "BadRequest", &[]),
    reading("a continue token from nowhere", "?continue=abc", 400, "BadRequest", &[]),
    reading("a match without a resourceVersion", "?resourceVersionMatch=Exact", 422, "Invalid", CAUSES),
    reading("an unknown match", "?resourceVersion=1&resourceVersionMatch=Foo", 422, "Invalid", CAUSES),
    reading("initial events without a match", "?watch=true&sendInitialEvents=true&timeoutSeconds=1", 422, "Invalid", CAUSES),
    reading("a subresource that is not there", "/nosuch/nosuch", 404, "NotFound", NAMED),
];

/// For a view, which cannot be written.
#[rustfmt::skip]
const WRONG_VERBS: &[Case] = &[
    writing("create", "POST", "", Object { metadata: X, spec: GOOD }, 405, "MethodNotAllowed", GROUP_AND_KIND).asking(Peer::Nobody),
    writing("replace", "PUT", "/x", Object { metadata: X, spec: GOOD }, 405, "MethodNotAllowed", GROUP_AND_KIND).asking(Peer::Nobody),
    writing("patch", "PATCH", "/x", Text("{}"), 405, "MethodNotAllowed", GROUP_AND_KIND).with(MERGE).asking(Peer::Nobody),
    writing("delete", "DELETE", "/x", NoBody, 405, "MethodNotAllowed", GROUP_AND_KIND).asking(Peer::Nobody),
    writing("delete all", "DELETE", "", NoBody, 405, "MethodNotAllowed", GROUP_AND_KIND).asking(Peer::Nobody),
    writing("replace a collection", "PUT", "", Text("{}"), 405, "MethodNotAllowed", GROUP_AND_KIND).asking(Peer::Nobody),
];

#[rustfmt::skip]
const WRITING: &[Case] = &[
    writing("replacing a collection", "PUT", "", Text("{}"), 405, "MethodNotAllowed", GROUP_AND_KIND).asking(Peer::Nobody),
    writing("truncated JSON", "POST", "", Text("{"), 400, "BadRequest", &[]),
    writing("a body of unknown type", "POST", "", Object { metadata: X, spec: GOOD }, 415, "UnsupportedMediaType", &[]).with("text/plain"),
    writing("another group", "POST", "", Text(r#"{"apiVersion":"v1","kind":"Task","metadata":{"name":"x"}}"#), 400, "BadRequest", &[]),
    writing("another namespace", "POST", "", Object { metadata: r#"{"name":"x","namespace":"other"}"#, spec: GOOD }, 400, "BadRequest", &[]),
    writing("no name", "POST", "", Object { metadata: "{}", spec: GOOD }, 422, "Invalid", CAUSES),
    writing("a name that is none", "POST", "", Object { metadata: r#"{"name":"X_"}"#, spec: GOOD }, 422, "Invalid", NAMED_CAUSES),
    writing("a value out of bounds", "POST", "", Object { metadata: X, spec: TOO_MUCH }, 422, "Invalid", NAMED_CAUSES),
    writing("a value of another type", "POST", "", Object { metadata: X, spec: NO_NUMBER }, 422, "Invalid", NAMED_CAUSES),
    writing("an oversized body", "POST", "", Oversized, 413, "RequestEntityTooLarge", &[]),
    writing("an unknown dryRun", "POST", "?dryRun=foo", Object { metadata: X, spec: GOOD }, 422, "Invalid", CAUSES),
    writing("an unknown field", "POST", "?fieldValidation=Strict", Object { metadata: X, spec: UNKNOWN }, 400, "BadRequest", &[]),
    writing("a patch of unknown type", "PATCH", "/x", Text("{}"), 415, "UnsupportedMediaType", &[]).with("text/plain"),
    writing("a strategic patch", "PATCH", "/x", Text("{}"), 415, "UnsupportedMediaType", &[]).with(STRATEGIC),
    writing("a patch of what is not there", "PATCH", "/x", Text("{}"), 404, "NotFound", NAMED).with(MERGE),
    writing("another name", "PUT", "/x", Object { metadata: r#"{"name":"other"}"#, spec: GOOD }, 400, "BadRequest", &[]),
    writing("deleting what is not there", "DELETE", "/x", NoBody, 404, "NotFound", NAMED),
];

pub(crate) fn bad_reads_of_a_view_are_answered_as_kube_apiserver_answers(environment: &Shared) {
    let _gate = environment.in_common();
    check(
        environment,
        "combinedtasks",
        "CombinedTask",
        READING.iter().chain(WRONG_VERBS),
    );
}

pub(crate) fn bad_requests_for_a_stored_resource_are_answered_as_kube_apiserver_answers(
    environment: &Shared,
) {
    let _gate = environment.in_common();
    check(
        environment,
        "customtasks",
        "CustomTask",
        READING.iter().chain(WRITING),
    );
}

/// Nothing of ours is at the path: as for a built-in group.
pub(crate) fn an_unknown_resource_is_not_found_with_a_status(environment: &Shared) {
    let _gate = environment.in_common();
    for client in clients(environment) {
        for path in [
            "/nosuch",
            "/namespaces/default/nosuch",
            "/namespaces/default/nosuch/name",
        ] {
            let answer = client.get(&format!("{VIEW}{path}"));
            assert_eq!(
                shape(&answer),
                "404 NotFound []",
                "{path}: {}",
                answer.text()
            );
        }
        let answer = client.send(
            "GET",
            &format!("{VIEW}/combinedtasks"),
            &[("Accept", "application/xml")],
            "",
        );
        assert!(
            shape(&answer).starts_with("406 NotAcceptable"),
            "{}",
            answer.text()
        );
    }
}

fn check<'a>(
    environment: &Shared,
    resource: &str,
    kind: &str,
    cases: impl Iterator<Item = &'a Case>,
) {
    let mut wrong = Vec::new();
    let clients = clients(environment);
    for case in cases {
        let expected = format!("{} {} {:?}", case.code, case.reason, case.details);
        let ours = format!("{VIEW}/namespaces/default/{resource}");
        let mut asked: Vec<(&Client, String, Value)> = clients
            .iter()
            .map(|client| (client, ours.clone(), head(VIEW, kind)))
            .collect();
        if environment.front_proxy().is_some() {
            match case.peer {
                Peer::Tasks => asked.push((
                    &clients[0],
                    format!("{TASKS}/namespaces/default/tasks"),
                    head(TASKS, "Task"),
                )),
                Peer::Nobody => {}
            }
        }
        for (client, base, head) in asked {
            let headers: &[(&str, &str)] = if case.content_type.is_empty() {
                &[]
            } else {
                &[("Content-Type", case.content_type)]
            };
            let answer = client.send(
                case.method,
                &format!("{base}{}", case.path),
                headers,
                body(&case.body, head),
            );
            let found = shape(&answer);
            if found != expected {
                wrong.push(format!(
                    "{}: {} {base}{}: expected {expected}, got {found}: {}",
                    case.what,
                    case.method,
                    case.path,
                    answer.text()
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} answers differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Through kube-apiserver and straight to the host; in standalone both are the same.
fn clients(environment: &Shared) -> Vec<Client> {
    let mut clients = vec![Client::admin(environment)];
    if environment.front_proxy().is_some() {
        clients.push(Client::direct(environment));
    }
    clients
}

fn head(group_version: &str, kind: &str) -> Value {
    serde_json::json!({ "apiVersion": group_version.trim_start_matches("/apis/"), "kind": kind })
}

fn body(body: &Body, mut head: Value) -> Vec<u8> {
    match body {
        NoBody => Vec::new(),
        Text(text) => text.as_bytes().to_vec(),
        Object { metadata, spec } => {
            head["metadata"] = serde_json::from_str(metadata).unwrap();
            head["spec"] = serde_json::from_str(spec).unwrap();
            head.to_string().into_bytes()
        }
        Oversized => {
            format!(r#"{{"padding":"{}"}}"#, "x".repeat((3 << 20) + (64 << 10))).into_bytes()
        }
    }
}

/// What clients go by: code, reason and the keys of the details. Anything but a whole metav1.Status in JSON is spelled out instead.
fn shape(answer: &Answer) -> String {
    let code = answer.status.as_u16();
    let Ok(status) = serde_json::from_slice::<Value>(&answer.body) else {
        return format!("{code} no JSON");
    };
    let whole = status["kind"] == "Status"
        && status["apiVersion"] == "v1"
        && status["status"] == "Failure"
        && status["code"] == code
        && status["message"]
            .as_str()
            .is_some_and(|message| !message.is_empty())
        && answer.content_type() == JSON;
    if !whole {
        return format!("{code} no Status ({})", answer.content_type());
    }
    let mut keys: Vec<&str> = status["details"]
        .as_object()
        .map(|details| details.keys().map(String::as_str).collect())
        .unwrap_or_default();
    keys.sort_unstable();
    format!(
        "{code} {} {keys:?}",
        status["reason"].as_str().unwrap_or_default()
    )
}
