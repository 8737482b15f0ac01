use joinery_sdk::parse_settings;
use serde::Deserialize;

/// What an operator must set.
#[derive(Debug, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Settings {
    /// API group under which Notes are served.
    pub(crate) group: String,
    /// Where the service is, e.g. `http://notes.example:8080`, without a slash at its end.
    pub(crate) url: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            group: "notes.example.com".into(),
            url: String::new(),
        }
    }
}

impl Settings {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut settings: Self = parse_settings(text)?;
        if !settings.url.starts_with("http://") && !settings.url.starts_with("https://") {
            return Err(
                "settings: url must be set to where the note service is, http:// or https://"
                    .into(),
            );
        }
        settings
            .url
            .truncate(settings.url.trim_end_matches('/').len());
        Ok(settings)
    }
}
