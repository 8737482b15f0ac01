//! core/v1 configmaps.

use std::sync::Arc;

use joinery_object::Status;
use joinery_schema::ColumnType;
use serde_json::json;

use super::define::{VERBS, Words, definition};
use crate::stored::{Rules, Storage, StoredResource};

/// Opens the resource.
pub(super) async fn open(storage: &Arc<Storage>) -> Result<Arc<StoredResource>, Status> {
    let definition = definition(Words {
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
        columns: &[("Age", ColumnType::Date, ".metadata.creationTimestamp")],
        selectable_fields: &[],
    })?;
    let rules = Rules {
        unconditional_update: true,
        generation: false,
        ..Rules::default()
    };
    StoredResource::open(storage, definition, None, None, rules).await
}
