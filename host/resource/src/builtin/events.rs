//! core/v1 events.

use std::sync::Arc;

use async_trait::async_trait;
use joinery_object::{Cause, GroupVersionResource, Status};
use joinery_schema::ColumnType;
use serde_json::{Value, json};

use super::define::{VERBS, Words, definition, open_object, string};
use crate::admit::{Admit, Lookup, Review, Verdict};
use crate::stored::{Rules, Storage, StoredResource};

/// Opens the resource.
pub(super) async fn open(storage: &Arc<Storage>) -> Result<Arc<StoredResource>, Status> {
    let time = |description: &str| json!({"type": "string", "format": "date-time", "nullable": true, "description": description});
    let definition = definition(Words {
        group: "",
        plural: "events",
        kind: "Event",
        short_names: &["ev"],
        namespaced: true,
        verbs: &VERBS,
        status_subresource: false,
        description: "Event is a report of something that happened to an object. It is kept for a limited time.",
        properties: json!({
            "involvedObject": {"type": "object", "description": "The object that this event is about.",
                "x-kubernetes-preserve-unknown-fields": true, "properties": {
                    "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "namespace": {"type": "string"},
                    "name": {"type": "string"}, "uid": {"type": "string"}, "resourceVersion": {"type": "string"},
                    "fieldPath": {"type": "string"}}},
            "reason": string("Why the object is as it is now, as one word for programs."),
            "message": string("What happened, for people."),
            "type": string("Normal or Warning."),
            "source": open_object("The component that reports this event."),
            "firstTimestamp": time("When the event was recorded first."),
            "lastTimestamp": time("When the event was recorded last."),
            "eventTime": time("When the event was observed."),
            "count": {"type": "integer", "format": "int32", "description": "How often the event has occurred."},
            "series": {"type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true,
                "description": "The series of events that this one stands for."},
            "action": string("What was done or failed."),
            "related": {"type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true,
                "description": "Another object that has to do with it."},
            "reportingComponent": string("The controller that wrote this event."),
            "reportingInstance": string("The instance of that controller."),
        }),
        columns: &[
            ("Last Seen", ColumnType::Date, ".lastTimestamp"),
            ("Type", ColumnType::String, ".type"),
            ("Reason", ColumnType::String, ".reason"),
            ("Object", ColumnType::String, ".involvedObject.name"),
            ("Message", ColumnType::String, ".message"),
        ],
        selectable_fields: &[
            ".involvedObject.kind",
            ".involvedObject.namespace",
            ".involvedObject.name",
            ".involvedObject.uid",
            ".involvedObject.apiVersion",
            ".involvedObject.resourceVersion",
            ".involvedObject.fieldPath",
            ".reason",
            ".reportingComponent",
            ".type",
        ],
    })?;
    let rules = Rules {
        unconditional_update: true,
        generation: false,
        ..Rules::default()
    };
    StoredResource::open(storage, definition, None, Some(Arc::new(Validation)), rules).await
}

/// The part of k8s.io/kubernetes' validation of Events that keeps them where their object is.
struct Validation;

#[async_trait]
impl Admit for Validation {
    async fn admit(
        &self,
        _resource: &GroupVersionResource,
        review: Review,
        _lookup: Arc<dyn Lookup>,
    ) -> Result<Verdict, Status> {
        let Some(object) = &review.object else {
            return Ok(Verdict::default());
        };
        let event: Value = serde_json::from_slice(object).map_err(Status::internal)?;
        let involved = event["involvedObject"]["namespace"]
            .as_str()
            .unwrap_or_default();
        let namespace = review.key.namespace.as_deref().unwrap_or_default();
        // Events of cluster-scoped objects live in the namespace default, or where clients before v1 put them.
        let fits = match involved {
            "" => matches!(namespace, "default" | "kube-system"),
            involved => involved == namespace,
        };
        if fits {
            return Ok(Verdict::default());
        }
        let detail = "does not match event.namespace";
        let cause = Cause::invalid("involvedObject.namespace", involved, detail);
        Err(Status::invalid("", "Event", &review.key.name, vec![cause]))
    }
}
