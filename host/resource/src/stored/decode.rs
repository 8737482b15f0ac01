//! From the body of a request to an object of the resource's kind, in the words of k8s.io/apiserver/pkg/endpoints/handlers.

use joinery_object::{ObjectKey, Status};
use serde_json::{Map, Value};

use super::duplicates::duplicates;
use super::metadata::{self, ObjectMeta};
use super::metadata_types;
use crate::resource::{Definition, PatchType};

/// An object as a client sent it, and its metadata as read.
#[derive(Clone, Debug)]
pub(crate) struct Decoded {
    /// With apiVersion, kind, and an object as metadata.
    pub(crate) value: Value,
    pub(crate) meta: ObjectMeta,
    /// The words about each member that the body has twice.
    pub(crate) duplicates: Vec<String>,
}

impl Decoded {
    /// As [`metadata::dedup_owners`], and of what is read of the metadata too: what came twice is not judged twice.
    ///
    /// # Errors
    /// None that a client causes: the metadata has been read before.
    pub(crate) fn dedup_owners(&mut self) -> Result<Option<String>, Status> {
        let warning = metadata::dedup_owners(&mut self.value);
        if warning.is_some() {
            self.meta = ObjectMeta::read(&self.value).map_err(Status::internal)?;
        }
        Ok(warning)
    }
}

/// Reads a body. apiVersion and kind may be left out; if they are there they must be the resource's.
///
/// # Errors
/// 400 that says what is not as it must be.
pub(crate) fn body(definition: &Definition, text: &[u8]) -> Result<Decoded, Status> {
    let unrecognized = |detail: String| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {detail}",
            definition.kind
        ))
    };
    let value: Value = serde_json::from_slice(text).map_err(|error| {
        unrecognized(format!(
            "couldn't get version/kind; json parse error: {error}"
        ))
    })?;
    if !value.is_object() {
        return Err(unrecognized("the body must be a JSON object".to_owned()));
    }
    let mut decoded = object(definition, value)?;
    decoded.duplicates = duplicate_fields(text);
    Ok(decoded)
}

/// The words about each member that a JSON text has twice.
pub fn duplicate_fields(text: &[u8]) -> Vec<String> {
    let paths = duplicates(text).into_iter();
    paths
        .map(|path| format!("duplicate field {path:?}"))
        .collect()
}

/// The words about what a strict reader does not take in a patch that has been applied: members that come twice, and those that an
/// operation of a JSON patch does not have.
pub(crate) fn strict_of_patch(patch: PatchType, text: &[u8]) -> Vec<String> {
    /// As `jsonPatchOp` of k8s.io/apiserver/pkg/endpoints/handlers/patch.go.
    const OPERATION: [&str; 4] = ["op", "path", "from", "value"];
    let mut words = duplicate_fields(text);
    if patch != PatchType::Json {
        return words;
    }
    let operations: Vec<Option<Map<String, Value>>> =
        serde_json::from_slice(text).unwrap_or_default();
    for (index, operation) in operations.iter().enumerate() {
        let names = operation.iter().flat_map(Map::keys);
        let unknown = names.filter(|name| !OPERATION.contains(&name.as_str()));
        words.extend(unknown.map(|name| format!("unknown field \"[{index}].{name}\"")));
    }
    words
        .into_iter()
        .map(|words| format!("json patch {words}"))
        .collect()
}

/// Checks the type of an object and reads its metadata.
///
/// # Errors
/// As [`body`].
pub(crate) fn object(definition: &Definition, mut value: Value) -> Result<Decoded, Status> {
    whole_numbers(&mut value);
    let expected = definition.gvr.api_version();
    let members = members(&mut value);
    let api_version = text(definition, members, "apiVersion")?.unwrap_or_else(|| expected.clone());
    if api_version != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    let kind = text(definition, members, "kind")?.unwrap_or_else(|| definition.kind.clone());
    if kind != definition.kind {
        let detail = format!("this resource takes objects of kind {:?}", definition.kind);
        return Err(cannot_be_handled(definition, &kind, &detail));
    }
    members.insert("apiVersion".to_owned(), api_version.into());
    members.insert("kind".to_owned(), kind.into());
    let metadata = members
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    // null is how Go writes an unset time; what is empty it leaves out (`omitempty`).
    let settled = match metadata {
        Value::Object(metadata) => {
            metadata.retain(|_, value| !value.is_null());
            let settled = metadata_types::settle(metadata);
            metadata
                .retain(|name, value| !(OMIT_EMPTY.contains(&name.as_str()) && is_empty(value)));
            settled
        }
        other => Err(metadata_types::no_object(other)),
    };
    settled.map_err(|error| cannot_be_handled(definition, &definition.kind, &error))?;
    let meta = ObjectMeta::read(&value)
        .map_err(|error| cannot_be_handled(definition, &definition.kind, &error))?;
    Ok(Decoded {
        value,
        meta,
        duplicates: Vec::new(),
    })
}

const OTHER_NAMESPACE: &str =
    "the namespace of the provided object does not match the namespace sent on the request";

/// Collections of ObjectMeta.
const OMIT_EMPTY: [&str; 4] = ["annotations", "finalizers", "labels", "ownerReferences"];

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Writes whole numbers as such: `1.0` and `1e0` are 1 after Go has read and written them, and Go clients read nothing
/// else into an integer.
fn whole_numbers(value: &mut Value) {
    /// Up to here every whole float is one integer, and Go writes it without an exponent.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(float) = number.as_f64()
                && float.fract() == 0.0
                && float.abs() <= EXACT
            {
                *number = (float as i64).into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(members) => members.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

/// 400 of a body that is not of the resource's type.
pub(crate) fn cannot_be_handled(definition: &Definition, kind: &str, detail: &str) -> Status {
    Status::bad_request(format!(
        "{kind} in version {:?} cannot be handled as a {}: {detail}",
        &*definition.gvr.version, definition.kind
    ))
}

/// The namespace that the object must be in: the request's, if it does not say another.
///
/// # Errors
/// 400 for another, or for none where there must be one.
pub(crate) fn settle_namespace(
    definition: &Definition,
    decoded: &mut Decoded,
    namespace: Option<&str>,
) -> Result<(), Status> {
    let metadata = members(&mut decoded.value["metadata"]);
    if !definition.namespaced {
        metadata.remove("namespace");
        decoded.meta.namespace.clear();
        return Ok(());
    }
    let Some(namespace) = namespace.filter(|namespace| !namespace.is_empty()) else {
        return Err(Status::bad_request(
            "an empty namespace may not be set during creation",
        ));
    };
    let given = &decoded.meta.namespace;
    if !given.is_empty() && given != namespace {
        return Err(Status::bad_request(OTHER_NAMESPACE));
    }
    metadata.insert("namespace".to_owned(), namespace.into());
    decoded.meta.namespace = namespace.to_owned();
    Ok(())
}

/// The object of an update must be the one of the path.
///
/// # Errors
/// 400 for another name or namespace.
pub(crate) fn check_key(meta: &ObjectMeta, key: &ObjectKey) -> Result<(), Status> {
    if meta.name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            key.name
        )));
    }
    if meta.name != *key.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            meta.name, key.name
        )));
    }
    let namespace = key.namespace.as_deref().unwrap_or_default();
    if !meta.namespace.is_empty() && !namespace.is_empty() && meta.namespace != namespace {
        return Err(Status::bad_request(OTHER_NAMESPACE));
    }
    Ok(())
}

/// The members of what is known to be an object.
pub(crate) fn members(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(members) => members,
        _ => unreachable!("it has just been made an object"),
    }
}

fn text(
    definition: &Definition,
    members: &Map<String, Value>,
    name: &str,
) -> Result<Option<String>, Status> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
        Some(_) => {
            let detail = format!("{name} must be a string");
            Err(cannot_be_handled(definition, &definition.kind, &detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_operation_of_a_json_patch_does_not_have_is_named() {
        let patch = br#"[{"op":"add","path":"/a","path":"/b","value":{"x":1}},null,{"op":"remove","Path":"/a"}]"#;
        assert_eq!(
            strict_of_patch(PatchType::Json, patch),
            [
                "json patch duplicate field \"[0].path\"",
                "json patch unknown field \"[2].Path\""
            ]
        );
        assert_eq!(
            strict_of_patch(PatchType::Merge, br#"{"a":1,"a":2,"op":3}"#),
            ["duplicate field \"a\""]
        );
        assert!(strict_of_patch(PatchType::Json, b"null").is_empty());
    }

    #[test]
    fn whole_numbers_are_written_as_integers() {
        let mut value: Value = serde_json::from_str(r#"{"a":[1.0,1e0,-0.0,1.5,1e300,7]}"#).unwrap();
        whole_numbers(&mut value);
        assert_eq!(value.to_string(), r#"{"a":[1,1,0,1.5,1e+300,7]}"#);
    }
}
