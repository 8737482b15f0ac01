//! Members that a JSON text has twice. The last one counts; a client that cares is told.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// The paths of all of them, each once, as sigs.k8s.io/json writes them: `spec.list[0].a`. Of a text that is no JSON those
/// before the error.
pub(super) fn duplicates(text: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let seed = Node {
        path: "",
        found: &mut found,
    };
    let _ = seed.deserialize(&mut serde_json::Deserializer::from_slice(text));
    found
}

struct Node<'a> {
    path: &'a str,
    found: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        loop {
            let path = format!("{}[{index}]", self.path);
            let found = &mut *self.found;
            let item = items.next_element_seed(Node { path: &path, found })?;
            if item.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            let path = if self.path.is_empty() {
                name.clone()
            } else {
                format!("{}.{name}", self.path)
            };
            if !names.insert(name) && !self.found.contains(&path) {
                self.found.push(path.clone());
            }
            let found = &mut *self.found;
            members.next_value_seed(Node { path: &path, found })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_come_twice_are_named_with_their_path() {
        let text = br#"{"a":1,"b":{"c":1,"c":2,"c":3},"list":[{"x":1},{"x":1,"x":2}],"a":2}"#;
        assert_eq!(duplicates(text), ["b.c", "list[1].x", "a"]);
        assert_eq!(duplicates(br#"[{"op":1,"op":2}]"#), ["[0].op"]);
        assert!(duplicates(br#"{"a":{"b":1},"c":{"b":1}}"#).is_empty());
    }
}
