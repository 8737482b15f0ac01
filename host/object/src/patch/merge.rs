//! JSON merge patch, RFC 7386: objects merge, null removes, everything else replaces.

use serde_json::Value;

use crate::Status;

/// Applies `patch` (JSON text) to `object`.
///
/// # Errors
/// 400 when the patch is not a JSON object; `object` is then as it was.
pub fn merge_patch(object: &mut Value, patch: &[u8]) -> Result<(), Status> {
    let patch: Value = serde_json::from_slice(patch)
        .map_err(|e| Status::bad_request(format!("error decoding patch: {e}")))?;
    if !patch.is_object() {
        return Err(Status::bad_request(
            "error decoding patch: a merge patch must be a JSON object",
        ));
    }
    json_patch::merge(object, &patch);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_merge_null_removes_and_lists_are_replaced() {
        let mut object = json!({"spec": {"a": 1, "b": 2, "list": [1, 2]}, "status": {"x": 1}});
        merge_patch(
            &mut object,
            br#"{"spec":{"a":null,"list":[3],"new":{"deep":null,"kept":1}}}"#,
        )
        .unwrap();
        assert_eq!(
            object,
            json!({"spec": {"b": 2, "list": [3], "new": {"kept": 1}}, "status": {"x": 1}})
        );
    }

    #[test]
    fn what_is_no_object_is_a_bad_request_and_changes_nothing() {
        let before = json!({"spec": {"a": 1}});
        for patch in ["[]", "null", "\"x\"", "{", ""] {
            let mut object = before.clone();
            assert_eq!(
                merge_patch(&mut object, patch.as_bytes()).unwrap_err().code,
                400,
                "{patch}"
            );
            assert_eq!(object, before);
        }
    }
}
