use serde_json::value::RawValue;

use crate::jsonpath::{JsonPath, JsonPathError, Paths};
use crate::structural::{StructuralSchema, Type};

/// The fields of a resource, besides `metadata.name` and `metadata.namespace`, that field selectors may name: a CRD's
/// `selectableFields`.
#[derive(Clone, Debug, Default)]
pub struct SelectableFields {
    names: Vec<String>,
    paths: Paths,
}

/// A declared field that cannot be selected by.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectableError {
    /// No JSONPath.
    #[error("selectableFields: {0}")]
    Path(#[from] JsonPathError),
    /// A path, but not one that CRDs allow here.
    #[error("selectableFields: {path:?} {detail}")]
    Field {
        /// The path as declared.
        path: String,
        /// What is wrong and what is allowed.
        detail: &'static str,
    },
}

/// As many as a CRD may declare.
const MAX: usize = 8;

impl SelectableFields {
    /// Compiles JSONPaths such as `.spec.taskState` that lead to scalar fields of the schema.
    ///
    /// # Errors
    /// More than 8, one that is declared twice, points into metadata, is no plain chain of fields, or leads to
    /// something else than a string, boolean or integer of the schema.
    pub fn compile<S: AsRef<str>>(
        paths: &[S],
        schema: &StructuralSchema,
    ) -> Result<Self, SelectableError> {
        let mut compiled = Vec::with_capacity(paths.len());
        let mut names: Vec<String> = Vec::with_capacity(paths.len());
        for path in paths {
            let path = JsonPath::compile(path.as_ref())?;
            let fail = |detail| SelectableError::Field {
                path: path.text().to_owned(),
                detail,
            };
            let Some(fields) = path.fields().filter(|fields| !fields.is_empty()) else {
                return Err(fail("must be a chain of fields, e.g. .spec.state"));
            };
            if fields.first() == Some(&"metadata") {
                return Err(fail("must not point to fields in metadata"));
            }
            let mut node = Some(schema.root());
            for field in &fields {
                node = node.and_then(|node| node.properties.get(*field));
            }
            if !node.is_some_and(|node| {
                matches!(
                    node.type_,
                    Some(Type::String | Type::Boolean | Type::Integer)
                )
            }) {
                return Err(fail(
                    "must point to a field of the schema of type string, boolean or integer",
                ));
            }
            let name = fields.join(".");
            if names.contains(&name) {
                return Err(fail("is declared twice"));
            }
            if names.len() == MAX {
                return Err(fail("is too many: at most 8 fields are selectable"));
            }
            names.push(name);
            compiled.push(path);
        }
        Ok(Self {
            names,
            paths: Paths::new(&compiled),
        })
    }

    /// The names that a field selector uses, e.g. `spec.taskState`, in the order declared.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The value of each field of an object, in the order of [`SelectableFields::names`]. A field that is absent or
    /// null is the empty string.
    #[must_use]
    pub fn values(&self, object: &[u8]) -> Vec<String> {
        self.paths
            .first(object)
            .into_iter()
            .map(|value| value.map(text).unwrap_or_default())
            .collect()
    }
}

fn text(value: &RawValue) -> String {
    match value.get() {
        "null" => String::new(),
        json if json.starts_with('"') => serde_json::from_str(json).unwrap_or_default(),
        json => json.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> StructuralSchema {
        StructuralSchema::from_value(
            json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "state": {"type": "string"}, "priority": {"type": "integer"}, "on": {"type": "boolean"},
            "list": {"type": "array", "items": {"type": "string"}}}}}}),
        )
        .unwrap()
    }

    #[test]
    fn values_are_texts_and_what_is_absent_is_empty() {
        let fields =
            SelectableFields::compile(&[".spec.state", ".spec.priority", ".spec.on"], &schema())
                .unwrap();
        assert_eq!(fields.names(), ["spec.state", "spec.priority", "spec.on"]);
        assert_eq!(
            fields.values(br#"{"spec":{"state":"a\"b","priority":3,"on":true}}"#),
            ["a\"b", "3", "true"]
        );
        assert_eq!(fields.values(br#"{"spec":{"state":null}}"#), ["", "", ""]);
    }

    #[test]
    fn only_scalar_fields_of_the_schema_can_be_selected_by() {
        for (path, detail) in [
            (".metadata.name", "must not point to fields in metadata"),
            (
                ".spec.list",
                "must point to a field of the schema of type string, boolean or integer",
            ),
            (
                ".spec.gone",
                "must point to a field of the schema of type string, boolean or integer",
            ),
            (
                ".spec.list[0]",
                "must be a chain of fields, e.g. .spec.state",
            ),
        ] {
            let error = SelectableFields::compile(&[path], &schema()).unwrap_err();
            assert_eq!(
                error,
                SelectableError::Field {
                    path: path.to_owned(),
                    detail
                }
            );
        }
        assert!(SelectableFields::compile(&["spec.state"], &schema()).is_err());
        assert!(SelectableFields::compile(&[".spec.state", ".spec.state"], &schema()).is_err());
    }
}
