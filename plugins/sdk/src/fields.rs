use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of a JSON object in their order, with values that were not looked at: for objects of which a view passes
/// on what it does not know.
#[derive(Clone, Debug, Default)]
pub struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Name and raw JSON of each member.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_ref(), value.get()))
    }

    /// Raw JSON of one member.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.iter()
            .find(|(n, _)| *n == name)
            .map(|(_, value)| value)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                #[derive(serde::Deserialize)]
                struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
                let mut members = Vec::new();
                while let Some((Name(name), value)) = map.next_entry()? {
                    members.push((name, value));
                }
                Ok(Fields(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order_and_their_text() {
        let fields: Fields =
            serde_json::from_str(r#"{"z": [1, 2],"a\n":1.0, "m":{"x":null}}"#).unwrap();
        let members: Vec<_> = fields.iter().collect();
        assert_eq!(
            members,
            [("z", "[1, 2]"), ("a\n", "1.0"), ("m", r#"{"x":null}"#)]
        );
        assert_eq!(fields.get("m"), Some(r#"{"x":null}"#));
        assert_eq!(fields.get("x"), None);
    }

    #[test]
    fn only_objects_have_members() {
        assert!(serde_json::from_str::<Fields>("[]").is_err());
    }
}
