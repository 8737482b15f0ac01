//! Plays a scenario to one server.

use bytes::Bytes;
use serde_json::{Value, json};

use super::answer::{Answer, Body};
use super::normalise::normalise;
use super::request::Scenario;
use super::target::{Target, Values};
use crate::client::Client;

/// Who owns fields when a request does not say.
const USER_AGENT: (&str, &str) = ("User-Agent", "differential/1 (test)");

/// The answers to all requests in their order, normalised, in a new namespace.
pub(super) fn play(admin: &Client, scenario: &Scenario, target: &Target) -> Vec<Answer> {
    let namespace = format!("{}-{}", scenario.name, target.names.token);
    let body = json!({"metadata": {"name": namespace}}).to_string();
    let json = [("Content-Type", "application/json")];
    let made = admin.send("POST", "/api/v1/namespaces", &json, body);
    assert_eq!(made.status, 201, "{}", made.text());
    let mut values = Values::new(&target.names, &namespace);
    let mut connection = target.client.connect();
    let mut answers = Vec::with_capacity(scenario.requests.len());
    for request in &scenario.requests {
        let path = String::from_utf8(values.fill(&request.path)).unwrap();
        let headers: Vec<(&str, &str)> = std::iter::once(USER_AGENT)
            .chain(
                request
                    .headers
                    .iter()
                    .map(|(n, v)| (n.as_str(), v.as_str())),
            )
            .collect();
        let body = Bytes::from(values.fill(&request.body));
        let sent = connection.send(&request.method, &path, &headers, body.clone());
        let answer = sent.or_else(|_| {
            // The connection may have ended with the answer before.
            connection = target.client.connect();
            connection.send(&request.method, &path, &headers, body.clone())
        });
        let Ok(answer) = answer else {
            connection = target.client.connect();
            answers.push(Answer::none());
            continue;
        };
        // Who did not read a whole body closes the connection.
        if answer.status == 413 || answer.headers.contains_key("connection") {
            connection = target.client.connect();
        }
        let mut answer = Answer::of(&answer);
        if let Body::Json(body) = &answer.body {
            remember(&mut values, body);
        }
        normalise(&mut answer, &target.names, &namespace);
        answers.push(answer);
    }
    admin.send(
        "DELETE",
        &format!("/api/v1/namespaces/{namespace}"),
        &[],
        "",
    );
    answers
}

fn remember(values: &mut Values<'_>, body: &Value) {
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
    let token = values.token();
    let mut see = |key: String, value: Option<&str>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            values.seen.insert(key, value.to_owned());
        }
    };
    if body.get("items").is_some() {
        see("rv".to_owned(), text("/metadata/resourceVersion"));
        see("continue".to_owned(), text("/metadata/continue"));
        return;
    }
    let (Some(name), version) = (text("/metadata/name"), text("/metadata/resourceVersion")) else {
        return;
    };
    let name = name.replace(token, "me");
    see(format!("rv {name}"), version);
    see(format!("uid {name}"), text("/metadata/uid"));
    if let Some(version) = version {
        let first = format!("rv0 {name}");
        values
            .seen
            .entry(first)
            .or_insert_with(|| version.to_owned());
    }
}
