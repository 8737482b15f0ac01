use joinery_sdk::{ApiResource, Column, Description, GroupVersion, Shape};

const SCHEMA: &str = include_str!("schema.json");

pub(crate) fn description(settings: &GroupVersion) -> Description {
    let resource = ApiResource {
        group: settings.group.clone(),
        version: settings.version.clone(),
        kind: "ClusterTask".into(),
        plural: "clustertasks".into(),
        short_names: vec!["ctask".into()],
        // Not "tasks": kubectl would take the name of the Task resource for the category.
        categories: vec!["alltasks".into()],
        namespaced: false,
        schema: SCHEMA.into(),
        columns: vec![
            Column::new(
                "Priority",
                "integer",
                ".spec.priority",
                "From 0 to 10; more is more urgent.",
            ),
            Column::new(
                "Deadline After",
                "string",
                ".spec.deadlineAfter",
                "Time from creation to deadline.",
            ),
            Column::new(
                "Suspended",
                "boolean",
                ".spec.suspended",
                "Whether new CustomTasks may refer to it.",
            ),
            Column::new(
                "Age",
                "date",
                ".metadata.creationTimestamp",
                "Since when the ClusterTask exists.",
            ),
        ],
        selectable_fields: vec![".spec.priority".into(), ".spec.suspended".into()],
        shape: Shape::Stored,
        ..ApiResource::default()
    };
    Description {
        resources: vec![resource],
        ..Description::default()
    }
}
