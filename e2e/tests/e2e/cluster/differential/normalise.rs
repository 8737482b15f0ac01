//! Takes out of an answer what cannot be the same: names of the resources, uids, times of now, and versions.

use serde_json::Value;

use super::answer::{Answer, Body};
use super::target::{Names, PEER};

/// Years that requests do not use for themselves.
const NOW: std::ops::RangeInclusive<u32> = 2024..=2090;

pub(super) fn normalise(answer: &mut Answer, names: &Names, namespace: &str) {
    let text = |text: &str| normalise_text(text, names, namespace);
    for values in answer.headers.values_mut() {
        for value in values {
            *value = text(value);
        }
    }
    match &mut answer.body {
        Body::Json(value) => walk(value, "", names, &text),
        Body::Frames(frames) => {
            // Whether one more comes before the watch runs out is a matter of a server's clock, on either side.
            while frames.last().is_some_and(is_periodic_bookmark) {
                frames.pop();
            }
            for frame in frames {
                walk(frame, "", names, &text);
            }
        }
        Body::Text(whole) => *whole = text(whole),
        Body::Compressed => {}
    }
}

/// A bookmark that does not mark the end of the initial events. Where the mark stands, depends on the representation.
fn is_periodic_bookmark(frame: &Value) -> bool {
    frame["type"] == "BOOKMARK" && !frame.to_string().contains("k8s.io/initial-events-end")
}

fn walk(value: &mut Value, key: &str, names: &Names, text: &impl Fn(&str) -> String) {
    match value {
        Value::String(string) => {
            *string = match key {
                "resourceVersion" if is_version(string) => "VERSION".to_owned(),
                "continue" if !string.is_empty() => "TOKEN".to_owned(),
                _ if is_age(string) => "AGE".to_owned(),
                _ => text(string),
            };
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| walk(item, "", names, text)),
        Value::Object(members) => {
            if names.has_guest && members.contains_key("metadata") {
                drop_conditions_of_guest(members);
            }
            // Lists of custom resources say that there is no more; ours do not.
            if members.get("continue").is_some_and(|token| token == "") {
                members.remove("continue");
            }
            several_causes(members);
            sort_resources(members, names);
            // They are sorted by time, in seconds.
            if let Some(Value::Array(owners)) = members.get_mut("managedFields") {
                owners.sort_by_key(|owner| {
                    ["manager", "operation", "subresource"].map(|name| owner[name].to_string())
                });
            }
            // A key of managedFields may hold a uid.
            for (key, mut value) in std::mem::take(members) {
                walk(&mut value, &key, names, text);
                members.insert(text(&key), value);
            }
        }
        _ => {}
    }
}

/// Go finds what is wrong in the order of a map, which is another each time.
fn several_causes(status: &mut serde_json::Map<String, Value>) {
    let causes = status
        .get_mut("details")
        .and_then(|details| details.get_mut("causes"));
    let Some(Value::Array(causes)) = causes else {
        return;
    };
    if causes.len() < 2 {
        return;
    }
    causes.sort_by_key(Value::to_string);
    // Go validates metadata twice, and tells each cause twice; the message has it once.
    causes.dedup();
    if causes.len() < 2 {
        return;
    }
    if let Some(Value::String(message)) = status.get_mut("message")
        && let Some((what, _)) = message.split_once(" is invalid: ")
    {
        *message = format!("{what} is invalid: …");
    }
}

/// Discovery lists resources in the order of a map, and besides those that are compared whatever else its group has.
fn sort_resources(list: &mut serde_json::Map<String, Value>, names: &Names) {
    let Some(Value::Array(resources)) = list.get_mut("resources") else {
        return;
    };
    let name = |resource: &Value| resource["name"].as_str().unwrap_or_default().to_owned();
    resources.retain(|resource| {
        let name = name(resource);
        let own = name.split('/').next().unwrap_or_default();
        own == names.plural || own == names.cluster_plural
    });
    resources.sort_by_key(name);
    // Two resources of one cluster cannot have the same.
    for resource in resources.iter_mut().filter_map(Value::as_object_mut) {
        resource.remove("shortNames");
    }
}

/// The guest says in conditions of its own what it thinks of a CustomTask.
fn drop_conditions_of_guest(object: &mut serde_json::Map<String, Value>) {
    let Some(Value::Object(status)) = object.get_mut("status") else {
        return;
    };
    let Some(Value::Array(conditions)) = status.get_mut("conditions") else {
        return;
    };
    let before = conditions.len();
    conditions
        .retain(|condition| !matches!(condition["type"].as_str(), Some("Accepted" | "Finished")));
    if conditions.is_empty() && before > 0 {
        status.remove("conditions");
        if status.is_empty() {
            object.remove("status");
        }
    }
}

fn is_version(text: &str) -> bool {
    text.parse::<u64>().is_ok_and(|version| version > 0)
}

/// As the column Age prints it.
fn is_age(text: &str) -> bool {
    text.strip_suffix('s')
        .is_some_and(|number| number.parse::<u8>().is_ok())
}

/// `gen-` and `Gen_` are what requests have as generateName.
fn is_generated(word: &str) -> bool {
    let random = word
        .strip_prefix("gen-")
        .or_else(|| word.strip_prefix("Gen_"));
    random.is_some_and(|random| random.len() == 5)
        || (word.len() == 63 && word.starts_with(&"a".repeat(58)))
}

fn normalise_text(text: &str, names: &Names, namespace: &str) -> String {
    let Names {
        group,
        version,
        kind,
        plural,
        cluster_kind,
        cluster_plural,
        token,
        member,
        ..
    } = *names;
    let mut text = text.replace(namespace, "NAMESPACE");
    // In this order: PeerTask is no part of PeerClusterTask, but ClusterTask is.
    if *names.kind != *PEER.kind {
        text = text
            .replace(group, PEER.group)
            .replace(cluster_kind, PEER.cluster_kind)
            .replace(kind, PEER.kind)
            .replace(cluster_plural, PEER.cluster_plural)
            .replace(plural, PEER.plural);
    }
    if *version != *PEER.version {
        text = text.replace(version, PEER.version);
    }
    if *member != *PEER.member {
        text = text.replace(&format!("spec.{member}"), &format!("spec.{}", PEER.member));
    }
    let text = text.replace(token, "self");
    let text = each_word(&text, |word| {
        if is_uid(word) {
            Some("UID")
        } else if is_time_of_now(word) {
            Some("TIME")
        } else if is_generated(word) {
            Some("GENERATED")
        } else {
            None
        }
    });
    let mut text = text;
    for before in [
        "current: ",
        "does not match the ResourceVersion in record (",
        "ResourceVersion in object meta: ",
        "ResourceVersion in precondition: ",
        "resourceVersion: \"",
        "resource version: ",
        "\"resourceVersion\":\"",
    ] {
        text = number_after(&text, before);
    }
    text
}

/// Words of digits, letters, dashes, colons and dots.
fn each_word(text: &str, replace: impl Fn(&str) -> Option<&'static str>) -> String {
    let of_word = |c: char| c.is_ascii_alphanumeric() || "-:._".contains(c);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !of_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let (core, tail) = word.split_at(word.trim_end_matches(['.', ':']).len());
        out.push_str(replace(core).unwrap_or(core));
        out.push_str(tail);
        let next = after.chars().next().map_or(0, char::len_utf8);
        out.push_str(&after[..next]);
        rest = &after[next..];
    }
    out
}

fn is_uid(word: &str) -> bool {
    word.len() == 36
        && word.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

fn is_time_of_now(word: &str) -> bool {
    word.len() == 20
        && word.ends_with('Z')
        && word.as_bytes()[10] == b'T'
        && word[..4].parse().is_ok_and(|year: u32| NOW.contains(&year))
}

fn number_after(text: &str, before: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(before) {
        let (head, tail) = rest.split_at(at + before.len());
        out.push_str(head);
        let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            out.push('N');
        }
        rest = &tail[digits..];
    }
    out + rest
}

#[test]
fn what_differs_from_run_to_run_is_taken_out() {
    let ours = Names {
        group: "aggregated.tasks.example.com",
        version: "v1",
        kind: "CustomTask",
        plural: "customtasks",
        cluster_kind: "ClusterTask",
        cluster_plural: "clustertasks",
        token: "agg0",
        has_guest: true,
        member: "priority",
    };
    for (text, expected) in [
        (
            "CustomTask.aggregated.tasks.example.com \"x\"",
            "PeerTask.peer.tasks.example.com \"x\"",
        ),
        (
            "uid 0a1b2c3d-0000-4000-8000-000000000000: no",
            "uid UID: no",
        ),
        ("at 2026-11-30T12:00:00Z.", "at TIME."),
        ("until 2099-01-01T00:00:00Z", "until 2099-01-01T00:00:00Z"),
        ("too large: 999, current: 17", "too large: 999, current: N"),
        (
            "clustertasks \"agg0-a\" in x-agg0",
            "peerclustertasks \"self-a\" in NAMESPACE",
        ),
    ] {
        assert_eq!(normalise_text(text, &ours, "x-agg0"), expected);
    }
}
