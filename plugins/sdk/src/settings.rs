use serde::Deserialize;

use crate::parse_settings;

/// The group and version under which a plugin serves: for many plugins all that an operator may set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupVersion {
    /// API group.
    pub group: String,
    /// Its version, e.g. `v1`.
    pub version: String,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    group: Option<String>,
    version: Option<String>,
}

impl GroupVersion {
    /// Reads settings that have `group` and `version` and nothing else; what is not set is as given here.
    ///
    /// # Errors
    /// A name that is not known, or an empty value.
    pub fn from_settings(settings: &str, group: &str, version: &str) -> Result<Self, String> {
        let set: Settings = parse_settings(settings)?;
        let found = Self {
            group: set.group.unwrap_or_else(|| group.to_owned()),
            version: set.version.unwrap_or_else(|| version.to_owned()),
        };
        for (name, value) in [("group", &found.group), ("version", &found.version)] {
            if value.is_empty() {
                return Err(format!("settings: {name} must not be empty"));
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(String, String), String> {
        GroupVersion::from_settings(text, "a.example.com", "v1").map(|s| (s.group, s.version))
    }

    #[test]
    fn each_may_be_set() {
        let both = |group: &str, version: &str| Ok((group.to_owned(), version.to_owned()));
        assert_eq!(parse(""), both("a.example.com", "v1"));
        assert_eq!(parse("null"), both("a.example.com", "v1"));
        assert_eq!(parse(r#"{"group":"b.c"}"#), both("b.c", "v1"));
        assert_eq!(parse(r#"{"version":"v2"}"#), both("a.example.com", "v2"));
    }

    #[test]
    fn a_bad_setting_is_named() {
        for (text, part) in [
            (r#"{"version":""}"#, "version must not be empty"),
            (r#"{"kind":"X"}"#, "`kind`"),
            (r#"{"group":7}"#, "expected a string"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                error.starts_with("settings: ") && error.contains(part),
                "{error}"
            );
        }
    }
}
