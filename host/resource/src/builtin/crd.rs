//! A stored resource from a CustomResourceDefinition.

use joinery_object::GroupVersionResource;
use joinery_schema::{
    Column, ColumnError, Columns, SchemaError, SelectableError, SelectableFields, StructuralSchema,
};
use serde::Deserialize;
use serde_json::Value;

use super::define::VERBS;
use crate::resource::Definition;

/// A CustomResourceDefinition that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// Not of the shape that apiextensions.k8s.io/v1 has.
    #[error("not a CustomResourceDefinition of apiextensions.k8s.io/v1: {0}")]
    Shape(#[from] serde_json::Error),
    /// No version is marked as the stored one.
    #[error("CustomResourceDefinition {0:?} has no version that is served and stored")]
    Version(String),
    /// The schema of the version.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A printer column.
    #[error(transparent)]
    Column(#[from] ColumnError),
    /// A selectable field.
    #[error(transparent)]
    Selectable(#[from] SelectableError),
}

#[derive(Deserialize)]
struct Crd {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    group: String,
    scope: String,
    names: Names,
    versions: Vec<Version>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Names {
    kind: String,
    list_kind: Option<String>,
    plural: String,
    singular: Option<String>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    name: String,
    served: bool,
    storage: bool,
    #[serde(default)]
    subresources: Value,
    #[serde(default)]
    selectable_fields: Vec<SelectableField>,
    #[serde(default)]
    additional_printer_columns: Vec<PrinterColumn>,
    schema: Schema,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SelectableField {
    json_path: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PrinterColumn {
    name: String,
    r#type: String,
    #[serde(default)]
    format: String,
    #[serde(default)]
    description: String,
    json_path: String,
    #[serde(default)]
    priority: i32,
}

#[derive(Deserialize)]
struct Schema {
    #[serde(rename = "openAPIV3Schema")]
    open_api: Value,
}

/// What a CustomResourceDefinition (apiextensions.k8s.io/v1) defines, in the version that it stores.
///
/// # Errors
/// [`CrdError`] names what cannot be used.
pub fn from_crd(crd: &Value) -> Result<(Definition, StructuralSchema), CrdError> {
    let Crd { spec } = Crd::deserialize(crd)?;
    let version = spec
        .versions
        .into_iter()
        .find(|version| version.served && version.storage)
        .ok_or_else(|| CrdError::Version(format!("{}.{}", spec.names.plural, spec.group)))?;
    let columns = version
        .additional_printer_columns
        .into_iter()
        .map(|column| {
            Ok(Column {
                column_type: column.r#type.parse()?,
                name: column.name,
                format: column.format,
                description: column.description,
                json_path: column.json_path,
                priority: column.priority,
            })
        })
        .collect::<Result<Vec<_>, ColumnError>>()?;
    let text = version.schema.open_api.to_string();
    let schema = StructuralSchema::from_value(version.schema.open_api)?;
    let selectable_fields: Vec<String> = version
        .selectable_fields
        .into_iter()
        .map(|field| field.json_path)
        .collect();
    SelectableFields::compile(&selectable_fields, &schema)?;
    let names = spec.names;
    let definition = Definition {
        gvr: GroupVersionResource::new(&spec.group, &version.name, &names.plural),
        list_kind: names
            .list_kind
            .unwrap_or_else(|| format!("{}List", names.kind)),
        singular: names
            .singular
            .unwrap_or_else(|| names.kind.to_ascii_lowercase()),
        kind: names.kind,
        short_names: names.short_names,
        categories: names.categories,
        namespaced: spec.scope == "Namespaced",
        verbs: VERBS.to_vec(),
        status_subresource: version.subresources.get("status").is_some(),
        schema: text.into(),
        columns: Columns::compile(&columns)?,
        selectable_fields,
    };
    Ok((definition, schema))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn crd() -> Value {
        json!({"spec": {
            "group": "tasks.example.com", "scope": "Namespaced", "names": {"kind": "Task", "plural": "tasks", "shortNames": ["tk"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "selectableFields": [{"jsonPath": ".spec.priority"}],
                "additionalPrinterColumns": [{"name": "Priority", "type": "integer", "jsonPath": ".spec.priority"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"priority": {"type": "integer", "maximum": 10}}}}}},
            }],
        }})
    }

    #[test]
    fn a_definition_is_what_the_stored_version_says() {
        let (definition, schema) = from_crd(&crd()).unwrap();
        assert_eq!(
            definition.gvr,
            GroupVersionResource::new("tasks.example.com", "v1", "tasks")
        );
        assert_eq!(
            (definition.list_kind.as_str(), definition.singular.as_str()),
            ("TaskList", "task")
        );
        assert!(definition.namespaced && definition.status_subresource);
        assert_eq!(definition.selectable_fields, [".spec.priority"]);
        let object = json!({"metadata": {"name": "a"}, "spec": {"priority": 11}});
        assert_eq!(schema.validate(&object).len(), 1);
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let mut unstored = crd();
        unstored["spec"]["versions"][0]["storage"] = false.into();
        let mut column = crd();
        column["spec"]["versions"][0]["additionalPrinterColumns"][0]["type"] = "int".into();
        let mut selectable = crd();
        selectable["spec"]["versions"][0]["selectableFields"][0]["jsonPath"] = ".spec.none".into();
        for (crd, word) in [
            (json!({}), "spec"),
            (unstored, "tasks.tasks.example.com"),
            (column, "int"),
            (selectable, ".spec.none"),
        ] {
            let error = from_crd(&crd).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
