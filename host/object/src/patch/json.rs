//! JSON patch, RFC 6902.

use json_patch::{Patch, PatchOperation};
use serde_json::Value;

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
    let Patch(operations) = serde_json::from_slice(patch)
        .map_err(|e| Status::bad_request(format!("error decoding patch: {e}")))?;
    if operations.len() > MAX_JSON_PATCH_OPERATIONS {
        return Err(Status::too_large(format!(
            "The allowed maximum operations in a JSON patch is {MAX_JSON_PATCH_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut patched = object.clone();
    let mut copied = 0;
    for (i, operation) in operations.iter().enumerate() {
        if let PatchOperation::Copy(copy) = operation
            && let Ok(value) = copy.from.resolve(&patched)
        {
            copied += size(value);
            if copied > MAX_COPIED_BYTES {
                return Err(Status::too_large(format!(
                    "the copies of a JSON patch may add {MAX_COPIED_BYTES} bytes"
                )));
            }
        }
        // A failed operation is final and `patched` a copy, so nothing needs to be undone.
        json_patch::patch_unsafe(&mut patched, std::slice::from_ref(operation)).map_err(|e| {
            Status::unprocessable(&format!(
                "operation {i} at {:?}: {}",
                operation.path().as_str(),
                e.kind
            ))
        })?;
    }
    *object = patched;
    Ok(())
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
            (r#"[{"op":"jump","path":"/spec"}]"#, 400),
            (r#"[{"op":"add","path":"spec","value":1}]"#, 400),
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
