//! @KIND@: a Pod and what its Events tell. Nothing is stored: each object is joined from a Pod and its Events.

use joinery_sdk::{
    ApiResource, Column, Composed, Composer, Description, Failure, Group, GroupVersion,
    GroupVersionResource, Plugin, Relation, Selection, Shape, Side, Source, View, ViewShape,
};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The one relation: from a Pod to its Events.
const EVENTS: &str = "events";

/// The plugin: its settings, and nothing else.
pub struct Logic {
    at: GroupVersion,
}

impl Plugin for Logic {
    fn configure(settings: &str) -> Result<Self, String> {
        let at = GroupVersion::from_settings(settings, "@GROUP@", "v1")?;
        Ok(Self { at })
    }

    fn describe(&self) -> Description {
        let pods = Source {
            name: "pods".into(),
            gvr: GroupVersionResource::new("", "v1", "pods"),
            // The plugin is given these fields, and apiVersion, kind, namespace, name and uid.
            reads: vec![
                "/metadata/creationTimestamp".into(),
                "/metadata/labels".into(),
                "/status/phase".into(),
            ],
            // Where there are no Pods, as in `joinery standalone`, there is nothing to show.
            optional: true,
            ..Source::default()
        };
        let events = Source {
            name: "events".into(),
            gvr: GroupVersionResource::new("", "v1", "events"),
            field_selector: "involvedObject.kind=Pod".into(),
            reads: vec![
                "/involvedObject/uid".into(),
                "/lastTimestamp".into(),
                "/reason".into(),
                "/type".into(),
            ],
            ..Source::default()
        };
        let resource = ApiResource {
            group: self.at.group.clone(),
            version: self.at.version.clone(),
            kind: "@KIND@".into(),
            plural: "@PLURAL@".into(),
            namespaced: true,
            schema: include_str!("schema.json").into(),
            columns: vec![
                Column::new("Phase", "string", ".status.phase", "Of the Pod."),
                Column::new("Warnings", "integer", ".status.warnings", "Events of type Warning."),
                Column::new("Last", "string", ".status.lastReason", "Reason of the last Event."),
                Column::new("Age", "date", ".metadata.creationTimestamp", ""),
            ],
            shape: Shape::View(ViewShape {
                primary: "pods".into(),
                relations: vec![Relation {
                    name: EVENTS.into(),
                    source: "events".into(),
                    limit: 100,
                    ..Relation::default()
                }],
            }),
            ..ApiResource::default()
        };
        Description {
            resources: vec![resource],
            sources: vec![pods, events],
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pod<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(default)]
    namespace: String,
    name: String,
    #[serde(default)]
    uid: String,
    creation_timestamp: Option<String>,
    /// Passed on as they are.
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Status {
    phase: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(default)]
    involved_object: Involved,
    last_timestamp: Option<String>,
    reason: Option<String>,
    r#type: Option<String>,
}

#[derive(Default, Deserialize)]
struct Involved {
    uid: Option<String>,
}

fn unreadable(error: serde_json::Error) -> Failure {
    Failure::internal(format!("unreadable: {error}"))
}

impl View for Logic {
    /// A Pod and an Event belong together when both have the Pod's uid for a key.
    fn keys(&self, _relation: &str, side: Side, object: &[u8]) -> Vec<String> {
        let uid = match side {
            Side::Parent => serde_json::from_slice(object).map(|pod: Pod| Some(pod.metadata.uid)),
            Side::Child => serde_json::from_slice(object).map(|e: Event| e.involved_object.uid),
        };
        uid.ok().flatten().into_iter().collect()
    }

    /// Asked in live reading only. A field selector holds one uid; for several, all Events of Pods are asked for, and
    /// the host picks by keys.
    fn query(&self, _relation: &str, keys: &[String]) -> Selection {
        match keys {
            [uid] => Selection::Selector {
                label_selector: String::new(),
                field_selector: format!("involvedObject.uid={uid}"),
            },
            _ => Selection::All,
        }
    }

    fn combine(&self, _resource: &str, group: &Group) -> Result<Option<Composed>, Failure> {
        let pod: Pod = serde_json::from_slice(&group.primary).map_err(unreadable)?;
        let events = group.branches[0]
            .objects
            .iter()
            .map(|event| serde_json::from_slice(event))
            .collect::<Result<Vec<Event>, _>>()
            .map_err(unreadable)?;
        let warnings = events.iter().filter(|e| e.r#type.as_deref() == Some("Warning"));
        // RFC 3339 in UTC sorts as text.
        let last = events.iter().enumerate().max_by_key(|(_, e)| &e.last_timestamp);

        let mut out = Composer::new();
        out.begin_object();
        out.key("apiVersion").string(&format!("{}/{}", self.at.group, self.at.version));
        out.key("kind").string("@KIND@");
        out.key("metadata").begin_object();
        out.key("name").string(&pod.metadata.name);
        out.key("namespace").string(&pod.metadata.namespace);
        out.key("uid").string(&pod.metadata.uid);
        if let Some(time) = &pod.metadata.creation_timestamp {
            out.key("creationTimestamp").string(time);
        }
        if let Some(labels) = pod.metadata.labels {
            out.key("labels").raw(labels.get());
        }
        out.end_object();
        out.key("status").begin_object();
        out.key("phase").string(pod.status.phase.as_deref().unwrap_or("Unknown"));
        out.key("warnings").integer(warnings.count() as u64);
        if let Some((position, event)) = last {
            out.key("lastReason").string(event.reason.as_deref().unwrap_or_default());
            // By reference: the host puts the whole Event there, and its bytes never pass through here.
            out.key("lastEvent").insert(group.input(0, position));
        }
        out.end_object();
        out.end_object();
        Ok(Some(out.finish()))
    }
}

joinery_sdk::export_view!(Logic);

#[cfg(test)]
mod tests {
    use joinery_sdk::Branch;
    use serde_json::{Value, json};

    use super::*;

    fn logic() -> Logic {
        Logic::configure("").expect("no settings are good settings")
    }

    fn event(uid: &str, reason: &str, time: &str, kind: &str) -> Vec<u8> {
        let event = json!({"involvedObject": {"uid": uid}, "reason": reason, "lastTimestamp": time, "type": kind});
        event.to_string().into_bytes()
    }

    fn pod() -> Vec<u8> {
        let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "status": {"phase": "Running"}});
        pod.to_string().into_bytes()
    }

    #[test]
    fn a_pod_and_its_events_share_a_key() {
        let logic = logic();
        assert_eq!(logic.keys(EVENTS, Side::Parent, &pod()), ["u"]);
        assert_eq!(logic.keys(EVENTS, Side::Child, &event("u", "", "", "")), ["u"]);
        assert!(logic.keys(EVENTS, Side::Child, b"{}").is_empty());
    }

    #[test]
    fn the_last_event_tells() {
        let branch = Branch {
            objects: vec![
                event("u", "Late", "2026-01-02T00:00:00Z", "Normal"),
                event("u", "Early", "2026-01-01T00:00:00Z", "Warning"),
            ],
            ..Branch::default()
        };
        let group = Group {
            primary: pod(),
            branches: vec![branch],
        };
        let composed = logic().combine("@PLURAL@", &group).expect("composed").expect("an object");
        let object: Value = serde_json::from_slice(&composed.fill(&group)).expect("JSON");
        assert_eq!(object["metadata"]["uid"], "u");
        assert_eq!(object["status"]["warnings"], 1);
        assert_eq!(object["status"]["lastReason"], "Late");
        assert_eq!(object["status"]["lastEvent"]["reason"], "Late");
    }

    #[test]
    fn a_pod_without_events_is_shown() {
        let group = Group {
            primary: pod(),
            branches: vec![Branch::default()],
        };
        let composed = logic().combine("@PLURAL@", &group).expect("composed").expect("an object");
        let object: Value = serde_json::from_slice(&composed.fill(&group)).expect("JSON");
        assert_eq!(object["status"], json!({"phase": "Running", "warnings": 0}));
    }
}
