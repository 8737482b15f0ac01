use serde::de::DeserializeOwned;

use crate::Description;

/// What every plugin has. One value of the type is one configured instance; the host makes as many as it likes and
/// throws any of them away between two calls.
pub trait Plugin: Sized + Send + Sync + 'static {
    /// Reads the settings: the JSON text that the operator put beside the plugin, or an empty string.
    ///
    /// # Errors
    /// What is wrong with the settings and what is allowed. The host refuses to load the plugin and shows the text.
    fn configure(settings: &str) -> Result<Self, String>;

    /// What the plugin serves and reads: a pure function of the settings.
    fn describe(&self) -> Description;
}

/// Reads settings into `T`; an empty text and `null` are `T`'s default.
///
/// # Errors
/// What the JSON parser has to say, with `settings` named.
pub fn parse_settings<T: DeserializeOwned + Default>(settings: &str) -> Result<T, String> {
    if settings.trim().is_empty() {
        return Ok(T::default());
    }
    serde_json::from_str::<Option<T>>(settings)
        .map(Option::unwrap_or_default)
        .map_err(|error| format!("settings: {error}"))
}
