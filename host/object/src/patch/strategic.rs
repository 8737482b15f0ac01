//! Strategic merge patch, for the built-in kinds: what kubectl sends when it applies, edits or patches one of them.
//!
//! It is a JSON merge patch but for some lists, whose items are merged, and for directives, which are keys that begin
//! with `$`. Kubernetes takes the lists from tags of its Go types; here they are those of the kinds that Joinery serves
//! in a cluster's stead. Follows k8s.io/apimachinery's `strategicpatch`, whose documentation is
//! kubernetes/community's strategic-merge-patch.md.

use serde_json::{Map, Value};

use crate::Status;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList/";

/// How the items of a list are told apart.
#[derive(Clone, Copy)]
enum Items {
    /// By this member of theirs.
    ByKey(&'static str),
    /// By themselves.
    Primitive,
}

/// The lists that are merged, by their paths; all others are replaced.
const MERGED: [(&[&str], Items); 3] = [
    (&["metadata", "finalizers"], Items::Primitive),
    (&["metadata", "ownerReferences"], Items::ByKey("uid")),
    (&["status", "conditions"], Items::ByKey("type")),
];

/// Applies `patch` (JSON text) to `object`.
///
/// # Errors
/// 400 when the patch is not a JSON object or a directive is malformed; `object` is then as it was.
pub fn strategic_merge_patch(object: &mut Value, patch: &[u8]) -> Result<(), Status> {
    let patch: Value = serde_json::from_slice(patch).map_err(undecodable)?;
    let Value::Object(patch) = patch else {
        return Err(undecodable("a strategic merge patch must be a JSON object"));
    };
    let mut merged = object.as_object().cloned().unwrap_or_default();
    merge_object(&mut merged, patch, &mut Vec::new())?;
    *object = merged.into();
    Ok(())
}

fn undecodable(what: impl std::fmt::Display) -> Status {
    Status::bad_request(format!("error decoding patch: {what}"))
}

fn merge_object(
    object: &mut Map<String, Value>,
    mut patch: Map<String, Value>,
    path: &mut Vec<String>,
) -> Result<(), Status> {
    match directive(&mut patch)?.as_deref() {
        Some("replace") => {
            *object = patch;
            return Ok(());
        }
        Some("delete") => {
            object.clear();
            return Ok(());
        }
        _ => {}
    }
    if let Some(keys) = patch.remove(RETAIN_KEYS) {
        let keys = array(RETAIN_KEYS, keys)?;
        object.retain(|key, _| keys.iter().any(|kept| kept == key));
    }
    // Items go before others come, and are brought in order at the end.
    let mut orders = Vec::new();
    let mut rest = Vec::new();
    for (key, value) in patch {
        if let Some(field) = key.strip_prefix(DELETE_PRIMITIVES) {
            let gone = array(&key, value)?;
            if let Some(Value::Array(items)) = object.get_mut(field) {
                items.retain(|item| !gone.contains(item));
            }
        } else if let Some(field) = key.strip_prefix(ORDER) {
            orders.push((field.to_owned(), array(&key, value)?));
        } else {
            rest.push((key, value));
        }
    }
    for (key, value) in rest {
        path.push(key);
        let merged = merge_member(object, value, path);
        path.pop();
        merged?;
    }
    for (field, order) in orders {
        path.push(field);
        let (rule, field) = (rule(path), path.pop().unwrap_or_default());
        if let (Some(rule), Some(Value::Array(items))) = (rule, object.get_mut(&field)) {
            let place = |item: &Value| order.iter().position(|o| same(rule, o, item));
            // What the patch does not know of keeps its place behind what it knows.
            items.sort_by_key(|item| place(item).unwrap_or(usize::MAX));
        }
    }
    Ok(())
}

/// The member that `path` ends with.
fn merge_member(
    object: &mut Map<String, Value>,
    value: Value,
    path: &mut Vec<String>,
) -> Result<(), Status> {
    let key = path.last().cloned().unwrap_or_default();
    match value {
        Value::Null => {
            object.remove(&key);
        }
        Value::Object(patch) => {
            // A null in what is new has nothing to remove, and a directive nothing to be about.
            let member = object.entry(key).or_insert_with(|| Map::new().into());
            if !member.is_object() {
                *member = Map::new().into();
            }
            if let Value::Object(member) = member {
                merge_object(member, patch, path)?;
            }
        }
        Value::Array(patch) => match rule(path) {
            Some(rule) => {
                let list = object
                    .entry(key)
                    .or_insert_with(|| Vec::<Value>::new().into());
                if !list.is_array() {
                    *list = Vec::<Value>::new().into();
                }
                if let Value::Array(items) = list {
                    merge_items(items, patch, rule, path)?;
                }
            }
            None => {
                object.insert(key, patch.into());
            }
        },
        scalar => {
            object.insert(key, scalar);
        }
    }
    Ok(())
}

fn merge_items(
    items: &mut Vec<Value>,
    patch: Vec<Value>,
    rule: Items,
    path: &mut Vec<String>,
) -> Result<(), Status> {
    let Items::ByKey(key) = rule else {
        for item in patch {
            if !items.contains(&item) {
                items.push(item);
            }
        }
        return Ok(());
    };
    for item in patch {
        let Value::Object(mut item) = item else {
            let list = path.join(".");
            return Err(undecodable(format!("an item of {list} is no object")));
        };
        let id = item.get(key).cloned();
        let directive = directive(&mut item)?;
        if id.is_none() && directive.as_deref() == Some("replace") {
            // The whole list is replaced by the other items.
            items.clear();
            continue;
        }
        let Some(id) = id else {
            let list = path.join(".");
            return Err(undecodable(format!("an item of {list} has no {key}")));
        };
        let place = items.iter().position(|old| old[key] == id);
        match (directive.as_deref(), place) {
            (Some("delete"), Some(at)) => {
                items.remove(at);
            }
            (Some("delete"), None) => {}
            (Some("replace"), Some(at)) => items[at] = item.into(),
            (_, Some(at)) => {
                if let Value::Object(old) = &mut items[at] {
                    merge_object(old, item, path)?;
                }
            }
            (_, None) => {
                let mut new = Map::new();
                merge_object(&mut new, item, path)?;
                items.push(new.into());
            }
        }
    }
    Ok(())
}

/// Takes `$patch` out.
fn directive(patch: &mut Map<String, Value>) -> Result<Option<String>, Status> {
    match patch.remove(PATCH) {
        None => Ok(None),
        Some(Value::String(word)) if ["merge", "replace", "delete"].contains(&&*word) => {
            Ok(Some(word))
        }
        Some(other) => Err(undecodable(format!(
            "{PATCH} is {other}, not \"merge\", \"replace\" or \"delete\""
        ))),
    }
}

fn array(directive: &str, value: Value) -> Result<Vec<Value>, Status> {
    match value {
        Value::Array(items) => Ok(items),
        _ => Err(undecodable(format!("{directive} is no list"))),
    }
}

fn rule(path: &[String]) -> Option<Items> {
    MERGED
        .iter()
        .find(|(merged, _)| path == *merged)
        .map(|(_, rule)| *rule)
}

/// Whether an entry of `$setElementOrder` is about this item.
fn same(rule: Items, entry: &Value, item: &Value) -> bool {
    match rule {
        Items::ByKey(key) => entry[key] == item[key],
        Items::Primitive => entry == item,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(mut object: Value, patch: Value) -> Value {
        strategic_merge_patch(&mut object, patch.to_string().as_bytes()).unwrap();
        object
    }

    #[test]
    fn it_is_a_merge_patch_where_no_list_says_otherwise() {
        let before = json!({"data": {"a": "1", "b": "2"}, "spec": {"finalizers": ["kubernetes"]}});
        let patch = json!({
            "data": {"a": null, "c": "3"}, "spec": {"finalizers": ["other"]},
            "metadata": {"annotations": {"x": "y", "gone": null}},
        });
        assert_eq!(
            patched(before, patch),
            json!({"data": {"b": "2", "c": "3"}, "spec": {"finalizers": ["other"]},
                   "metadata": {"annotations": {"x": "y"}}})
        );
    }

    #[test]
    fn owners_are_merged_by_their_uid() {
        let before = json!({"metadata": {"ownerReferences": [
            {"uid": "1", "name": "one"}, {"uid": "2", "name": "two", "controller": true},
        ]}});
        let patch = json!({"metadata": {
            "$setElementOrder/ownerReferences": [{"uid": "3"}, {"uid": "2"}],
            "ownerReferences": [
                {"uid": "2", "name": "renamed"}, {"uid": "3", "name": "three"},
                {"$patch": "delete", "uid": "1"},
            ],
        }});
        assert_eq!(
            patched(before, patch),
            json!({"metadata": {"ownerReferences": [
                {"uid": "3", "name": "three"}, {"uid": "2", "name": "renamed", "controller": true},
            ]}})
        );
    }

    #[test]
    fn finalizers_are_added_taken_away_and_ordered() {
        let before = json!({"metadata": {"finalizers": ["a", "b"]}});
        let patch = json!({"metadata": {
            "$deleteFromPrimitiveList/finalizers": ["a"],
            "$setElementOrder/finalizers": ["c", "b"],
            "finalizers": ["c"],
        }});
        assert_eq!(
            patched(before, patch),
            json!({"metadata": {"finalizers": ["c", "b"]}})
        );
    }

    #[test]
    fn directives_replace_delete_and_retain() {
        let before = json!({"data": {"a": "1"}, "labels": {"b": "2"}, "spec": {"c": 3, "d": 4}});
        let patch = json!({
            "data": {"$patch": "replace", "z": "9"}, "labels": {"$patch": "delete"},
            "spec": {"$retainKeys": ["d"], "d": 5},
        });
        assert_eq!(
            patched(before, patch),
            json!({"data": {"z": "9"}, "labels": {}, "spec": {"d": 5}})
        );
    }

    #[test]
    fn a_malformed_patch_is_400_and_changes_nothing() {
        let before = json!({"metadata": {"finalizers": ["a"]}});
        for patch in [
            "[]",
            "{",
            r#"{"metadata":{"$patch":"explode"}}"#,
            r#"{"metadata":{"$setElementOrder/finalizers":"a"}}"#,
            r#"{"metadata":{"ownerReferences":[{"name":"no uid"}]}}"#,
            r#"{"metadata":{"ownerReferences":["text"]}}"#,
        ] {
            let mut object = before.clone();
            let status = strategic_merge_patch(&mut object, patch.as_bytes()).unwrap_err();
            assert_eq!(status.code, 400, "{patch}");
            assert_eq!(object, before);
        }
    }
}
