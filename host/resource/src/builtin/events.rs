//! core/v1 events.

use std::sync::Arc;

use joinery_object::{Cause, Status};
use joinery_schema::{Cell, Column, ColumnType, Columns};
use serde_json::{Value, json};

use super::define::{VERBS, Words, definition, open_object, string};
use super::typed::{Go, Struct, Typed};
use crate::admit::Review;
use crate::stored::{Rules, Storage, StoredResource, names};

/// Opens the resource.
pub(super) async fn open(storage: &Arc<Storage>) -> Result<Arc<StoredResource>, Status> {
    let time = |description: &str| json!({"type": "string", "format": "date-time", "nullable": true, "description": description});
    let mut definition = definition(Words {
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
        columns: &[],
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
    definition.columns = Columns::made(&columns(), cells).map_err(Status::internal)?;
    let admit = Typed {
        group: "",
        of: &EVENT,
        validate,
    };
    let rules = Rules {
        unconditional_update: true,
        generation: false,
        ..Rules::default()
    };
    StoredResource::open(storage, definition, None, admit.shared(), rules).await
}

static REFERENCE: Struct = Struct {
    name: "ObjectReference",
    fields: &[
        ("kind", Go::String),
        ("namespace", Go::String),
        ("name", Go::String),
        ("uid", Go::Named("types.UID")),
        ("apiVersion", Go::String),
        ("resourceVersion", Go::String),
        ("fieldPath", Go::String),
    ],
};

static SOURCE: Struct = Struct {
    name: "EventSource",
    fields: &[("component", Go::String), ("host", Go::String)],
};

static SERIES: Struct = Struct {
    name: "EventSeries",
    fields: &[("count", Go::Int32), ("lastObservedTime", Go::MicroTime)],
};

static EVENT: Struct = Struct {
    name: "Event",
    fields: &[
        ("involvedObject", Go::Struct(&REFERENCE)),
        ("reason", Go::String),
        ("message", Go::String),
        ("source", Go::Struct(&SOURCE)),
        ("firstTimestamp", Go::Time),
        ("lastTimestamp", Go::Time),
        ("count", Go::Int32),
        ("type", Go::String),
        ("eventTime", Go::MicroTime),
        ("series", Go::Struct(&SERIES)),
        ("action", Go::String),
        ("related", Go::Struct(&REFERENCE)),
        ("reportingComponent", Go::String),
        ("reportingInstance", Go::String),
    ],
};

/// Bytes of the message of an Event with an eventTime.
const MAX_NOTE: usize = 1024;
/// Bytes of reportingInstance.
const MAX_INSTANCE: usize = 128;

/// k8s.io/kubernetes/pkg/apis/core/validation/events.go, legacyValidateEvent.
fn validate(review: &Review, event: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let involved = event["involvedObject"]["namespace"]
        .as_str()
        .unwrap_or_default();
    let namespace = review.key.namespace.as_deref().unwrap_or_default();
    // Events of cluster-scoped objects live in the namespace default, or where clients before v1 put them.
    let fits = match involved {
        "" => matches!(namespace, "default" | "kube-system"),
        involved => involved == namespace,
    };
    if !fits {
        let detail = "does not match event.namespace";
        causes.push(Cause::invalid("involvedObject.namespace", involved, detail));
    }
    if event["eventTime"].is_null() {
        return causes;
    }
    let text = |field: &str| event[field].as_str().unwrap_or_default();
    let required = |field: &'static str, causes: &mut Vec<Cause>| {
        if text(field).is_empty() {
            causes.push(Cause::required(field, ""));
        }
    };
    required("reportingComponent", &mut causes);
    let component = text("reportingComponent");
    let faults = names::qualified(component).into_iter();
    causes.extend(faults.map(|why| Cause::invalid("reportingComponent", component, &why)));
    required("reportingInstance", &mut causes);
    let too_long = |most| format!("can have at most {most} characters");
    if text("reportingInstance").len() > MAX_INSTANCE {
        causes.push(Cause::invalid(
            "reportingInstance",
            "",
            &too_long(MAX_INSTANCE),
        ));
    }
    required("action", &mut causes);
    required("reason", &mut causes);
    if text("message").len() > MAX_NOTE {
        causes.push(Cause::invalid("message", "", &too_long(MAX_NOTE)));
    }
    causes
}

/// Those of k8s.io/kubernetes/pkg/printers/internalversion: all text, the name last.
fn columns() -> Vec<Column> {
    let columns = [
        (
            "Last Seen",
            "When the most recent occurrence was recorded.",
            0,
        ),
        ("Type", "Normal or Warning.", 0),
        (
            "Reason",
            "Why the object is as it is now, as one word for programs.",
            0,
        ),
        ("Object", "The object that this event is about.", 0),
        (
            "Subobject",
            "The part of the object that this event is about.",
            1,
        ),
        ("Source", "The component that reports this event.", 1),
        ("Message", "What happened, for people.", 0),
        ("First Seen", "When the event was first recorded.", 1),
        ("Count", "How often the event has occurred.", 1),
        ("Name", "The name of the event.", 1),
    ];
    let column = |(name, description, priority): (&str, &str, i32)| Column {
        name: name.to_owned(),
        column_type: ColumnType::String,
        format: if name == "Name" { "name" } else { "" }.to_owned(),
        description: description.to_owned(),
        json_path: String::new(),
        priority,
    };
    columns.map(column).into()
}

/// printEvent of the same.
fn cells(event: &Value) -> Vec<Cell> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let or = |first: String, second: String| if first.is_empty() { second } else { first };
    let since = |value: &Value| Cell::date(value.as_str().unwrap_or_default());
    let first_of = |first: &Value, second: Cell| match first.as_str() {
        Some(time) if !time.is_empty() => Cell::date(time),
        _ => second,
    };
    let first_seen = first_of(&event["firstTimestamp"], since(&event["eventTime"]));
    let series = &event["series"];
    let (last_seen, count) = if series.is_object() {
        (
            since(&series["lastObservedTime"]),
            series["count"].as_i64().unwrap_or_default(),
        )
    } else {
        let last_seen = first_of(&event["lastTimestamp"], first_seen.clone());
        (
            last_seen,
            event["count"]
                .as_i64()
                .filter(|count| *count != 0)
                .unwrap_or(1),
        )
    };
    let object = &event["involvedObject"];
    let mut target = text(&object["kind"]).to_lowercase();
    let name = text(&object["name"]);
    if !name.is_empty() {
        target = format!("{target}/{name}");
    }
    let source = &event["source"];
    let component = or(
        text(&source["component"]),
        text(&event["reportingComponent"]),
    );
    let instance = or(text(&source["host"]), text(&event["reportingInstance"]));
    let source = match instance.as_str() {
        "" => component,
        instance => format!("{component}, {instance}"),
    };
    let cell = |text: &str| Cell::text(text);
    vec![
        last_seen,
        cell(&text(&event["type"])),
        cell(&text(&event["reason"])),
        cell(&target),
        cell(&text(&object["fieldPath"])),
        cell(&source),
        cell(text(&event["message"]).trim()),
        first_seen,
        Cell::integer(count),
        cell(&text(&event["metadata"]["name"])),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_kubectl_shows() {
        let row = |event: Value| -> String {
            let now = "2026-11-30T13:00:00Z".parse().unwrap();
            let cells = cells(&event);
            let texts = cells.iter().map(|cell| cell.to_json(now));
            let texts: Vec<_> = texts
                .map(|t| String::from_utf8(t.to_vec()).unwrap())
                .collect();
            texts.join("|")
        };
        assert_eq!(
            row(
                json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Task", "name": "t", "fieldPath": "spec.x"},
                "reason": "R", "message": " m ", "type": "Normal", "count": 3, "source": {"component": "c", "host": "h"},
                "firstTimestamp": "2026-11-30T12:00:00Z", "lastTimestamp": "2026-11-30T12:59:50Z"})
            ),
            r#""10s"|"Normal"|"R"|"task/t"|"spec.x"|"c, h"|"m"|"60m"|3|"e""#
        );
        assert_eq!(
            row(
                json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Task"}, "eventTime": "2026-11-30T12:00:00.000000Z",
                "reportingComponent": "c", "series": {"count": 5, "lastObservedTime": "2026-11-30T12:30:00.000000Z"}})
            ),
            r#""30m"|""|""|"task"|""|"c"|""|"60m"|5|"e""#
        );
        assert_eq!(
            row(json!({"metadata": {"name": "e"}, "involvedObject": {}})),
            r#""<unknown>"|""|""|""|""|""|""|"<unknown>"|1|"e""#
        );
    }
}
