//! core/v1 configmaps.

use std::sync::Arc;

use joinery_object::{Cause, Status};
use joinery_schema::{Cell, Column, ColumnType, Columns};
use serde_json::{Value, json};

use super::define::{VERBS, Words, definition};
use super::typed::{Go, Struct, Typed};
use crate::admit::Review;
use crate::stored::{Rules, Storage, StoredResource};

/// Opens the resource.
pub(super) async fn open(storage: &Arc<Storage>) -> Result<Arc<StoredResource>, Status> {
    let mut definition = definition(Words {
        group: "",
        plural: "configmaps",
        kind: "ConfigMap",
        short_names: &["cm"],
        namespaced: true,
        verbs: &VERBS,
        status_subresource: false,
        description: "ConfigMap holds configuration for others to read.",
        properties: json!({
            "data": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Texts by key."},
            "binaryData": {"type": "object", "additionalProperties": {"type": "string", "format": "byte"},
                "description": "Base64 by key."},
            "immutable": {"type": "boolean", "nullable": true,
                "description": "Whether the data shall not change any more."},
        }),
        columns: &[],
        selectable_fields: &[],
    })?;
    definition.columns = Columns::made(&columns(), cells).map_err(Status::internal)?;
    let admit = Typed {
        group: "",
        of: &CONFIG_MAP,
        validate,
    };
    let rules = Rules {
        unconditional_update: true,
        generation: false,
        ..Rules::default()
    };
    StoredResource::open(storage, definition, None, admit.shared(), rules).await
}

static CONFIG_MAP: Struct = Struct {
    name: "ConfigMap",
    fields: &[
        ("immutable", Go::Bool),
        ("data", Go::Map("map[string]string", &Go::String)),
        ("binaryData", Go::Map("map[string][]uint8", &Go::Bytes)),
    ],
};

/// Bytes of a key.
const MAX_KEY: usize = 253;

/// k8s.io/kubernetes/pkg/apis/core/validation, ValidateConfigMap, without its bound on the whole, which a request has
/// anyway.
fn validate(_review: &Review, config_map: &Value) -> Vec<Cause> {
    let keys = |field: &'static str| {
        let members = config_map[field].as_object();
        members
            .into_iter()
            .flatten()
            .map(move |(key, _)| (field, key))
    };
    let mut causes = Vec::new();
    for (field, key) in keys("data").chain(keys("binaryData")) {
        let path = format!("{field}[{key}]");
        if field == "data" && config_map["binaryData"].get(key).is_some() {
            causes.push(Cause::invalid(
                &path,
                key,
                "duplicate of key present in binaryData",
            ));
        }
        if key.len() > MAX_KEY {
            let why = format!("must be no more than {MAX_KEY} characters");
            causes.push(Cause::invalid(&path, key, &why));
        }
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
        if key.is_empty() || !key.bytes().all(allowed) {
            let why = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
            causes.push(Cause::invalid(&path, key, why));
        } else if key == "." || key.starts_with("..") {
            let why = if key == "." {
                "must not be '.'"
            } else {
                "must not start with '..'"
            };
            causes.push(Cause::invalid(&path, key, why));
        }
    }
    causes
}

fn columns() -> Vec<Column> {
    let column = |name: &str, format: &str, description: &str| Column {
        name: name.to_owned(),
        column_type: ColumnType::String,
        format: format.to_owned(),
        description: description.to_owned(),
        json_path: String::new(),
        priority: 0,
    };
    vec![
        column("Name", "name", "The name of the ConfigMap."),
        column("Data", "", "How many keys it has."),
        column("Age", "", "How long ago it was created."),
    ]
}

fn cells(config_map: &Value) -> Vec<Cell> {
    let count = |field: &str| {
        config_map[field]
            .as_object()
            .map_or(0, |members| members.len())
    };
    let metadata = &config_map["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    vec![
        Cell::text(text("name")),
        Cell::integer(i64::try_from(count("data") + count("binaryData")).unwrap_or(i64::MAX)),
        Cell::date(text("creationTimestamp")),
    ]
}
