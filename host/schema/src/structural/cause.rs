use serde::Serialize;
use serde_json::Value;

use crate::go;

/// One metav1.StatusCause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// A metav1 CauseType, e.g. `FieldValueRequired`.
    pub reason: String,
    /// The text without the field, e.g. `Required value`.
    pub message: String,
    /// Path of the field, e.g. `spec.priority`; `<nil>` where kube-apiserver names none (failed `oneOf` and the like).
    pub field: String,
}

/// What field.Error prints for an error without a field.
const NO_FIELD: &str = "<nil>";

impl Cause {
    fn new(reason: &str, field: &str, message: String) -> Self {
        let field = if field.is_empty() { NO_FIELD } else { field };
        Self {
            reason: reason.to_owned(),
            message,
            field: field.to_owned(),
        }
    }

    pub(super) fn required(field: &str) -> Self {
        Self::new("FieldValueRequired", field, "Required value".to_owned())
    }

    pub(super) fn invalid(field: &str, value: &Value, detail: &str) -> Self {
        Self::new(
            "FieldValueInvalid",
            field,
            format!("Invalid value: {}: {detail}", go::bad_value(value)),
        )
    }

    /// An error about a whole value that Go reports without field and value.
    pub(super) fn composite(detail: &str) -> Self {
        Self::new(
            "FieldValueInvalid",
            NO_FIELD,
            format!("Invalid value: \"\": {detail}"),
        )
    }

    pub(super) fn type_invalid(field: &str, value: &str, detail: &str) -> Self {
        Self::new(
            "FieldValueTypeInvalid",
            field,
            format!("Invalid value: {}: {detail}", go::quote(value)),
        )
    }

    pub(super) fn not_supported(field: &str, value: &Value, allowed: &[Value]) -> Self {
        let allowed: Vec<String> = allowed
            .iter()
            .map(|value| match value {
                Value::String(text) => go::quote(text),
                other => go::quote(&go::json(other)),
            })
            .collect();
        let message = format!(
            "Unsupported value: {}: supported values: {}",
            go::bad_value(value),
            allowed.join(", ")
        );
        Self::new("FieldValueNotSupported", field, message)
    }

    pub(super) fn too_long(field: &str, max: u64) -> Self {
        // The limit counts characters, though kube-apiserver says bytes.
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::new(
            "FieldValueTooLong",
            field,
            format!("Too long: may not be more than {max} {unit}"),
        )
    }

    pub(super) fn too_many(field: &str, actual: usize, max: u64) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::new(
            "FieldValueTooMany",
            field,
            format!("Too many: {actual}: must have at most {max} {unit}"),
        )
    }

    pub(super) fn duplicate(field: &str, value: &Value) -> Self {
        Self::new(
            "FieldValueDuplicate",
            field,
            format!("Duplicate value: {}", go::bad_value(value)),
        )
    }
}
