//! core/v1 namespaces.
//!
//! A namespace is held by `kubernetes` in its `spec.finalizers`, which only the host takes away, once all in it is gone:
//! see [`super::emptying`].

use std::sync::Arc;

use async_trait::async_trait;
use joinery_object::{GroupVersionResource, Status, WriteOptions, reason};
use joinery_schema::ColumnType;
use serde_json::{Value, json};

use super::define::{Words, definition};
use super::host;
use super::typed::{Go, Struct};
use crate::admit::{Admit, Lookup, Operation, Review, Verdict};
use crate::resource::Resource;
use crate::stored::{Rules, Storage, StoredResource, has_finalizers, names};

/// Created when they are missing. The first two are in every cluster.
const DEFAULTS: [&str; 3] = ["default", "kube-system", "joinery-system"];
/// Namespaces are deleted one by one only.
const WITHOUT_DELETECOLLECTION: [&str; 7] = [
    "create", "delete", "get", "list", "patch", "update", "watch",
];
/// What holds a namespace until it is empty.
const FINALIZER: &str = "kubernetes";
/// Every namespace carries its name as a label, for selectors.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Opens the resource.
pub(super) async fn open(storage: &Arc<Storage>) -> Result<Arc<StoredResource>, Status> {
    let definition = definition(Words {
        group: "",
        plural: "namespaces",
        kind: "Namespace",
        short_names: &["ns"],
        namespaced: false,
        verbs: &WITHOUT_DELETECOLLECTION,
        status_subresource: true,
        description: "Namespace provides a scope for names.",
        properties: json!({
            "spec": {"type": "object", "properties": {
                "finalizers": {"type": "array", "items": {"type": "string"},
                    "description": "What must be done before the namespace can go."},
            }},
            "status": {"type": "object", "properties": {
                "phase": {"type": "string", "description": "Active, or Terminating while it is being emptied."},
            }},
        }),
        columns: &[
            ("Status", ColumnType::String, ".status.phase"),
            ("Age", ColumnType::Date, ".metadata.creationTimestamp"),
        ],
        selectable_fields: &[".status.phase"],
    })?;
    let rules = Rules {
        unconditional_update: true,
        generation: false,
        name: names::label,
        pending: |object| has_finalizers(object) || is_held(object),
        terminate: |object| object["status"]["phase"] = "Terminating".into(),
    };
    StoredResource::open(storage, definition, None, Some(Arc::new(Lifecycle)), rules).await
}

/// Creates the namespaces that are always there.
pub(super) async fn create_defaults(namespaces: &StoredResource) -> Result<(), Status> {
    for name in DEFAULTS {
        let body = json!({"metadata": {"name": name}}).to_string();
        let created = namespaces
            .create(&host(), None, None, body.into(), &WriteOptions::default())
            .await;
        match created {
            Err(status) if !status.is(reason::ALREADY_EXISTS) => return Err(status),
            _ => {}
        }
    }
    Ok(())
}

/// Whether spec.finalizers has any.
pub(super) fn is_held(namespace: &Value) -> bool {
    namespace["spec"]["finalizers"]
        .as_array()
        .is_some_and(|finalizers| !finalizers.is_empty())
}

static SPEC: Struct = Struct {
    name: "NamespaceSpec",
    fields: &[(
        "finalizers",
        Go::List("[]v1.FinalizerName", &Go::Named("v1.FinalizerName")),
    )],
};

static NAMESPACE: Struct = Struct {
    name: "Namespace",
    fields: &[("spec", Go::Struct(&SPEC))],
};

/// What k8s.io/kubernetes has in pkg/registry/core/namespace and in its NamespaceLifecycle admission.
struct Lifecycle;

#[async_trait]
impl Admit for Lifecycle {
    async fn admit(
        &self,
        resource: &GroupVersionResource,
        review: Review,
        _lookup: Arc<dyn Lookup>,
    ) -> Result<Verdict, Status> {
        let name = &*review.key.name;
        if review.operation == Operation::Delete && DEFAULTS.contains(&name) {
            let message = "this namespace may not be deleted";
            return Err(Status::forbidden(resource, name, message));
        }
        let Some(object) = &review.object else {
            return Ok(Verdict::default());
        };
        let mut object: Value = serde_json::from_slice(object).map_err(Status::internal)?;
        NAMESPACE.check_object(&object)?;
        object["metadata"]["labels"][NAME_LABEL] = name.into();
        match &review.old_object {
            None => {
                object["status"] = json!({"phase": "Active"});
                let mut finalizers = object["spec"]["finalizers"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default();
                if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
                    finalizers.push(FINALIZER.into());
                }
                object["spec"] = json!({"finalizers": finalizers});
            }
            Some(old) => {
                let old: Value = serde_json::from_slice(old).map_err(Status::internal)?;
                object["spec"] = old["spec"].clone();
            }
        }
        let object = serde_json::to_vec(&object).map_err(Status::internal)?;
        Ok(Verdict {
            object: Some(object.into()),
            warnings: Vec::new(),
        })
    }
}
