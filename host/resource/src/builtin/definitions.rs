//! apiextensions.k8s.io/v1 customresourcedefinitions, to be read: those whose resources are served. kubectl looks there
//! for a kind that it cannot patch, before it validates.

use std::sync::Arc;

use joinery_object::{ObjectKey, Status, WriteOptions, reason};
use joinery_schema::ColumnType;
use serde_json::{Value, json};

use super::define::{Words, definition, open_object};
use super::host;
use crate::resource::Resource;
use crate::stored::{Rules, Storage, StoredResource};

/// Opens the resource with these definitions in it.
pub(super) async fn open(
    storage: &Arc<Storage>,
    crds: &[Value],
) -> Result<Arc<StoredResource>, Status> {
    let definition = definition(Words {
        group: "apiextensions.k8s.io",
        plural: "customresourcedefinitions",
        kind: "CustomResourceDefinition",
        short_names: &["crd", "crds"],
        namespaced: false,
        verbs: &["get", "list", "watch"],
        status_subresource: false,
        description: "CustomResourceDefinition says what a resource is whose objects have no type in Go.",
        properties: json!({"spec": open_object("The names, the scope and the versions.")}),
        columns: &[(
            "Created At",
            ColumnType::Date,
            ".metadata.creationTimestamp",
        )],
        selectable_fields: &[],
    })?;
    let rules = Rules {
        unconditional_update: true,
        generation: false,
        ..Rules::default()
    };
    let definitions = StoredResource::open(storage, definition, None, None, rules).await?;
    let options = WriteOptions::default();
    for crd in crds {
        let body = bytes::Bytes::from(crd.to_string());
        let created = definitions
            .create(&host(), None, None, body.clone(), &options)
            .await;
        match created {
            // It may be another one since the last start.
            Err(status) if status.is(reason::ALREADY_EXISTS) => {
                let key =
                    ObjectKey::new(None, crd["metadata"]["name"].as_str().unwrap_or_default());
                definitions
                    .update(&host(), &key, None, body, &options)
                    .await?;
            }
            created => drop(created?),
        }
    }
    Ok(definitions)
}
