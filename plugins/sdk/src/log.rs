//! Into the host's structured log, with the plugin's name; bounded in rate and size. Outside of a component, as in
//! tests, records go to stderr.

/// As the host's own levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For the plugin's writer.
    Debug,
    /// Worth knowing.
    Info,
    /// Not as it should be, the answer holds.
    Warn,
    /// Something could not be done.
    Error,
}

/// Writes one record: a message and its named fields.
pub fn write(level: Level, message: &str, fields: &[(&str, &str)]) {
    #[cfg(target_arch = "wasm32")]
    {
        use crate::bindings::setup::joinery::plugin::log as host;
        let level = match level {
            Level::Debug => host::Level::Debug,
            Level::Info => host::Level::Info,
            Level::Warn => host::Level::Warn,
            Level::Error => host::Level::Error,
        };
        let fields: Vec<_> = fields
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        host::write(level, message, &fields);
    }
    #[cfg(not(target_arch = "wasm32"))]
    eprintln!("{level:?}: {message} {fields:?}");
}
