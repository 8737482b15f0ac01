//! CombinedTask: a Task together with every Event about it, in one object.
//!
//! The Task controller labels its Events with the Task's uid; that label is the join key. One label selector over all
//! uids is the one question for a whole list of Tasks.

mod combine;
mod describe;
mod settings;

use joinery_sdk::{Composed, Description, Failure, Group, Plugin, Selection, Side, View};
use serde::Deserialize;

use crate::settings::Settings;

/// The relation from a Task to its Events.
const EVENTS: &str = "events";

/// The plugin.
pub struct CombinedTasks {
    settings: Settings,
}

impl Plugin for CombinedTasks {
    fn configure(settings: &str) -> Result<Self, String> {
        Ok(Self {
            settings: Settings::parse(settings)?,
        })
    }

    fn describe(&self) -> Description {
        describe::description(&self.settings)
    }
}

impl View for CombinedTasks {
    fn keys(&self, _relation: &str, side: Side, object: &[u8]) -> Vec<String> {
        #[derive(Deserialize)]
        struct Object<'a> {
            #[serde(borrow)]
            metadata: Metadata<'a>,
        }
        #[derive(Deserialize)]
        struct Metadata<'a> {
            uid: String,
            #[serde(borrow)]
            labels: Option<joinery_sdk::Fields<'a>>,
        }
        let Ok(Object { metadata }) = serde_json::from_slice::<Object>(object) else {
            return Vec::new();
        };
        let key = match side {
            Side::Parent => Some(metadata.uid),
            Side::Child => metadata.labels.and_then(|labels| {
                serde_json::from_str(labels.get(&self.settings.event_label)?).ok()
            }),
        };
        // A label may be empty, a uid may not.
        key.filter(|key| !key.is_empty()).into_iter().collect()
    }

    fn query(&self, _relation: &str, keys: &[String]) -> Selection {
        if keys.is_empty() {
            return Selection::Names(Vec::new());
        }
        Selection::Selector {
            label_selector: format!("{} in ({})", self.settings.event_label, keys.join(",")),
            field_selector: String::new(),
        }
    }

    fn combine(&self, _resource: &str, group: &Group) -> Result<Option<Composed>, Failure> {
        combine::combine(&self.settings, group)
            .map(Some)
            .map_err(|error| Failure::internal(format!("cannot combine: {error}")))
    }
}

joinery_sdk::export_view!(CombinedTasks);

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "8a3f4a5e-0000-4000-8000-000000000001";

    fn plugin(settings: &str) -> CombinedTasks {
        CombinedTasks::configure(settings).unwrap()
    }

    #[test]
    fn a_task_and_the_events_labelled_with_its_uid_share_a_key() {
        let plugin = plugin("");
        let task = format!(r#"{{"metadata":{{"name":"a","uid":"{UID}"}}}}"#);
        let event = format!(
            r#"{{"metadata":{{"uid":"e","labels":{{"x":"y","tasks.example.com/task-uid":"{UID}"}}}}}}"#
        );
        assert_eq!(plugin.keys(EVENTS, Side::Parent, task.as_bytes()), [UID]);
        assert_eq!(plugin.keys(EVENTS, Side::Child, event.as_bytes()), [UID]);
    }

    #[test]
    fn events_without_the_label_are_related_to_nothing() {
        for event in [
            r#"{"metadata":{"uid":"e"}}"#,
            r#"{"metadata":{"uid":"e","labels":null}}"#,
            r#"{"metadata":{"uid":"e","labels":{}}}"#,
            r#"{"metadata":{"uid":"e","labels":{"tasks.example.com/task-uid":""}}}"#,
            r#"{"metadata":{"uid":"e","labels":{"other/task-uid":"u"}}}"#,
        ] {
            assert!(
                plugin("")
                    .keys(EVENTS, Side::Child, event.as_bytes())
                    .is_empty(),
                "{event}"
            );
        }
    }

    #[test]
    fn all_uids_go_into_one_query() {
        let keys = ["u1".to_owned(), "u2".to_owned(), "u3".to_owned()];
        let selector = |s: &str| Selection::Selector {
            label_selector: s.into(),
            field_selector: String::new(),
        };
        assert_eq!(
            plugin("").query(EVENTS, &keys),
            selector("tasks.example.com/task-uid in (u1,u2,u3)")
        );
        assert_eq!(
            plugin(r#"{"eventLabel":"example.example.com/task-uid"}"#).query(EVENTS, &keys[..1]),
            selector("example.example.com/task-uid in (u1)")
        );
        assert_eq!(plugin("").query(EVENTS, &[]), Selection::Names(Vec::new()));
    }
}
