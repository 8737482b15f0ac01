//! The fields of objects that field selectors may name besides those of the metadata.

use std::borrow::Cow;
use std::fmt;

use joinery_object::Object;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

/// The selectable fields of a resource.
#[derive(Debug, Default)]
pub(crate) struct Fields(Vec<String>);

impl Fields {
    /// Takes JSON paths that are chains of members, as CRDs declare them: `.spec.priority`.
    pub(crate) fn new<S: AsRef<str>>(paths: &[S]) -> Self {
        let name = |path: &S| path.as_ref().trim_start_matches('.').to_owned();
        Self(paths.iter().map(name).collect())
    }

    /// As field selectors name them.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

/// The text of a string, number or boolean at the end of a chain of members such as `spec.priority`. Empty for null, for
/// what is not there, and for anything else.
pub(crate) fn value(object: &Object, field: &str) -> String {
    let text = object.bytes();
    let chain: Vec<&str> = field.split('.').collect();
    let mut reader = serde_json::Deserializer::from_slice(&text);
    Member(&chain).deserialize(&mut reader).unwrap_or_default()
}

/// Reads what stands at the end of the chain and skips the rest.
struct Member<'a>(&'a [&'a str]);

impl<'de> DeserializeSeed<'de> for Member<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Member<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<String, A::Error> {
        let mut found = String::new();
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            match self.0.split_first() {
                Some((first, rest)) if *first == name => {
                    found = map.next_value_seed(Member(rest))?
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<String, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(String::new())
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(self.scalar(text))
    }

    fn visit_bool<E>(self, value: bool) -> Result<String, E> {
        Ok(self.scalar(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<String, E> {
        Ok(self.scalar(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<String, E> {
        Ok(self.scalar(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<String, E> {
        Ok(self.scalar(value))
    }

    fn visit_unit<E>(self) -> Result<String, E> {
        Ok(String::new())
    }
}

impl Member<'_> {
    fn scalar(&self, value: impl fmt::Display) -> String {
        if self.0.is_empty() {
            value.to_string()
        } else {
            String::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use joinery_object::ResourceVersion;

    use super::*;

    #[test]
    fn a_field_is_read_as_text() {
        let text = br#"{"metadata":{"name":"a"},"spec":{"state":"a\"b","priority":3,"on":true,"list":[{"x":1}],
            "none":null,"deep":{"er":"x"}},"type":"Normal"}"#;
        let object = Object::parse_at(text.to_vec().into(), ResourceVersion::single(1)).unwrap();
        for (field, expected) in [
            ("spec.state", "a\"b"),
            ("spec.priority", "3"),
            ("spec.on", "true"),
            ("spec.none", ""),
            ("spec.gone", ""),
            ("spec.list", ""),
            ("spec.list.x", ""),
            ("spec.state.x", ""),
            ("spec", ""),
            ("spec.deep.er", "x"),
            ("type", "Normal"),
        ] {
            assert_eq!(value(&object, field), expected, "{field}");
        }
    }

    #[test]
    fn paths_become_names() {
        let fields = Fields::new(&[".spec.priority", ".type"]);
        assert_eq!(
            fields.names().collect::<Vec<_>>(),
            ["spec.priority", "type"]
        );
    }
}
