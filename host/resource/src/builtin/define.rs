//! Definitions of built-in resources, from the few words in which they differ.

use joinery_object::{GroupVersionResource, Status};
use joinery_schema::{Column, ColumnType, Columns};
use serde_json::{Value, json};

use crate::resource::Definition;

/// What a stored resource can do.
pub(super) const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// The words of a built-in resource.
pub(super) struct Words {
    pub(super) group: &'static str,
    pub(super) plural: &'static str,
    pub(super) kind: &'static str,
    pub(super) short_names: &'static [&'static str],
    pub(super) namespaced: bool,
    pub(super) verbs: &'static [&'static str],
    pub(super) status_subresource: bool,
    pub(super) description: &'static str,
    /// The schema of each member besides apiVersion, kind and metadata.
    pub(super) properties: Value,
    /// Name, type, JSON path.
    pub(super) columns: &'static [(&'static str, ColumnType, &'static str)],
    pub(super) selectable_fields: &'static [&'static str],
}

/// A definition of version v1. Its schema is for documents only: unknown fields are kept.
///
/// # Errors
/// When a column cannot be used, which is a mistake in this crate.
pub(super) fn definition(words: Words) -> Result<Definition, Status> {
    let columns: Vec<Column> = words
        .columns
        .iter()
        .map(|(name, column_type, path)| Column {
            name: (*name).to_owned(),
            column_type: *column_type,
            format: String::new(),
            description: String::new(),
            json_path: (*path).to_owned(),
            priority: 0,
        })
        .collect();
    let mut properties = words.properties;
    properties["apiVersion"] = json!({"type": "string"});
    properties["kind"] = json!({"type": "string"});
    properties["metadata"] = json!({"type": "object"});
    let schema = json!({
        "type": "object",
        "description": words.description,
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": properties,
    });
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Ok(Definition {
        gvr: GroupVersionResource::new(words.group, "v1", words.plural),
        kind: words.kind.to_owned(),
        list_kind: format!("{}List", words.kind),
        singular: words.kind.to_ascii_lowercase(),
        short_names: owned(words.short_names),
        categories: Vec::new(),
        namespaced: words.namespaced,
        verbs: words.verbs.to_vec(),
        status_subresource: words.status_subresource,
        schema: schema.to_string().into(),
        columns: Columns::compile(&columns).map_err(Status::internal)?,
        selectable_fields: owned(words.selectable_fields),
    })
}

/// The schema of an object whose members are not told.
pub(super) fn open_object(description: &str) -> Value {
    json!({"type": "object", "description": description, "x-kubernetes-preserve-unknown-fields": true})
}

/// The schema of a text.
pub(super) fn string(description: &str) -> Value {
    json!({"type": "string", "description": description})
}
