//! What an operator says of a plugin, in the file beside it.

use std::time::Duration;

use joinery_resource::{Mode, Security};
use serde::{Deserialize, Serialize};

use crate::engine::MAX_MEMORY;
use crate::error::LoadError;

/// A plugin's settings file: the host's part, and the guest's own.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct HostSettings {
    /// For the guest; the host hands it over as JSON text.
    pub settings: Option<serde_json::Value>,
    /// How its views read.
    pub mode: Mode,
    /// Whose rights its views need.
    pub security: Security,
    /// Names of relations that may reach into any namespace.
    pub any_namespace: Vec<String>,
    /// Whether it may be taken away while objects of its stored resources are there.
    pub removal: Removal,
    /// What it may use up.
    pub limits: Limits,
}

/// MiB of all instances of a plugin together.
const MAX_TOGETHER: u32 = 4096;

/// What happens when a plugin is taken away whose stored resources have objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Removal {
    /// It serves on until they are gone, also after the host was started without it.
    #[default]
    Refuse,
    /// It goes, with a warning. The objects stay in the store until their namespace or the plugin's namesake decides.
    Warn,
}

/// What a plugin may use up.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// Memory of one instance, in MiB. From 1 to 256.
    #[serde(rename = "memoryMiB")]
    pub memory_mib: u32,
    /// Time of one call, in seconds, an instance's making included. From 0.001 to 60.
    pub call_seconds: f64,
    /// Calls at once. From 1 to 64.
    pub concurrent_calls: u32,
    /// Seconds between two lists of a served resource that are compared, while somebody watches it. From 1 to 3600.
    pub watch_seconds: u32,
    /// Whether an instance serves more than one call.
    pub reuse: Reuse,
}

/// Whether an instance serves more than one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reuse {
    /// At most two are kept, while they are small.
    #[default]
    Warm,
    /// Each call gets a new one.
    Never,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_mib: 64,
            call_seconds: 10.0,
            concurrent_calls: 16,
            watch_seconds: 10,
            reuse: Reuse::Warm,
        }
    }
}

impl HostSettings {
    /// Reads a settings file: YAML, or JSON, which is YAML too. An empty one is all defaults.
    ///
    /// # Errors
    /// [`LoadError::Settings`] that names the field and what is allowed.
    pub fn parse(text: &str) -> Result<Self, LoadError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let settings: Option<Self> =
            serde_saphyr::from_str(text).map_err(|error| LoadError::Settings(error.to_string()))?;
        let settings = settings.unwrap_or_default();
        let Limits {
            memory_mib,
            call_seconds,
            concurrent_calls,
            watch_seconds,
            ..
        } = settings.limits;
        for (name, value, most) in [
            ("memoryMiB", memory_mib, (MAX_MEMORY >> 20) as u32),
            (
                "concurrentCalls",
                concurrent_calls,
                crate::engine::SHARED_INSTANCES,
            ),
            ("watchSeconds", watch_seconds, 3600),
        ] {
            if value < 1 || value > most {
                let message = format!("limits.{name} is {value}, it may be from 1 to {most}");
                return Err(LoadError::Settings(message));
            }
        }
        let together = memory_mib * concurrent_calls;
        if together > MAX_TOGETHER {
            let message = format!(
                "limits.memoryMiB times limits.concurrentCalls is {together}, it may be up to {MAX_TOGETHER}"
            );
            return Err(LoadError::Settings(message));
        }
        if !(0.001..=60.0).contains(&call_seconds) {
            let message =
                format!("limits.callSeconds is {call_seconds}, it may be from 0.001 to 60");
            return Err(LoadError::Settings(message));
        }
        Ok(settings)
    }

    /// What `configure` is given: JSON text, empty when nothing is set.
    pub fn guest_text(&self) -> String {
        self.settings
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default()
    }
}

impl Limits {
    /// Memory of one instance, in bytes.
    pub(crate) fn memory(&self) -> usize {
        (self.memory_mib as usize) << 20
    }

    /// Time of one call.
    pub(crate) fn call_time(&self) -> Duration {
        Duration::from_secs_f64(self.call_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_and_json_say_the_same() {
        let yaml = "settings:\n  group: a.b\n  n: 1\nmode: live\nsecurity: definer\nanyNamespace: [nodes]\nlimits:\n  memoryMiB: 8\n  reuse: never\n";
        let json = r#"{"settings":{"group":"a.b","n":1},"mode":"live","security":"definer","anyNamespace":["nodes"],
            "limits":{"memoryMiB":8,"reuse":"never"}}"#;
        let settings = HostSettings::parse(yaml).unwrap();
        assert_eq!(settings, HostSettings::parse(json).unwrap());
        assert_eq!(settings.mode, Mode::Live);
        assert_eq!(settings.security, Security::Definer);
        assert_eq!(settings.limits.memory(), 8 << 20);
        assert_eq!(settings.limits.concurrent_calls, 16);
        assert_eq!(settings.guest_text(), r#"{"group":"a.b","n":1}"#);
    }

    #[test]
    fn an_empty_file_is_all_defaults() {
        for text in ["", " \n", "{}", "null", "# nothing\n"] {
            let settings = HostSettings::parse(text).unwrap();
            assert_eq!(settings, HostSettings::default(), "{text:?}");
            assert_eq!(settings.guest_text(), "");
        }
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (text, part) in [
            ("modes: live", "modes"),
            ("mode: fast", "fast"),
            (
                "limits: {memoryMiB: 0}",
                "limits.memoryMiB is 0, it may be from 1 to 256",
            ),
            ("limits: {memoryMiB: 257}", "from 1 to 256"),
            (
                "limits: {callSeconds: 61}",
                "limits.callSeconds is 61, it may be from 0.001 to 60",
            ),
            ("limits: {callSeconds: 0}", "limits.callSeconds is 0"),
            ("limits: {callSeconds: .nan}", "limits.callSeconds is NaN"),
            ("limits: {concurrentCalls: 65}", "from 1 to 64"),
            ("limits: {watchSeconds: 0}", "from 1 to 3600"),
            ("limits: {cpu: 1}", "cpu"),
            ("[1]", "settings: "),
            ("mode: [", "settings: "),
        ] {
            let error = HostSettings::parse(text).unwrap_err().to_string();
            assert!(
                error.starts_with("settings: ") && error.contains(part),
                "{text}: {error}"
            );
        }
    }
}
