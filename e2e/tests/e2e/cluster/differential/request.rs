//! The recorded requests, as they stand in `requests/*.http`.
//!
//! ```text
//! ### title
//! METHOD path [media type of the body]
//! > Header: value
//! body, to the next title
//! ```
//!
//! Lines that begin with `//` before the first title are comments. `<<…>>` stands for what differs from one server to the next; see
//! `target.rs`; `<<members N>>` and `<<spec N>>` are the same object elsewhere in other members. The media type is one of the short words below, or as it is sent; without one a body is JSON.

use std::fs;
use std::path::Path;

/// Requests that follow each other.
pub(super) struct Scenario {
    /// The file's name without its ending.
    pub(super) name: String,
    pub(super) requests: Vec<Request>,
}

/// One request, with place holders.
#[derive(Debug, PartialEq)]
pub(super) struct Request {
    pub(super) title: String,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Request {
    /// Whether it can be put to any resource with a spec. The others are about this schema, its status, or what has no namespace.
    pub(super) fn fits_any_schema(&self) -> bool {
        const OF_THE_SCHEMA: [&str; 10] = [
            "priority",
            "deadline",
            "details",
            "taskState",
            "clusterTaskRef",
            "conditions",
            "suspended",
            "/status",
            "<<chead>>",
            // It is large by a field.
            "/large",
        ];
        let names = |text: &str| OF_THE_SCHEMA.iter().any(|word| text.contains(word));
        !names(&self.path) && !names(&self.body)
    }
}

/// All scenarios of a folder.
pub(super) fn scenarios(folder: &Path) -> Vec<Scenario> {
    let mut scenarios: Vec<Scenario> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "http")
        })
        .map(|path| Scenario {
            name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            requests: read(&fs::read_to_string(&path).unwrap()),
        })
        .collect();
    scenarios.sort_by(|a, b| a.name.cmp(&b.name));
    scenarios
}

fn read(text: &str) -> Vec<Request> {
    format!("\n{text}")
        .split("\n### ")
        .skip(1)
        .map(one)
        .collect()
}

fn one(text: &str) -> Request {
    let mut lines = text.lines().peekable();
    let title = lines.next().unwrap_or_default().trim().to_owned();
    let line = lines.next().unwrap_or_default();
    let Some((method, rest)) = line.split_once(' ') else {
        panic!("{title}: no request line: {line:?}");
    };
    // Only place holders have spaces in them.
    let (path, media_type) = match rest.rsplit_once(' ') {
        Some((path, word)) if !word.contains(">>") => (path, Some(word)),
        _ => (rest, None),
    };
    let mut headers = Vec::new();
    while let Some(header) = lines.peek().and_then(|line| line.strip_prefix("> ")) {
        let (name, value) = header.split_once(':').unwrap();
        headers.push((name.trim().to_owned(), value.trim().to_owned()));
        lines.next();
    }
    let body = lines.collect::<Vec<_>>().join("\n").trim_end().to_owned();
    let media_type = media_type.unwrap_or(if body.is_empty() { "none" } else { "json" });
    if media_type != "none" {
        headers.push(("Content-Type".to_owned(), full(media_type).to_owned()));
    }
    Request {
        title,
        method: method.to_owned(),
        path: path.to_owned(),
        headers,
        body,
    }
}

fn full(media_type: &str) -> &str {
    match media_type {
        "json" => "application/json",
        "yaml" => "application/yaml",
        "json-patch" => "application/json-patch+json",
        "merge" => "application/merge-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml",
        other => other,
    }
}

#[test]
fn a_request_is_read_with_its_headers_and_body() {
    let text = "// why\n### one\nPATCH <<custom>>/a?x=<<rv a>> merge\n> Accept: a/b\n{\n}\n\n### two\nGET <<custom>>\n";
    let requests = read(text);
    assert_eq!(requests.len(), 2);
    assert_eq!(
        requests[0],
        Request {
            title: "one".to_owned(),
            method: "PATCH".to_owned(),
            path: "<<custom>>/a?x=<<rv a>>".to_owned(),
            headers: vec![
                ("Accept".to_owned(), "a/b".to_owned()),
                (
                    "Content-Type".to_owned(),
                    "application/merge-patch+json".to_owned()
                )
            ],
            body: "{\n}".to_owned(),
        }
    );
    assert!(requests[1].headers.is_empty() && requests[1].body.is_empty());
}
