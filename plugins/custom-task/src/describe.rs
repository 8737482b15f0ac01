use joinery_sdk::{ApiResource, Column, Description, GroupVersion, Shape, Subresource};

const SCHEMA: &str = include_str!("schema.json");

pub(crate) fn description(settings: &GroupVersion) -> Description {
    let resource = ApiResource {
        group: settings.group.clone(),
        version: settings.version.clone(),
        kind: "CustomTask".into(),
        plural: "customtasks".into(),
        short_names: vec!["cutask".into()],
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
                "When the task is to be finished.",
            ),
            Column::new("State", "string", ".spec.taskState", "Pending or Finished."),
            Column::new(
                "Cluster Task",
                "string",
                ".spec.clusterTaskRef.name",
                "Where missing fields come from.",
            ),
            Column::new(
                "Age",
                "date",
                ".metadata.creationTimestamp",
                "Since when the CustomTask exists.",
            ),
        ],
        selectable_fields: vec![
            ".spec.priority".into(),
            ".spec.taskState".into(),
            // By this one a ClusterTask finds its users.
            ".spec.clusterTaskRef.name".into(),
        ],
        subresources: vec![Subresource::Status],
        shape: Shape::Stored,
        ..ApiResource::default()
    };
    Description {
        resources: vec![resource],
        ..Description::default()
    }
}
