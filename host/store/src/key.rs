//! Keys and contiguous ranges of them.
//!
//! A key has four segments: group, resource, namespace (empty for what is cluster-scoped) and
//! name. They are joined by NUL, which is below every byte that a segment may hold. Two things
//! follow, and neither holds with `/`, which lies above `-` and `.`: everything of one resource
//! or one namespace is one contiguous range, and keys sort as the tuple of their segments does
//! (namespace `a` before `a-b` before `a.b`), whatever the names are.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Bound;
use std::str::FromStr;
use std::sync::Arc;

/// What separates segments; below every byte a segment may hold.
const SEPARATOR: char = '\0';
/// The byte after [`SEPARATOR`]: a prefix that ends in the separator ends its range here.
const AFTER_SEPARATOR: char = '\x01';
/// The longest key in bytes. Names, namespaces and groups of Kubernetes have at most 253 each.
const MAX_LEN: usize = 4096;

/// Why segments do not make a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A segment holds NUL or `/`, which no path segment of the Kubernetes API can.
    #[error("{segment} {value:?} must not contain '/' or a NUL character")]
    IllegalCharacter {
        /// Which segment: `group`, `resource`, `namespace` or `name`.
        segment: &'static str,
        /// The segment as given.
        value: String,
    },
    /// The resource or the name is empty.
    #[error("{segment} must not be empty")]
    Empty {
        /// Which segment: `resource` or `name`.
        segment: &'static str,
    },
    /// All segments together are longer than 4096 bytes.
    #[error("a key of {length} bytes is longer than the {MAX_LEN} allowed")]
    TooLong {
        /// The length of all segments with their separators.
        length: usize,
    },
    /// The text does not have the form `/<group>/<resource>/<namespace or empty>/<name>`.
    #[error("{text:?} is not of the form /<group>/<resource>/<namespace or empty>/<name>")]
    Malformed {
        /// The text as given.
        text: String,
    },
}

/// The key of one object. Cloning shares the text.
///
/// Written and parsed as `/<group>/<resource>/<namespace or empty>/<name>`, for example
/// `/tasks.example.com/tasks/default/a` or, without namespace, `//namespaces//default`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// The key of these segments. `group` is empty for the core group, `namespace` for
    /// cluster-scoped objects.
    ///
    /// # Errors
    /// [`KeyError`] for an empty resource or name, for NUL or `/` in a segment, and for more
    /// than 4096 bytes.
    pub fn new(group: &str, resource: &str, namespace: &str, name: &str) -> Result<Self, KeyError> {
        segment("group", group)?;
        required_segment("resource", resource)?;
        segment("namespace", namespace)?;
        required_segment("name", name)?;
        let length = group.len() + resource.len() + namespace.len() + name.len() + 3;
        if length > MAX_LEN {
            return Err(KeyError::TooLong { length });
        }
        Ok(Self([group, resource, namespace, name].join("\0").into()))
    }

    /// The key whose [`Key::encoded`] form this is.
    ///
    /// # Errors
    /// [`KeyError`] when it is not one.
    pub fn from_encoded(encoded: &str) -> Result<Self, KeyError> {
        let segments: Vec<&str> = encoded.split(SEPARATOR).collect();
        let [group, resource, namespace, name] = segments[..] else {
            return Err(KeyError::Malformed {
                text: encoded.to_owned(),
            });
        };
        Self::new(group, resource, namespace, name)
    }

    /// The segments joined by NUL: what orders keys and what engines keep.
    #[must_use]
    pub fn encoded(&self) -> &str {
        &self.0
    }

    /// The API group, empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.segment_at(0)
    }

    /// The plural name of the resource.
    #[must_use]
    pub fn resource(&self) -> &str {
        self.segment_at(1)
    }

    /// The namespace, empty for a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.segment_at(2)
    }

    /// The object's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.segment_at(3)
    }

    fn segment_at(&self, index: usize) -> &str {
        self.0.split(SEPARATOR).nth(index).unwrap_or_default()
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_path(f, &self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_path(f, &self.0)
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let segments: Vec<&str> = text.split('/').collect();
        let ["", group, resource, namespace, name] = segments[..] else {
            return Err(KeyError::Malformed {
                text: text.to_owned(),
            });
        };
        Self::new(group, resource, namespace, name)
    }
}

/// A contiguous range of keys: all, a resource, a namespace of it, or one key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// The first position in the range.
    start: Arc<str>,
    /// The first position after the range; none means that it has no end.
    end: Option<Arc<str>>,
}

impl KeyRange {
    /// Every key.
    #[must_use]
    pub fn all() -> Self {
        Self {
            start: "".into(),
            end: None,
        }
    }

    /// The objects of a resource in all namespaces.
    ///
    /// # Errors
    /// [`KeyError`] as for [`Key::new`].
    pub fn resource(group: &str, resource: &str) -> Result<Self, KeyError> {
        segment("group", group)?;
        required_segment("resource", resource)?;
        Ok(Self::below(&[group, resource]))
    }

    /// The objects of a resource in one namespace; the empty namespace holds the cluster-scoped.
    ///
    /// # Errors
    /// [`KeyError`] as for [`Key::new`].
    pub fn namespace(group: &str, resource: &str, namespace: &str) -> Result<Self, KeyError> {
        segment("group", group)?;
        required_segment("resource", resource)?;
        segment("namespace", namespace)?;
        Ok(Self::below(&[group, resource, namespace]))
    }

    /// This one key.
    #[must_use]
    pub fn key(key: &Key) -> Self {
        Self {
            start: key.0.clone(),
            end: Some(format!("{}{SEPARATOR}", key.0).into()),
        }
    }

    fn below(segments: &[&str]) -> Self {
        let prefix = segments.join("\0");
        Self {
            start: format!("{prefix}{SEPARATOR}").into(),
            end: Some(format!("{prefix}{AFTER_SEPARATOR}").into()),
        }
    }

    /// Whether the key lies in the range.
    #[must_use]
    pub fn contains(&self, key: &Key) -> bool {
        let key = key.encoded();
        key >= &*self.start && self.end.as_ref().is_none_or(|end| key < &**end)
    }

    /// The bounds in encoded keys of what lies in the range after `after`; nothing at all when
    /// none does.
    pub(crate) fn bounds_after<'a>(
        &'a self,
        after: Option<&'a Key>,
    ) -> Option<(Bound<&'a str>, Bound<&'a str>)> {
        let end = self.end.as_deref();
        let start = match after.map(Key::encoded) {
            Some(after) if after >= &*self.start => {
                if end.is_some_and(|end| after >= end) {
                    return None;
                }
                Bound::Excluded(after)
            }
            _ => Bound::Included(&*self.start),
        };
        Some((start, end.map_or(Bound::Unbounded, Bound::Excluded)))
    }

    /// The bounds of the whole range in encoded keys.
    pub(crate) fn bounds(&self) -> (Bound<&str>, Bound<&str>) {
        (
            Bound::Included(&*self.start),
            self.end
                .as_deref()
                .map_or(Bound::Unbounded, Bound::Excluded),
        )
    }
}

impl fmt::Debug for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyRange({self})")
    }
}

impl fmt::Display for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.start.strip_suffix(SEPARATOR) {
            Some(prefix) => {
                write_path(f, prefix)?;
                f.write_str("/*")
            }
            None if self.start.is_empty() => f.write_str("/*"),
            None => write_path(f, &self.start),
        }
    }
}

fn write_path(f: &mut fmt::Formatter<'_>, encoded: &str) -> fmt::Result {
    for segment in encoded.split(SEPARATOR) {
        write!(f, "/{segment}")?;
    }
    Ok(())
}

fn segment(segment: &'static str, value: &str) -> Result<(), KeyError> {
    if value.contains([SEPARATOR, '/']) {
        return Err(KeyError::IllegalCharacter {
            segment,
            value: value.to_owned(),
        });
    }
    Ok(())
}

fn required_segment(name: &'static str, value: &str) -> Result<(), KeyError> {
    if value.is_empty() {
        return Err(KeyError::Empty { segment: name });
    }
    segment(name, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        text.parse().unwrap()
    }

    #[test]
    fn keys_sort_as_the_tuple_of_their_segments() {
        let mut tuples = Vec::new();
        for namespace in ["", "a", "a-b", "a.b", "a0", "ab", "b"] {
            for name in ["a", "a-b", "a.b", "a:b", "ab", "z"] {
                tuples.push((namespace, name));
            }
        }
        tuples.sort_unstable();
        let mut keys: Vec<Key> = tuples
            .iter()
            .map(|(namespace, name)| Key::new("g", "r", namespace, name).unwrap())
            .collect();
        keys.sort();
        let sorted: Vec<(&str, &str)> = keys.iter().map(|k| (k.namespace(), k.name())).collect();
        assert_eq!(sorted, tuples);
    }

    #[test]
    fn a_namespace_range_holds_its_own_keys_only() {
        let range = KeyRange::namespace("g", "r", "a").unwrap();
        assert!(range.contains(&key("/g/r/a/x")));
        assert!(range.contains(&key("/g/r/a/~")));
        for outside in [
            "/g/r//x",
            "/g/r/a-b/x",
            "/g/r/a.b/x",
            "/g/r/aa/x",
            "/g/r2/a/x",
            "/g2/r/a/x",
            "//r/a/x",
        ] {
            assert!(!range.contains(&key(outside)), "{outside}");
        }
    }

    #[test]
    fn a_resource_range_holds_every_namespace_of_that_resource_only() {
        let range = KeyRange::resource("", "events").unwrap();
        assert!(range.contains(&key("//events/a/x")));
        assert!(range.contains(&key("//events//x")));
        assert!(!range.contains(&key("//eventsx/a/x")));
        assert!(!range.contains(&key("/events/events/a/x")));
    }

    #[test]
    fn a_key_range_holds_that_key_only() {
        let range = KeyRange::key(&key("/g/r/a/x"));
        assert!(range.contains(&key("/g/r/a/x")));
        assert!(!range.contains(&key("/g/r/a/x-1")));
        assert!(!range.contains(&key("/g/r/a/w")));
    }

    #[test]
    fn the_text_form_is_a_path_and_parses_back() {
        let cluster_scoped = Key::new("", "namespaces", "", "default").unwrap();
        assert_eq!(cluster_scoped.to_string(), "//namespaces//default");
        assert_eq!(key("//namespaces//default"), cluster_scoped);
        assert_eq!(KeyRange::all().to_string(), "/*");
        assert_eq!(
            KeyRange::namespace("g", "r", "a").unwrap().to_string(),
            "/g/r/a/*"
        );
        assert_eq!(KeyRange::key(&key("/g/r/a/x")).to_string(), "/g/r/a/x");
        assert_eq!(
            Key::from_encoded(cluster_scoped.encoded()).unwrap(),
            cluster_scoped
        );
    }

    #[test]
    fn segments_that_would_break_out_of_their_range_are_refused() {
        assert!(matches!(
            Key::new("g", "r", "a\0b", "x"),
            Err(KeyError::IllegalCharacter {
                segment: "namespace",
                ..
            })
        ));
        assert!(matches!(
            Key::new("g", "r", "a", "x/y"),
            Err(KeyError::IllegalCharacter {
                segment: "name",
                ..
            })
        ));
        assert_eq!(
            Key::new("g", "r", "a", ""),
            Err(KeyError::Empty { segment: "name" })
        );
        assert_eq!(
            Key::new("g", "", "a", "x"),
            Err(KeyError::Empty {
                segment: "resource"
            })
        );
        assert_eq!(
            Key::new("g", "r", "a", &"x".repeat(5000)),
            Err(KeyError::TooLong { length: 5006 })
        );
        assert!(matches!(
            "g/r/a/x".parse::<Key>(),
            Err(KeyError::Malformed { .. })
        ));
    }
}
