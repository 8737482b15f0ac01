use joinery_sdk::parse_settings;
use serde::Deserialize;

/// What an operator may set. Each is optional; a name that is not listed here is refused.
#[derive(Debug, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Settings {
    /// API group of ClusterTasks and CustomTasks.
    pub(crate) group: String,
    /// Its version.
    pub(crate) version: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            group: "aggregated.tasks.example.com".into(),
            version: "v1".into(),
        }
    }
}

impl Settings {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let settings: Self = parse_settings(text)?;
        for (name, value) in [("group", &settings.group), ("version", &settings.version)] {
            if value.is_empty() {
                return Err(format!("settings: {name} must not be empty"));
            }
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_and_version_may_be_set() {
        let settings = Settings::parse(r#"{"group":"search.task.example.example.com"}"#).unwrap();
        assert_eq!(
            (settings.group.as_str(), settings.version.as_str()),
            ("search.task.example.example.com", "v1")
        );
        assert_eq!(
            Settings::parse("").unwrap().group,
            "aggregated.tasks.example.com"
        );
    }

    #[test]
    fn a_bad_setting_is_named() {
        assert!(
            Settings::parse(r#"{"version":""}"#)
                .unwrap_err()
                .contains("version")
        );
        assert!(
            Settings::parse(r#"{"kind":"X"}"#)
                .unwrap_err()
                .contains("`kind`")
        );
    }
}
