//! core/v1 services: there are none, but `kubectl cluster-info` asks for those of the cluster.

use std::sync::Arc;

use joinery_object::Status;
use joinery_schema::ColumnType;
use serde_json::json;

use super::define::{Words, definition, open_object};
use crate::stored::{Rules, Storage, StoredResource};

/// Opens the resource.
pub(super) async fn open(storage: &Arc<Storage>) -> Result<Arc<StoredResource>, Status> {
    let definition = definition(Words {
        group: "",
        plural: "services",
        kind: "Service",
        short_names: &["svc"],
        namespaced: true,
        verbs: &["get", "list", "watch"],
        status_subresource: false,
        description: "Service names what answers on the network. Standalone has no network, hence none.",
        properties: json!({"spec": open_object("What the Service stands for.")}),
        columns: &[("Age", ColumnType::Date, ".metadata.creationTimestamp")],
        selectable_fields: &[],
    })?;
    StoredResource::open(storage, definition, None, None, Rules::default()).await
}
