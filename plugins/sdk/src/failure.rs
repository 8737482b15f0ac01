/// Becomes a metav1.Status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Failure {
    /// A metav1 StatusReason, e.g. `Invalid`, `Forbidden`, `Conflict`.
    pub reason: String,
    /// What is wrong and what is allowed, for people.
    pub message: String,
    /// Field by field.
    pub causes: Vec<Cause>,
    /// When to come again.
    pub retry_after_seconds: Option<u32>,
}

impl Failure {
    /// With a reason and a message alone.
    pub fn new(reason: &str, message: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            message: message.into(),
            ..Self::default()
        }
    }

    /// 422: `what` (e.g. `CustomTask.tasks.example.com "a"`) has these faults. Worded as Kubernetes words its own.
    pub fn invalid(what: &str, causes: Vec<Cause>) -> Self {
        let list: Vec<String> = causes
            .iter()
            .map(|c| format!("{}: {}", c.field, c.message))
            .collect();
        let message = match list.as_slice() {
            [one] => format!("{what} is invalid: {one}"),
            many => format!("{what} is invalid: [{}]", many.join(", ")),
        };
        Self {
            causes,
            ..Self::new("Invalid", message)
        }
    }

    /// 500: the plugin cannot go on.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new("InternalError", message)
    }
}

/// One metav1.StatusCause.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cause {
    /// A metav1 CauseType, e.g. `FieldValueRequired`.
    pub reason: String,
    /// What is wrong with the field.
    pub message: String,
    /// E.g. `spec.priority`.
    pub field: String,
}

impl Cause {
    fn new(reason: &str, field: &str, message: String) -> Self {
        Self {
            reason: reason.into(),
            message,
            field: field.into(),
        }
    }

    /// The field is missing.
    pub fn required(field: &str, detail: &str) -> Self {
        Self::new(
            "FieldValueRequired",
            field,
            format!("Required value: {detail}"),
        )
    }

    /// The field's value cannot be.
    pub fn invalid(field: &str, value: &str, detail: &str) -> Self {
        Self::new(
            "FieldValueInvalid",
            field,
            format!("Invalid value: {value:?}: {detail}"),
        )
    }

    /// The field refers to something that does not exist.
    pub fn not_found(field: &str, value: &str) -> Self {
        Self::new("FieldValueNotFound", field, format!("Not found: {value:?}"))
    }

    /// The field may not be so at this time.
    pub fn forbidden(field: &str, detail: &str) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {detail}"))
    }
}
