use std::borrow::Cow;

use joinery_sdk::time::Timestamp;
use joinery_sdk::{Composed, Composer, Fields, Group};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::settings::Settings;

/// Of a Task's metadata, what its CombinedTask has too. The host adds metadata.resourceVersion, the view's own.
pub(crate) const METADATA: [&str; 11] = [
    "name",
    "namespace",
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
];

/// What the view adds to a Task's status. Should a Task have such fields of its own, the view's stand.
const OWN_STATUS: [&str; 3] = ["events", "taskResourceVersion", "summary"];

#[derive(Deserialize)]
struct Task<'a> {
    #[serde(borrow)]
    metadata: Fields<'a>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<Fields<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    #[serde(borrow)]
    metadata: EventMetadata<'a>,
    #[serde(borrow, default, deserialize_with = "text")]
    reason: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "series")]
    series: Option<Series<'a>>,
    #[serde(borrow, default, deserialize_with = "text")]
    last_timestamp: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text")]
    event_time: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text")]
    first_timestamp: Option<Cow<'a, str>>,
}

/// A string, or none: whoever may write one Event must not be able to break the whole CombinedTask with it.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cow<'de, str>>, D::Error> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    let raw = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str::<Text>(raw.get())
        .ok()
        .map(|text| text.0))
}

/// An object, or none, as [`text`].
fn series<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Series<'de>>, D::Error> {
    let raw = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).ok())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventMetadata<'a> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "text")]
    creation_timestamp: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Series<'a> {
    #[serde(borrow, default, deserialize_with = "text")]
    last_observed_time: Option<Cow<'a, str>>,
}

impl Event<'_> {
    /// When it last happened. Writers of Events fill different fields, so the first one that is set counts.
    fn time(&self) -> Option<&str> {
        let observed = self
            .series
            .as_ref()
            .and_then(|s| s.last_observed_time.as_deref());
        observed
            .or(self.last_timestamp.as_deref())
            .or(self.event_time.as_deref())
            .or(self.first_timestamp.as_deref())
            .or(self.metadata.creation_timestamp.as_deref())
    }
}

/// Shapes one CombinedTask. Its Events are holes: the host puts them in whole and by reference.
pub(crate) fn combine(settings: &Settings, group: &Group) -> Result<Composed, serde_json::Error> {
    let task: Task = serde_json::from_slice(&group.primary)?;
    let (events, omitted) = match group.branches.first() {
        Some(branch) => (branch.objects.as_slice(), branch.omitted),
        None => (Default::default(), 0),
    };
    let events = events
        .iter()
        .map(|e| serde_json::from_slice(e))
        .collect::<Result<Vec<Event>, _>>()?;
    // Parsed once an Event, not once a comparison. An Event without a time comes first.
    let times: Vec<_> = events
        .iter()
        .map(|e| e.time().and_then(Timestamp::parse))
        .collect();
    let mut order: Vec<usize> = (0..events.len()).collect();
    order.sort_by(|&a, &b| {
        times[a]
            .cmp(&times[b])
            .then_with(|| events[a].metadata.uid.cmp(&events[b].metadata.uid))
    });

    let mut out = Composer::with_capacity(group.primary.len() + 256);
    out.begin_object();
    out.key("apiVersion")
        .string(&format!("{}/{}", settings.group, settings.version));
    out.key("kind").string("CombinedTask");
    out.key("metadata").begin_object();
    for (name, value) in task
        .metadata
        .iter()
        .filter(|(name, _)| METADATA.contains(name))
    {
        out.key(name).raw(value);
    }
    out.end_object();
    if let Some(spec) = task.spec {
        out.key("spec").raw(spec.get());
    }
    out.key("status").begin_object();
    let own = task.status.iter().flat_map(Fields::iter);
    for (name, value) in own.filter(|(name, _)| !OWN_STATUS.contains(name)) {
        out.key(name).raw(value);
    }
    out.key("events").begin_array();
    for &position in &order {
        out.insert(group.input(0, position));
    }
    out.end_array();
    out.key("summary").begin_object();
    out.key("events").integer(events.len() as u64 + omitted);
    if omitted > 0 {
        out.key("omitted").integer(omitted);
    }
    if let Some(last) = order.last().map(|&position| &events[position]) {
        out.key("lastReason")
            .string(last.reason.as_deref().unwrap_or_default());
        if let Some(time) = last.time() {
            out.key("lastTime").string(time);
        }
    }
    out.end_object();
    if let Some(version) = task.metadata.get("resourceVersion") {
        out.key("taskResourceVersion").raw(version);
    }
    out.end_object();
    out.end_object();
    Ok(out.finish())
}

#[cfg(test)]
mod tests {
    use joinery_sdk::Branch;
    use serde_json::{Value, json};

    use super::*;

    fn task() -> Value {
        json!({
            "apiVersion": "tasks.example.com/v1", "kind": "Task",
            "metadata": {
                "name": "task-sample-5", "namespace": "default", "uid": "t5", "resourceVersion": "41",
                "generation": 2, "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"a": "b"}, "annotations": {"c": "d\n"}, "finalizers": ["tasks.example.com/finalizer"],
                "selfLink": "/old",
            },
            "spec": {"priority": 3, "deadline": "2026-02-01T00:00:00Z", "details": "ä", "taskState": "Pending"},
            "status": {"observedGeneration": 2, "conditions": []},
        })
    }

    fn event(uid: &str, times: Value) -> Value {
        let mut event = json!({
            "apiVersion": "v1", "kind": "Event", "reason": format!("Reason-{uid}"), "message": "big",
            "metadata": {"name": uid, "namespace": "default", "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"},
        });
        for (name, time) in times.as_object().unwrap() {
            event[name] = time.clone();
        }
        event
    }

    fn group(task: &Value, events: &[Value], omitted: u64) -> Group {
        let objects = events.iter().map(|e| e.to_string().into_bytes()).collect();
        let branch = Branch {
            objects,
            omitted,
            parents: vec![vec![]; events.len()],
        };
        Group {
            primary: task.to_string().into_bytes(),
            branches: vec![branch],
        }
    }

    fn combined(group: &Group) -> Value {
        let composed = combine(&Settings::default(), group).unwrap();
        serde_json::from_slice(&composed.fill(group)).unwrap()
    }

    fn order(events: &[Value]) -> Vec<String> {
        let combined = combined(&group(&task(), events, 0));
        let events = combined["status"]["events"].as_array().unwrap();
        events
            .iter()
            .map(|e| e["metadata"]["uid"].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn an_event_with_wrong_types_does_not_break_the_combined_task() {
        let times = json!({
            "reason": ["x"], "lastTimestamp": 7, "eventTime": {}, "series": {"lastObservedTime": 5},
            "firstTimestamp": null,
        });
        let (bad, good) = (event("bad", times), event("good", json!({})));
        let combined = combined(&group(&task(), &[bad, good], 0));
        assert_eq!(combined["status"]["events"].as_array().unwrap().len(), 2);
        assert_eq!(combined["status"]["summary"]["lastReason"], "Reason-good");
        assert_eq!(order(&[event("worse", json!({"series": "x"}))]), ["worse"]);
    }

    #[test]
    fn a_combined_task_is_the_task_and_its_events() {
        let last = event("e2", json!({"lastTimestamp": "2026-01-03T00:00:00Z"}));
        let first = event("e1", json!({"lastTimestamp": "2026-01-02T00:00:00Z"}));
        let mut metadata = task()["metadata"].clone();
        metadata
            .as_object_mut()
            .unwrap()
            .retain(|k, _| k != "selfLink" && k != "resourceVersion");
        assert_eq!(
            combined(&group(&task(), &[last.clone(), first.clone()], 0)),
            json!({
                "apiVersion": "aggregated.tasks.example.com/v1", "kind": "CombinedTask",
                "metadata": metadata,
                "spec": task()["spec"],
                "status": {
                    "observedGeneration": 2, "conditions": [],
                    "events": [first, last],
                    "summary": {"events": 2, "lastReason": "Reason-e2", "lastTime": "2026-01-03T00:00:00Z"},
                    "taskResourceVersion": "41",
                },
            })
        );
    }

    #[test]
    fn no_events_are_an_empty_array() {
        let status = &combined(&group(&task(), &[], 0))["status"];
        assert_eq!(status["events"], json!([]));
        assert_eq!(status["summary"], json!({"events": 0}));
    }

    #[test]
    fn a_task_may_lack_spec_and_status() {
        let mut task = task();
        task.as_object_mut()
            .unwrap()
            .retain(|k, _| k != "spec" && k != "status");
        let combined = combined(&group(&task, &[], 0));
        assert_eq!(combined.get("spec"), None);
        assert_eq!(
            combined["status"],
            json!({"events": [], "summary": {"events": 0}, "taskResourceVersion": "41"})
        );
    }

    #[test]
    fn the_first_time_that_is_set_counts() {
        let at = |day: u32| format!("2026-01-{day:02}T00:00:00Z");
        assert_eq!(
            order(&[
                event(
                    "series",
                    json!({"series": {"lastObservedTime": at(9)}, "lastTimestamp": at(2)})
                ),
                event(
                    "last",
                    json!({"series": {"count": 1}, "lastTimestamp": at(8), "eventTime": at(3)})
                ),
                event(
                    "event",
                    json!({"lastTimestamp": null, "eventTime": at(7), "firstTimestamp": at(4)})
                ),
                event(
                    "first",
                    json!({"series": null, "eventTime": null, "firstTimestamp": at(6)})
                ),
                event("created", json!({})),
            ]),
            ["created", "first", "event", "last", "series"]
        );
    }

    #[test]
    fn times_are_compared_as_instants_and_ties_by_uid() {
        assert_eq!(
            order(&[
                event("d", json!({"eventTime": "2026-01-02T00:00:00.000001Z"})),
                event("c", json!({"lastTimestamp": "2026-01-02T00:00:00Z"})),
                event("a", json!({"eventTime": "2026-01-02T00:00:00.000000Z"})),
                event("b", json!({"eventTime": "2026-01-02T01:00:00+01:00"})),
            ]),
            ["a", "b", "c", "d"]
        );
    }

    #[test]
    fn omitted_events_are_counted() {
        let status = &combined(&group(&task(), &[event("e", json!({}))], 41))["status"];
        assert_eq!(status["summary"]["events"], 42);
        assert_eq!(status["summary"]["omitted"], 41);
    }

    #[test]
    fn fields_of_the_tasks_own_status_do_not_hide_the_views() {
        let mut task = task();
        task["status"]["events"] = json!("mine");
        task["status"]["taskResourceVersion"] = json!("1");
        let group = group(&task, &[], 0);
        let text = combine(&Settings::default(), &group).unwrap().fill(&group);
        let text = String::from_utf8(text).unwrap();
        assert_eq!(
            text.matches("\"events\":").count(),
            2,
            "status.events and status.summary.events: {text}"
        );
        assert!(
            text.contains("\"taskResourceVersion\":\"41\"") && !text.contains("mine"),
            "{text}"
        );
    }

    #[test]
    fn events_are_not_copied() {
        let events: Vec<_> = (0..50)
            .map(|i| event(&format!("e{i}"), json!({})))
            .collect();
        let group = group(&task(), &events, 0);
        let composed = combine(&Settings::default(), &group).unwrap();
        assert_eq!(composed.inserts.len(), 50);
        assert!(composed.text.len() < group.primary.len() + 256);
    }

    #[test]
    fn what_is_no_object_is_an_error() {
        let mut bad = group(&task(), &[], 0);
        bad.primary = b"[]".to_vec();
        assert!(combine(&Settings::default(), &bad).is_err());
    }
}
