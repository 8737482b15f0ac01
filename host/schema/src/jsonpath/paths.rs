//! Several paths, evaluated together.

use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::eval::{self, Match};
use super::{JsonPath, Step};

/// Paths compiled into one tree of fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    root: Branch,
    count: usize,
}

/// A place in the object that is reached by fields alone.
#[derive(Clone, Debug, Default)]
struct Branch {
    fields: Vec<(String, Branch)>,
    /// Paths that go on otherwise from here, or end: number of the path, and the rest of it.
    ends: Vec<(usize, Vec<Step>)>,
}

impl Paths {
    pub(crate) fn new<'a>(paths: impl IntoIterator<Item = &'a JsonPath>) -> Self {
        let mut all = Self::default();
        for path in paths {
            all.root.insert(all.count, &path.steps);
            all.count += 1;
        }
        all
    }

    /// The first result of each path, in order; none where it leads nowhere, or `object` is no JSON object.
    pub(crate) fn first<'a>(&self, object: &'a [u8]) -> Vec<Option<Match<'a>>> {
        let mut found = vec![None; self.count];
        if let Ok(text) = std::str::from_utf8(object) {
            let mut deserializer = serde_json::Deserializer::from_str(text);
            let seed = Descend {
                branch: &self.root,
                found: &mut found,
            };
            if seed.deserialize(&mut deserializer).is_err() {
                found.fill(None);
            }
        }
        found
    }
}

impl Branch {
    fn insert(&mut self, number: usize, steps: &[Step]) {
        let [Step::Field(name), rest @ ..] = steps else {
            self.ends.push((number, steps.to_vec()));
            return;
        };
        let at = match self.fields.iter().position(|(field, _)| field == name) {
            Some(at) => at,
            None => {
                self.fields.push((name.clone(), Branch::default()));
                self.fields.len() - 1
            }
        };
        self.fields[at].1.insert(number, rest);
    }

    /// Forgets what was found below: of duplicate keys the last counts.
    fn clear(&self, found: &mut [Option<Match<'_>>]) {
        for (number, _) in &self.ends {
            found[*number] = None;
        }
        for (_, branch) in &self.fields {
            branch.clear(found);
        }
    }
}

/// Reads one value and what the branch wants of it.
struct Descend<'b, 'f, 'de> {
    branch: &'b Branch,
    found: &'f mut [Option<Match<'de>>],
}

impl<'de> DeserializeSeed<'de> for Descend<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.branch.ends.is_empty() {
            return deserializer.deserialize_any(self);
        }
        // The value itself is wanted: take it whole, and look into it again for the fields below.
        let value: &'de RawValue = serde::Deserialize::deserialize(deserializer)?;
        for (number, steps) in &self.branch.ends {
            self.found[*number] = match steps[..] {
                [] => Some(value),
                _ => eval::walk(value, steps)
                    .ok()
                    .and_then(|found| found.first().copied()),
            };
        }
        if !self.branch.fields.is_empty() {
            let mut deserializer = serde_json::Deserializer::from_str(value.get());
            serde::Deserializer::deserialize_any(&mut deserializer, self)
                .map_err(serde::de::Error::custom)?;
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for Descend<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(child) = map.next_key_seed(Key(self.branch))? {
            match child {
                Some(branch) => {
                    branch.clear(self.found);
                    map.next_value_seed(Descend {
                        branch,
                        found: self.found,
                    })?;
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    // Fields of scalars do not exist.
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
}

/// Which field of the branch a key is.
struct Key<'b>(&'b Branch);

impl<'b, 'de> DeserializeSeed<'de> for Key<'b> {
    type Value = Option<&'b Branch>;

    fn deserialize<D: serde::Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'b> Visitor<'_> for Key<'b> {
    type Value = Option<&'b Branch>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self
            .0
            .fields
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, branch)| branch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(object: &str, paths: &[&str]) -> Vec<Option<String>> {
        let paths: Vec<JsonPath> = paths
            .iter()
            .map(|path| JsonPath::compile(path).unwrap())
            .collect();
        let found = Paths::new(&paths).first(object.as_bytes());
        found
            .into_iter()
            .map(|value| value.map(|value| value.get().to_owned()))
            .collect()
    }

    const OBJECT: &str = r#"{"metadata":{"name":"n","annotations":{"a.b/c":"dotted"}},
        "spec":{"n":1,"list":[10,20,30],"nested":{"x":{"y":"deep"}}},
        "status":{"conditions":[{"type":"Synced","status":"False","n":1},{"type":"Ready","status":"True","n":2}],
                  "none":null,"events":[{"reason":"A"},{"reason":"B"}]}}"#;

    #[test]
    fn fields_indexes_and_filters_find_their_values() {
        for (path, value) in [
            (".metadata.name", Some(r#""n""#)),
            (".metadata.annotations['a.b/c']", Some(r#""dotted""#)),
            (r".metadata.annotations.a\.b/c", Some(r#""dotted""#)),
            (r".metadata.annotations['a\.b/c']", Some(r#""dotted""#)),
            (".spec.list[0]", Some("10")),
            (".spec.list[-1]", Some("30")),
            (".spec.list[3]", None),
            (".spec.list[1:]", Some("20")),
            (".spec.list[0:3:2]", Some("10")),
            (".spec.list[*]", Some("10")),
            (".spec.list[2,0]", Some("30")),
            (".spec.n[0]", None),
            (".spec.n.x", None),
            (".spec.nested.x", Some(r#"{"y":"deep"}"#)),
            (".spec.nested.*.y", Some(r#""deep""#)),
            ("..y", Some(r#""deep""#)),
            (".status.none", Some("null")),
            (".status.none.x", None),
            (
                ".status.conditions[?(@.type==\"Ready\")].status",
                Some(r#""True""#),
            ),
            (
                ".status.conditions[?(@.type=='Ready')].status",
                Some(r#""True""#),
            ),
            (
                ".status.conditions[?(@.type != 'Synced')].status",
                Some(r#""True""#),
            ),
            (".status.conditions[?(@.n > 1)].type", Some(r#""Ready""#)),
            (".status.conditions[?(@.n>=1)].type", Some(r#""Synced""#)),
            (".status.conditions[?(@.type=='Gone')].status", None),
            (".status.conditions[?(@.missing)].status", None),
            (".status.conditions[?(@.n)].status", Some(r#""False""#)),
            (".status.conditions[?(@.n=='1')].status", None),
            (".status.events[1].reason", Some(r#""B""#)),
            (".spec[?(@.n==1)]", None),
            (".", None),
        ] {
            assert_eq!(first(OBJECT, &[path]), [value.map(str::to_owned)], "{path}");
        }
    }

    #[test]
    fn paths_that_share_fields_are_all_found() {
        assert_eq!(
            first(
                OBJECT,
                &[
                    ".spec.nested",
                    ".spec.nested.x.y",
                    ".spec.n",
                    ".nothing",
                    ".spec.nested.x"
                ]
            ),
            [
                Some(r#"{"x":{"y":"deep"}}"#),
                Some(r#""deep""#),
                Some("1"),
                None,
                Some(r#"{"y":"deep"}"#)
            ]
            .map(|value| value.map(str::to_owned))
        );
    }

    #[test]
    fn of_duplicate_keys_the_last_counts() {
        assert_eq!(
            first(r#"{"a":{"b":1},"a":{"c":2}}"#, &[".a.b", ".a.c"]),
            [None, Some("2".to_owned())]
        );
    }

    #[test]
    fn bytes_that_are_no_object_have_no_values() {
        assert_eq!(first(r#"{"a":1"#, &[".a"]), [None]);
        assert_eq!(first("[1]", &[".a"]), [None]);
    }

    #[test]
    fn broken_paths_say_what_is_wrong() {
        for (path, detail) in [
            ("spec.a", "must begin with ."),
            (".a[", "has a [ without ]"),
            (".a[x]", "has the invalid index [x]"),
            (".a[?(@.b==1]", "has a filter that does not end with )]"),
            (
                ".a[?(@.b=~1)]",
                "has the unknown operator =, allowed: == != < <= > >=",
            ),
            (
                ".a[?(@.b==x)]",
                "has the operand x: quote texts, and begin fields with @.",
            ),
            (".a{.b}", "has an unexpected '{'"),
        ] {
            assert_eq!(
                JsonPath::compile(path).unwrap_err().detail,
                detail,
                "{path}"
            );
        }
    }
}
