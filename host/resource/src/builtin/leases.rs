//! coordination.k8s.io/v1 leases, which controllers elect their leader by.

use std::sync::Arc;

use joinery_object::{Cause, Status};
use joinery_schema::ColumnType;
use serde_json::{Value, json};

use super::define::{VERBS, Words, definition};
use super::typed::{Go, Struct, Typed};
use crate::admit::Review;
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
    let admit = Typed {
        group: "coordination.k8s.io",
        of: &LEASE,
        validate,
    };
    let rules = Rules {
        generation: false,
        ..Rules::default()
    };
    StoredResource::open(storage, definition, None, admit.shared(), rules).await
}

static SPEC: Struct = Struct {
    name: "LeaseSpec",
    fields: &[
        ("holderIdentity", Go::String),
        ("leaseDurationSeconds", Go::Int32),
        ("acquireTime", Go::MicroTime),
        ("renewTime", Go::MicroTime),
        ("leaseTransitions", Go::Int32),
    ],
};

static LEASE: Struct = Struct {
    name: "Lease",
    fields: &[("spec", Go::Struct(&SPEC))],
};

/// k8s.io/kubernetes/pkg/apis/coordination/validation, ValidateLeaseSpec.
fn validate(_review: &Review, lease: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = &lease["spec"];
    for (field, least, why) in [
        ("leaseDurationSeconds", 1, "must be greater than 0"),
        ("leaseTransitions", 0, "must be greater than or equal to 0"),
    ] {
        if let Some(number) = spec[field].as_i64().filter(|number| *number < least) {
            causes.push(Cause::invalid(format!("spec.{field}"), number, why));
        }
    }
    causes
}
