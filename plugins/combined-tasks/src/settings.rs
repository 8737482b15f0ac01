use joinery_sdk::{GroupVersionResource, parse_settings};
use serde::Deserialize;

/// What an operator may set. Each is optional; a name that is not listed here is refused.
#[derive(Debug, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Settings {
    /// API group under which CombinedTasks are served.
    pub(crate) group: String,
    /// Its version.
    pub(crate) version: String,
    /// Where Tasks come from.
    pub(crate) task: Task,
    /// The label of an Event that holds its Task's uid.
    pub(crate) event_label: String,
    /// At most so many Events in one CombinedTask: those created last.
    pub(crate) events_per_task: u32,
}

/// The primary's resource.
#[derive(Debug, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Task {
    group: String,
    version: String,
    resource: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            group: "aggregated.tasks.example.com".into(),
            version: "v1".into(),
            task: Task::default(),
            event_label: "tasks.example.com/task-uid".into(),
            events_per_task: 1000,
        }
    }
}

impl Default for Task {
    fn default() -> Self {
        Self {
            group: "tasks.example.com".into(),
            version: "v1".into(),
            resource: "tasks".into(),
        }
    }
}

impl Settings {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let settings: Self = parse_settings(text)?;
        for (name, value) in [
            ("group", &settings.group),
            ("version", &settings.version),
            ("task.version", &settings.task.version),
            ("task.resource", &settings.task.resource),
            ("eventLabel", &settings.event_label),
        ] {
            if value.is_empty() {
                return Err(format!("settings: {name} must not be empty"));
            }
        }
        if settings.events_per_task == 0 {
            return Err("settings: eventsPerTask must be at least 1".into());
        }
        Ok(settings)
    }

    pub(crate) fn task_gvr(&self) -> GroupVersionResource {
        let Task {
            group,
            version,
            resource,
        } = &self.task;
        GroupVersionResource::new(group, version, resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_set_means_the_names_of_this_project() {
        for text in ["", " ", "null", "{}"] {
            let settings = Settings::parse(text).unwrap();
            assert_eq!(settings.group, "aggregated.tasks.example.com");
            assert_eq!(
                settings.task_gvr(),
                GroupVersionResource::new("tasks.example.com", "v1", "tasks")
            );
            assert_eq!(settings.event_label, "tasks.example.com/task-uid");
        }
    }

    #[test]
    fn the_names_of_the_public_original_are_reachable() {
        let settings = Settings::parse(
            r#"{"group":"search.task.example.example.com","task":{"group":"example.example.com"},
                "eventLabel":"example.example.com/task-uid"}"#,
        )
        .unwrap();
        assert_eq!(settings.group, "search.task.example.example.com");
        assert_eq!(
            settings.task_gvr(),
            GroupVersionResource::new("example.example.com", "v1", "tasks")
        );
        assert_eq!(settings.event_label, "example.example.com/task-uid");
    }

    #[test]
    fn a_bad_setting_is_named() {
        for (text, part) in [
            (r#"{"lable":"x"}"#, "`lable`"),
            (r#"{"group":7}"#, "expected a string"),
            (r#"{"group":""}"#, "group"),
            (r#"{"task":{"kind":"Task"}}"#, "`kind`"),
            (r#"{"eventsPerTask":0}"#, "eventsPerTask"),
            ("{", "EOF"),
        ] {
            let error = Settings::parse(text).unwrap_err();
            assert!(
                error.starts_with("settings: ") && error.contains(part),
                "{text}: {error}"
            );
        }
    }
}
