//! What is compared of an answer.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::client;

/// An answer, as a client sees it.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) code: u16,
    /// Those of [`HEADERS`] that are there; all values of one.
    pub(super) headers: BTreeMap<&'static str, Vec<String>>,
    pub(super) body: Body,
}

/// A body in the form in which it is compared.
#[derive(Clone, Debug)]
pub(super) enum Body {
    Json(Value),
    /// The frames of a watch.
    Frames(Vec<Value>),
    Text(String),
    /// What is only told by its length, e.g. gzip.
    Compressed,
}

/// Date, Audit-Id and the like are of one request only; the length follows from the body.
const HEADERS: [&str; 9] = [
    "content-type",
    "warning",
    "retry-after",
    "allow",
    "cache-control",
    "x-content-type-options",
    "content-encoding",
    "vary",
    "location",
];

impl Answer {
    /// The connection is closed instead.
    pub(super) fn none() -> Answer {
        Answer {
            code: 0,
            headers: BTreeMap::new(),
            body: Body::Text("the connection is closed".to_owned()),
        }
    }

    pub(super) fn of(answer: &client::Answer) -> Answer {
        let headers = HEADERS
            .into_iter()
            .filter_map(|name| {
                let mut values: Vec<String> = answer
                    .headers
                    .get_all(name)
                    .iter()
                    .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
                    .collect();
                // The aggregator adds its own to those that it hands on.
                values.dedup();
                (!values.is_empty()).then_some((name, values))
            })
            .collect();
        Answer {
            code: answer.status.as_u16(),
            headers,
            body: body(answer),
        }
    }
}

fn body(answer: &client::Answer) -> Body {
    if answer.headers.contains_key("content-encoding") {
        return Body::Compressed;
    }
    if let Ok(value) = serde_json::from_slice(&answer.body) {
        let value: Value = value;
        return match value.get("type") {
            Some(_) if value.get("object").is_some() => Body::Frames(vec![value]),
            _ => Body::Json(value),
        };
    }
    let text = answer.text();
    // How YAML is quoted and folded is the writer's own affair.
    if answer.content_type() == "application/yaml"
        && let Ok(value) = serde_saphyr::from_str(&text)
    {
        return Body::Json(value);
    }
    let frames: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    match frames {
        Ok(frames) => Body::Frames(frames),
        Err(_) => Body::Text(text),
    }
}
