use joinery_sdk::{
    ApiResource, Column, Description, GroupVersionResource, Reach, Relation, Shape, Source,
    ViewShape,
};

use crate::EVENTS;
use crate::combine::METADATA;
use crate::settings::Settings;

const SCHEMA: &str = include_str!("schema.json");

pub(crate) fn description(settings: &Settings) -> Description {
    Description {
        resources: vec![resource(settings)],
        sources: vec![tasks(settings), events(settings)],
    }
}

fn resource(settings: &Settings) -> ApiResource {
    ApiResource {
        group: settings.group.clone(),
        version: settings.version.clone(),
        kind: "CombinedTask".into(),
        plural: "combinedtasks".into(),
        short_names: vec!["cbtask".into()],
        // Not "tasks": kubectl would take the name of the Task resource for the category.
        categories: vec!["alltasks".into()],
        namespaced: true,
        schema: SCHEMA.into(),
        columns: vec![
            Column::new(
                "Priority",
                "integer",
                ".spec.priority",
                "From 0 to 10; more is more urgent.",
            ),
            // As a date it would print <invalid> while it lies ahead.
            Column::new(
                "Deadline",
                "string",
                ".spec.deadline",
                "When the Task is to be finished.",
            ),
            Column::new("State", "string", ".spec.taskState", "Pending or Finished."),
            Column::new(
                "Events",
                "integer",
                ".status.summary.events",
                "How many Events the Task has.",
            ),
            Column::new(
                "Last Event",
                "string",
                ".status.summary.lastReason",
                "Reason of the last Event.",
            ),
            Column::new(
                "Age",
                "date",
                ".metadata.creationTimestamp",
                "Since when the Task exists.",
            ),
        ],
        selectable_fields: vec![".spec.priority".into(), ".spec.taskState".into()],
        shape: Shape::View(ViewShape {
            primary: "tasks".into(),
            relations: vec![Relation {
                name: EVENTS.into(),
                source: "events".into(),
                parent: None,
                reach: Reach::SameNamespace,
                limit: settings.events_per_task,
            }],
        }),
        ..ApiResource::default()
    }
}

fn tasks(settings: &Settings) -> Source {
    Source {
        name: "tasks".into(),
        gvr: settings.task_gvr(),
        reads: METADATA
            .iter()
            .map(|name| format!("/metadata/{name}"))
            .chain(["/spec".into(), "/status".into()])
            .collect(),
        ..Source::default()
    }
}

fn events(settings: &Settings) -> Source {
    // In a JSON pointer `/` is written `~1`, and `~` would be `~0`.
    let label = settings.event_label.replace('~', "~0").replace('/', "~1");
    Source {
        name: "events".into(),
        gvr: GroupVersionResource::new("", "v1", "events"),
        label_selector: settings.event_label.clone(),
        reads: vec![
            format!("/metadata/labels/{label}"),
            "/metadata/creationTimestamp".into(),
            "/reason".into(),
            "/series/lastObservedTime".into(),
            "/lastTimestamp".into(),
            "/eventTime".into(),
            "/firstTimestamp".into(),
        ],
        ..Source::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn settings_reach_all_names() {
        let settings = Settings::parse(
            r#"{"group":"search.task.example.example.com","version":"v2","task":{"group":"example.example.com"},
                "eventLabel":"example.example.com/task-uid","eventsPerTask":7}"#,
        );
        let description = description(&settings.unwrap());
        let resource = &description.resources[0];
        assert_eq!(
            (resource.group.as_str(), resource.version.as_str()),
            ("search.task.example.example.com", "v2")
        );
        assert_eq!(description.sources[0].gvr.group, "example.example.com");
        assert_eq!(
            description.sources[1].label_selector,
            "example.example.com/task-uid"
        );
        assert_eq!(
            description.sources[1].reads[0],
            "/metadata/labels/example.example.com~1task-uid"
        );
        let Shape::View(view) = &resource.shape else {
            panic!("a view")
        };
        assert_eq!(view.relations[0].limit, 7);
    }

    #[test]
    fn the_columns_are_in_order_and_age_is_a_date() {
        let description = description(&Settings::default());
        let columns = &description.resources[0].columns;
        let names: Vec<_> = columns.iter().map(|c| c.name.to_uppercase()).collect();
        assert_eq!(
            names,
            [
                "PRIORITY",
                "DEADLINE",
                "STATE",
                "EVENTS",
                "LAST EVENT",
                "AGE"
            ]
        );
        assert_eq!(columns[1].kind, "string");
        assert_eq!(columns[5].kind, "date");
        assert!(
            !description.resources[0]
                .categories
                .contains(&"all".to_owned())
        );
    }

    /// Each column and selectable field is a field of the schema, and each field is described.
    #[test]
    fn the_schema_describes_every_field() {
        fn check(path: &str, schema: &Value) {
            assert!(
                schema["description"].is_string() || path.ends_with("[]"),
                "{path} has no description"
            );
            assert!(
                schema["type"].is_string() || schema["x-kubernetes-int-or-string"] == true,
                "{path} has no type"
            );
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                check(&format!("{path}.{name}"), property);
            }
            if let Some(items) = schema.get("items") {
                check(&format!("{path}[]"), items);
            }
        }
        let schema: Value = serde_json::from_str(SCHEMA).unwrap();
        check("", &schema);
        let resource = &description(&Settings::default()).resources[0];
        let paths = resource
            .columns
            .iter()
            .map(|c| &c.json_path)
            .chain(&resource.selectable_fields);
        for path in paths.filter(|p| !p.starts_with(".metadata")) {
            let pointer: String = path
                .split('.')
                .skip(1)
                .map(|name| format!("/properties/{name}"))
                .collect();
            assert!(schema.pointer(&pointer).is_some(), "{path}");
        }
    }
}
