//! JSON patch, RFC 6902, with the leniencies of github.com/evanphx/json-patch, which kube-apiserver uses: `replace` makes a
//! member that is not there, `test` holds for null of what is not there, an index may count from the end, a value that is
//! left out is null, and what is before the first slash of a path does not count.

use serde_json::{Map, Value};

use super::pointer::{Pointer, at, insert, remove, set};
use crate::Status;

/// As kube-apiserver's `maxJSONPatchOperations`.
pub const MAX_JSON_PATCH_OPERATIONS: usize = 10_000;

/// Bytes that the `copy` operations of one patch may add, as kube-apiserver's `JSONPatchMaxCopyBytes`: a few dozen
/// operations could otherwise double an object into gigabytes.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// Applies `patch` (JSON text) to `object`, all operations or none.
///
/// # Errors
/// 400 for a malformed patch, 413 for more than [`MAX_JSON_PATCH_OPERATIONS`] operations or too much copying, 422 when
/// an operation fails (a `test` that does not hold, a path that is not there). `object` is then as it was.
pub fn json_patch(object: &mut Value, patch: &[u8]) -> Result<(), Status> {
    let operations: Option<Vec<Option<Map<String, Value>>>> = serde_json::from_slice(patch)
        .map_err(|e| Status::bad_request(format!("error decoding patch: {e}")))?;
    let operations = operations.unwrap_or_default();
    if operations.len() > MAX_JSON_PATCH_OPERATIONS {
        return Err(Status::too_large(format!(
            "The allowed maximum operations in a JSON patch is {MAX_JSON_PATCH_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut patched = object.clone();
    let mut copied = 0;
    for (i, operation) in operations.into_iter().enumerate() {
        apply(&mut patched, operation.unwrap_or_default(), &mut copied).map_err(|failure| {
            match failure {
                Failure::Operation(why) => Status::unprocessable(&format!("operation {i}: {why}")),
                Failure::Copies => Status::too_large(format!(
                    "the copies of a JSON patch may add {MAX_COPIED_BYTES} bytes"
                )),
            }
        })?;
    }
    *object = patched;
    Ok(())
}

enum Failure {
    Operation(String),
    /// Too much was copied.
    Copies,
}

fn apply(
    object: &mut Value,
    mut operation: Map<String, Value>,
    copied: &mut usize,
) -> Result<(), Failure> {
    let pointer = |name: &str| match operation.get(name).and_then(Value::as_str) {
        Some(text) => Ok(Pointer::parse(text)),
        None => Err(Failure::Operation(format!("{name} is missing"))),
    };
    let path = pointer("path")?;
    let op = operation
        .get("op")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let from = match op.as_str() {
        "move" | "copy" => Some(pointer("from")?),
        _ => None,
    };
    let value = operation.remove("value").unwrap_or_default();
    let nothing = |path: &Pointer| Failure::Operation(format!("there is nothing at {path}"));
    match (op.as_str(), from) {
        ("add", _) => insert(object, &path, value).ok_or_else(|| nothing(&path)),
        ("replace", _) => set(object, &path, value).ok_or_else(|| nothing(&path)),
        ("remove", _) => remove(object, &path)
            .map(drop)
            .ok_or_else(|| nothing(&path)),
        ("test", _) => match at(object, &path) {
            Some(found) if *found == value => Ok(()),
            // Only the last step may lead to nothing.
            None if value.is_null()
                && path
                    .parent()
                    .is_some_and(|up| at(object, &up).is_some_and(Value::is_object)) =>
            {
                Ok(())
            }
            _ => Err(Failure::Operation(format!(
                "the value at {path} is another"
            ))),
        },
        ("move", Some(from)) => {
            let value = remove(object, &from).ok_or_else(|| nothing(&from))?;
            insert(object, &path, value).ok_or_else(|| nothing(&path))
        }
        ("copy", Some(from)) => {
            let value = at(object, &from).cloned().ok_or_else(|| nothing(&from))?;
            *copied += size(&value);
            if *copied > MAX_COPIED_BYTES {
                return Err(Failure::Copies);
            }
            insert(object, &path, value).ok_or_else(|| nothing(&path))
        }
        (other, _) => Err(Failure::Operation(format!("{other:?} is no operation"))),
    }
}

/// About the length of its JSON.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|v| size(v) + 1).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields
                .iter()
                .map(|(k, v)| k.len() + 4 + size(v))
                .sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_apply_in_order() {
        let mut object = json!({"spec": {"a": 1, "list": [1]}});
        let patch = br#"[
            {"op":"test","path":"/spec/a","value":1},
            {"op":"replace","path":"/spec/a","value":2},
            {"op":"add","path":"/spec/list/-","value":2},
            {"op":"copy","from":"/spec/list","path":"/copied"},
            {"op":"move","from":"/spec/a","path":"/moved"},
            {"op":"remove","path":"/spec/list"}
        ]"#;
        json_patch(&mut object, patch).unwrap();
        assert_eq!(object, json!({"spec": {}, "copied": [1, 2], "moved": 2}));
    }

    #[test]
    fn a_malformed_patch_is_400_and_a_failed_operation_422_and_neither_changes_the_object() {
        let before = json!({"spec": {"a": 1}});
        for (patch, code) in [
            ("{}", 400),
            ("[", 400),
            (r#"[{"op":"jump","path":"/spec"}]"#, 422),
            (r#"[{"path":"/spec"}]"#, 422),
            (r#"[{"op":"remove"}]"#, 422),
            (r#"[{"op":"move","path":"/spec"}]"#, 422),
            (r#"[{"op":"add","path":"/no/thing","value":1}]"#, 422),
            (
                r#"[{"op":"add","path":"/spec/b","value":1},{"op":"test","path":"/spec/a","value":2}]"#,
                422,
            ),
            (
                r#"[{"op":"add","path":"/spec/b","value":1},{"op":"remove","path":"/spec/c"}]"#,
                422,
            ),
        ] {
            let mut object = before.clone();
            let status = json_patch(&mut object, patch.as_bytes()).unwrap_err();
            assert_eq!(status.code, code, "{patch}: {status}");
            assert_eq!(object, before);
        }
    }

    /// Each as kube-apiserver answered it.
    #[test]
    fn what_the_rfc_refuses_and_upstream_does_not_is_done() {
        let object = json!({"a": {"b": 1}, "list": [1, 2]});
        for (patch, after) in [
            ("null", object.clone()),
            (
                r#"[{"op":"test","path":"/a/x","value":null}]"#,
                object.clone(),
            ),
            (
                r#"[{"op":"test","path":"/list/-1","value":2}]"#,
                object.clone(),
            ),
            (
                r#"[{"op":"replace","path":"/a/x","value":2}]"#,
                json!({"a": {"b": 1, "x": 2}, "list": [1, 2]}),
            ),
            (
                r#"[{"op":"add","path":"/a/b"}]"#,
                json!({"a": {"b": null}, "list": [1, 2]}),
            ),
            (
                r#"[{"op":"add","path":"a/c","value":3}]"#,
                json!({"a": {"b": 1}, "list": [1, 2], "c": 3}),
            ),
        ] {
            let mut patched = object.clone();
            json_patch(&mut patched, patch.as_bytes()).unwrap();
            assert_eq!(patched, after, "{patch}");
        }
    }

    #[test]
    fn too_many_operations_are_413() {
        let operation = json!({"op": "test", "path": "/a", "value": 1});
        let patch = |n| serde_json::to_vec(&vec![operation.clone(); n]).unwrap();
        let mut object = json!({"a": 1});
        assert_eq!(json_patch(&mut object, &patch(10_000)), Ok(()));
        assert_eq!(
            json_patch(&mut object, &patch(10_001)).unwrap_err().code,
            413
        );
    }

    #[test]
    fn copies_that_double_and_double_again_are_413() {
        let patch: Vec<_> = (0..30)
            .map(|i| json!({"op": "copy", "from": "/a", "path": format!("/a/{i}")}))
            .collect();
        let mut object = json!({"a": {"x": "y".repeat(1000)}});
        let patch = serde_json::to_vec(&patch).unwrap();
        assert_eq!(json_patch(&mut object, &patch).unwrap_err().code, 413);
    }
}
