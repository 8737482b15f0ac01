//! Where two answers differ.

use serde_json::Value;

use super::answer::{Answer, Body};

/// One part of an answer that differs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference {
    /// `code`, a header's name, or the path in the body, with `*` for an index.
    pub(super) part: String,
    pub(super) go: String,
    pub(super) ours: String,
}

impl Difference {
    /// Whether it is this part of the answer, or below it.
    pub(super) fn is_within(&self, part: &str) -> bool {
        let below = self.part.strip_prefix(part);
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Whether one is the other's part or has it.
    pub(super) fn overlaps(&self, other: &Difference) -> bool {
        self.is_within(&other.part) || other.is_within(&self.part)
    }
}

/// All of them.
pub(super) fn differences(go: &Answer, ours: &Answer) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut note = |part: &str, go: String, ours: String| {
        found.push(Difference {
            part: part.to_owned(),
            go,
            ours,
        });
    };
    if go.code != ours.code {
        note("code", go.code.to_string(), ours.code.to_string());
    }
    let names: std::collections::BTreeSet<_> =
        go.headers.keys().chain(ours.headers.keys()).collect();
    for name in names {
        let (go, ours) = (go.headers.get(name), ours.headers.get(name));
        if go != ours {
            let show = |values: Option<&Vec<String>>| {
                values.map_or_else(|| NOTHING.to_owned(), |values| values.join("; "))
            };
            note(name, show(go), show(ours));
        }
    }
    match (&go.body, &ours.body) {
        (Body::Json(go), Body::Json(ours)) => walk("body", Some(go), Some(ours), &mut found),
        (Body::Frames(go), Body::Frames(ours)) => {
            let (go, ours) = (Value::from(go.clone()), Value::from(ours.clone()));
            walk("frames", Some(&go), Some(&ours), &mut found);
        }
        (Body::Text(go), Body::Text(ours)) if go == ours => {}
        (Body::Compressed, Body::Compressed) => {}
        (go, ours) => note("body", show(go), show(ours)),
    }
    found
}

const NOTHING: &str = "nothing";

fn walk(path: &str, go: Option<&Value>, ours: Option<&Value>, found: &mut Vec<Difference>) {
    match (go, ours) {
        (Some(Value::Object(go)), Some(Value::Object(ours))) => {
            let names: std::collections::BTreeSet<_> = go.keys().chain(ours.keys()).collect();
            for name in names {
                walk(
                    &format!("{path}/{name}"),
                    go.get(name),
                    ours.get(name),
                    found,
                );
            }
        }
        (Some(Value::Array(go)), Some(Value::Array(ours))) if go.len() == ours.len() => {
            for (go, ours) in go.iter().zip(ours) {
                walk(&format!("{path}/*"), Some(go), Some(ours), found);
            }
        }
        (go, ours) if go == ours => {}
        (go, ours) => found.push(Difference {
            part: path.to_owned(),
            go: text(go),
            ours: text(ours),
        }),
    }
}

fn text(value: Option<&Value>) -> String {
    let text = value.map_or_else(|| NOTHING.to_owned(), Value::to_string);
    cut(&text)
}

fn show(body: &Body) -> String {
    match body {
        Body::Json(value) => cut(&value.to_string()),
        Body::Frames(frames) => cut(&format!("frames {}", Value::from(frames.clone()))),
        Body::Text(text) => cut(&format!("{text:?}")),
        Body::Compressed => "compressed".to_owned(),
    }
}

fn cut(text: &str) -> String {
    const SHOWN: usize = 1200;
    text.chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_that_differs_is_named() {
        let answer = |code, body| Answer {
            code,
            headers: Default::default(),
            body: Body::Json(body),
        };
        let go = answer(200, serde_json::json!({"a": [{"b": 1}], "c": 1}));
        let ours = answer(201, serde_json::json!({"a": [{"b": 2}], "d": 1}));
        let found = differences(&go, &ours);
        let parts: Vec<_> = found.iter().map(|d| d.part.as_str()).collect();
        assert_eq!(parts, ["code", "body/a/*/b", "body/c", "body/d"]);
        assert!(differences(&go, &go).is_empty());
        assert!(found[1].is_within("body/a") && found[1].is_within("body"));
        assert!(!found[1].is_within("body/a/*/b/c") && !found[1].is_within("bod"));
    }
}
