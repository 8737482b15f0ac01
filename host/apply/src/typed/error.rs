//! Values that do not conform to their type.

use std::fmt;

use serde_json::Value;

use crate::element::{Path, PathElement};
use crate::go;
use crate::types::Scalar;

/// What is wrong with a value, worded as upstream does. Never empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TypedError(Vec<String>);

impl fmt::Display for TypedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => f.write_str(one),
            several => {
                f.write_str("errors:")?;
                several.iter().try_for_each(|text| write!(f, "\n  {text}"))
            }
        }
    }
}

/// Where a walker is and what it has found wrong.
#[derive(Default)]
pub(super) struct Walk {
    pub(super) path: Vec<PathElement>,
    errors: Vec<String>,
}

impl Walk {
    pub(super) fn error(&mut self, text: impl fmt::Display) {
        let path = Path(self.path.clone());
        self.errors.push(if self.path.is_empty() {
            text.to_string()
        } else {
            format!("{path}: {text}")
        });
    }

    /// The type says nothing that a value could be.
    pub(super) fn no_type(&mut self) {
        self.error("schema error: invalid atom: inlined");
    }

    pub(super) fn descend<R>(
        &mut self,
        element: PathElement,
        walk: impl FnOnce(&mut Self) -> R,
    ) -> R {
        self.path.push(element);
        let result = walk(self);
        self.path.pop();
        result
    }

    pub(super) fn count(&self) -> usize {
        self.errors.len()
    }

    /// Forgets all errors but the first so many.
    pub(super) fn forget(&mut self, but: usize) {
        self.errors.truncate(but);
    }

    pub(super) fn finish<R>(self, result: R) -> Result<R, TypedError> {
        if self.errors.is_empty() {
            Ok(result)
        } else {
            Err(TypedError(self.errors))
        }
    }
}

/// What is wrong with a value as a scalar. Null and none are fine.
pub(super) fn scalar_error(scalar: Scalar, value: Option<&Value>) -> Option<String> {
    let value = value.filter(|value| !value.is_null())?;
    let got = || go::json(value);
    let fine = match scalar {
        Scalar::Numeric => value.is_number(),
        Scalar::String => value.is_string(),
        Scalar::Boolean => value.is_boolean(),
        Scalar::Untyped => !value.is_object() && !value.is_array(),
    };
    let expected = match scalar {
        Scalar::Numeric => "numeric (int or float)",
        Scalar::String => "string",
        Scalar::Boolean => "boolean",
        Scalar::Untyped => "any scalar",
    };
    (!fine).then(|| format!("expected {expected}, got {}", got()))
}
