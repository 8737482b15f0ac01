//! coordination.k8s.io/v1 leases, which controllers elect their leader by.

use std::sync::Arc;

use joinery_object::Status;
use joinery_schema::ColumnType;
use serde_json::json;

use super::define::{VERBS, Words, definition};
use crate::stored::{Rules, Storage, StoredResource};

/// Opens the resource.
pub(super) async fn open(storage: &Arc<Storage>) -> Result<Arc<StoredResource>, Status> {
    let time = json!({"type": "string", "format": "date-time", "nullable": true});
    let definition = definition(Words {
        group: "coordination.k8s.io",
        plural: "leases",
        kind: "Lease",
        short_names: &[],
        namespaced: true,
        verbs: &VERBS,
        status_subresource: false,
        description: "Lease says who holds something, and for how long.",
        properties: json!({
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                "holderIdentity": {"type": "string", "nullable": true},
                "leaseDurationSeconds": {"type": "integer", "format": "int32", "nullable": true},
                "acquireTime": time,
                "renewTime": time,
                "leaseTransitions": {"type": "integer", "format": "int32", "nullable": true},
            }},
        }),
        columns: &[
            ("Holder", ColumnType::String, ".spec.holderIdentity"),
            ("Age", ColumnType::Date, ".metadata.creationTimestamp"),
        ],
        selectable_fields: &[],
    })?;
    let rules = Rules {
        generation: false,
        ..Rules::default()
    };
    StoredResource::open(storage, definition, None, None, rules).await
}
