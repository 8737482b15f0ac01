//! What a guest sees of an object: the fields it reads, and no more.

use bytes::{BufMut, Bytes, BytesMut};
use joinery_object::{Members, ObjectError, write_string};

/// What every guest sees, whatever it reads.
const ALWAYS: [&str; 5] = [
    "/apiVersion",
    "/kind",
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/uid",
];

/// The fields that are read, as a tree of member names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Projection {
    /// Empty: everything below is read.
    members: Vec<(String, Projection)>,
}

impl Projection {
    /// From JSON pointers (RFC 6901); none for whole objects. `also` is added when there are any.
    pub(crate) fn new(pointers: &[String], also: &[&str]) -> Self {
        let mut root = Self::default();
        if pointers.is_empty() {
            return root;
        }
        // The widest first: what lies below a pointer that is read whole adds nothing.
        let mut all: Vec<&str> = pointers
            .iter()
            .map(String::as_str)
            .chain(ALWAYS)
            .chain(also.iter().copied())
            .collect();
        all.sort_by_key(|pointer| pointer.matches('/').count());
        for pointer in all {
            root.add(pointer);
        }
        root
    }

    fn add(&mut self, pointer: &str) {
        let mut node = self;
        let mut fresh = false;
        for (depth, name) in pointer.split('/').skip(1).enumerate() {
            let name = name.replace("~1", "/").replace("~0", "~");
            if depth > 0 && !fresh && node.members.is_empty() {
                return;
            }
            let at = match node.members.iter().position(|(member, _)| *member == name) {
                Some(at) => at,
                None => {
                    fresh = true;
                    node.members.push((name, Self::default()));
                    node.members.len() - 1
                }
            };
            node = &mut node.members[at].1;
        }
    }

    /// The object with these fields only, in its own order. Shared when everything is read.
    pub(crate) fn apply(&self, object: &Bytes) -> Result<Bytes, ObjectError> {
        if self.members.is_empty() {
            return Ok(object.clone());
        }
        let text = std::str::from_utf8(object)
            .map_err(|error| ObjectError::Malformed(error.to_string()))?;
        let mut out = BytesMut::with_capacity(text.len().min(1024));
        self.write(text, &mut out)?;
        // Held for as long as the object is: no more than it needs.
        Ok(Bytes::copy_from_slice(&out))
    }

    fn write(&self, text: &str, out: &mut BytesMut) -> Result<(), ObjectError> {
        if self.members.is_empty() {
            out.put_slice(text.as_bytes());
            return Ok(());
        }
        let members: Members<'_> = serde_json::from_str(text)
            .map_err(|error| ObjectError::Malformed(error.to_string()))?;
        out.put_u8(b'{');
        let mut first = true;
        for (name, value) in &members.0 {
            let Some((_, below)) = self.members.iter().find(|(member, _)| member == name) else {
                continue;
            };
            // A pointer goes on below what is no object: there is nothing there.
            if !below.members.is_empty() && !value.get().starts_with('{') {
                continue;
            }
            if !first {
                out.put_u8(b',');
            }
            first = false;
            write_string(out, name);
            out.put_u8(b':');
            below.write(value.get(), out)?;
        }
        out.put_u8(b'}');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: &str = r#"{"apiVersion":"v1","kind":"T","metadata":{"name":"a","uid":"u","labels":{"x/y":"1","z":"2"}},"spec":{"a":1,"b":[2]},"status":null}"#;

    fn project(pointers: &[&str]) -> String {
        let pointers: Vec<_> = pointers.iter().map(ToString::to_string).collect();
        let bytes = Projection::new(&pointers, &[])
            .apply(&Bytes::from_static(TASK.as_bytes()))
            .unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn only_what_is_read_is_seen_besides_the_identity() {
        assert_eq!(
            project(&["/spec/a", "/metadata/labels/x~1y"]),
            r#"{"apiVersion":"v1","kind":"T","metadata":{"name":"a","uid":"u","labels":{"x/y":"1"}},"spec":{"a":1}}"#
        );
    }

    #[test]
    fn a_pointer_below_one_that_is_read_whole_takes_nothing_away() {
        assert_eq!(
            project(&["/spec/a", "/spec", "/metadata", "/status/conditions"]),
            TASK.replace(r#","status":null"#, "")
        );
    }

    #[test]
    fn no_pointers_read_the_whole_object() {
        assert_eq!(project(&[]), TASK);
    }
}
