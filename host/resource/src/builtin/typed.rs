//! The Go types of built-in resources: what kube-apiserver's decoder refuses with 400, in its words.
//!
//! Objects are kept as they were sent: types are checked, unknown fields stay.

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use joinery_object::{Cause, GroupVersionResource, Status};
use serde_json::Value;

use crate::admit::{Admit, Lookup, Review, Verdict};
use crate::go_time;

/// A Go type, as encoding/json reads into it.
pub(super) enum Go {
    String,
    /// A string type with a name, e.g. `v1.FinalizerName`.
    Named(&'static str),
    Bool,
    Int32,
    /// metav1.Time.
    Time,
    /// metav1.MicroTime.
    MicroTime,
    /// Base64.
    Bytes,
    /// The name of the type, and that of its elements.
    Map(&'static str, &'static Go),
    List(&'static str, &'static Go),
    Struct(&'static Struct),
}

/// A Go struct: its name without the package, and its fields. Those that are not here are not checked.
pub(super) struct Struct {
    pub(super) name: &'static str,
    pub(super) fields: &'static [(&'static str, Go)],
}

impl Go {
    fn name(&self) -> String {
        match self {
            Self::String | Self::Time | Self::MicroTime => "string".to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Int32 => "int32".to_owned(),
            Self::Bytes => "[]uint8".to_owned(),
            Self::Named(name) | Self::Map(name, _) | Self::List(name, _) => (*name).to_owned(),
            Self::Struct(of) => format!("v1.{}", of.name),
        }
    }

    /// `owner` is the innermost struct, `path` leads from the whole object to the value, elements of maps and lists
    /// left out.
    fn check(&self, value: &Value, owner: &str, path: &str) -> Result<(), String> {
        let mismatch = |found: &str| {
            let name = self.name();
            Err(format!(
                "json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {name}"
            ))
        };
        match (self, value) {
            (_, Value::Null)
            | (Self::String | Self::Named(_), Value::String(_))
            | (Self::Bool, Value::Bool(_)) => Ok(()),
            (Self::Int32, Value::Number(number)) => match number.as_i64().map(i32::try_from) {
                Some(Ok(_)) => Ok(()),
                _ => mismatch(&format!("number {number}")),
            },
            (Self::Time, Value::String(text)) => go_time::check(text, go_time::RFC3339),
            (Self::MicroTime, Value::String(text)) => go_time::check(text, go_time::RFC3339_MICRO),
            (Self::Bytes, Value::String(text)) => {
                STANDARD.decode(text).map(drop).map_err(|error| {
                    let at = match error {
                        base64::DecodeError::InvalidByte(at, _)
                        | base64::DecodeError::InvalidLastSymbol(at, _) => at,
                        _ => text.len(),
                    };
                    format!("illegal base64 data at input byte {at}")
                })
            }
            (Self::Map(_, of), Value::Object(members)) => members
                .values()
                .try_for_each(|value| of.check(value, owner, path)),
            (Self::List(_, of), Value::Array(items)) => items
                .iter()
                .try_for_each(|value| of.check(value, owner, path)),
            (Self::Struct(of), Value::Object(_)) => of.check(value, path),
            (_, Value::Bool(_)) => mismatch("bool"),
            (_, Value::Number(_)) => mismatch("number"),
            (_, Value::String(_)) => mismatch("string"),
            (_, Value::Array(_)) => mismatch("array"),
            (_, Value::Object(_)) => mismatch("object"),
        }
    }
}

impl Struct {
    fn check(&self, value: &Value, path: &str) -> Result<(), String> {
        for (field, of) in self.fields {
            if let Some(value) = value.get(field) {
                let path = match path {
                    "" => (*field).to_owned(),
                    path => format!("{path}.{field}"),
                };
                of.check(value, self.name, &path)?;
            }
        }
        Ok(())
    }

    /// Checks a whole object of version v1.
    ///
    /// # Errors
    /// 400 that names the field.
    pub(super) fn check_object(&self, object: &Value) -> Result<(), Status> {
        self.check(object, "").map_err(|detail| {
            let kind = self.name;
            Status::bad_request(format!(
                "{kind} in version \"v1\" cannot be handled as a {kind}: {detail}"
            ))
        })
    }
}

/// Admission of a built-in resource: its types, then its own rules.
pub(super) struct Typed {
    pub(super) group: &'static str,
    pub(super) of: &'static Struct,
    pub(super) validate: fn(&Review, &Value) -> Vec<Cause>,
}

impl Typed {
    pub(super) fn shared(self) -> Option<Arc<dyn Admit>> {
        Some(Arc::new(self))
    }
}

#[async_trait]
impl Admit for Typed {
    async fn admit(
        &self,
        _resource: &GroupVersionResource,
        review: Review,
        _lookup: Arc<dyn Lookup>,
    ) -> Result<Verdict, Status> {
        let Some(object) = &review.object else {
            return Ok(Verdict::default());
        };
        let object: Value = serde_json::from_slice(object).map_err(Status::internal)?;
        self.of.check_object(&object)?;
        let causes = (self.validate)(&review, &object);
        if causes.is_empty() {
            return Ok(Verdict::default());
        }
        let name = &review.key.name;
        Err(Status::invalid(self.group, self.of.name, name, causes))
    }
}
