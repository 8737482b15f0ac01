use std::fmt::Write as _;

use serde::Serialize;

use crate::Group;

/// An object of a group, as a hole names it: 0 is the primary; then the branches' objects, counted through. See
/// [`Group::input`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Input(pub u32);

/// One hole and what goes into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insert {
    /// Byte offset in the text.
    pub at: u32,
    /// Which object goes there, whole and by reference.
    pub input: Input,
}

/// A JSON object with holes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Composed {
    /// JSON but for the holes.
    pub text: Vec<u8>,
    /// By rising `at`.
    pub inserts: Vec<Insert>,
}

impl Composed {
    /// Fills the holes as the host does, for tests. (The host inserts whole objects, also where the source names
    /// what it `reads`.)
    pub fn fill(&self, group: &Group) -> Vec<u8> {
        let inputs: Vec<&[u8]> = std::iter::once(&group.primary)
            .chain(group.branches.iter().flat_map(|b| &b.objects))
            .map(Vec::as_slice)
            .collect();
        let mut out = Vec::new();
        let mut from = 0;
        for insert in &self.inserts {
            out.extend_from_slice(&self.text[from..insert.at as usize]);
            out.extend_from_slice(inputs[insert.input.0 as usize]);
            from = insert.at as usize;
        }
        out.extend_from_slice(&self.text[from..]);
        out
    }
}

/// Writes JSON text with holes, value by value: commas come by themselves, whether a value is text or a hole.
///
/// The caller balances `begin_` and `end_`, and writes a [`key`](Self::key) before each value of an object.
#[derive(Debug, Default)]
pub struct Composer {
    text: String,
    inserts: Vec<Insert>,
    /// A value, or a hole, stands before: the next one needs a comma.
    follows: bool,
}

impl Composer {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Nothing yet, with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            text: String::with_capacity(bytes),
            ..Self::default()
        }
    }

    fn separate(&mut self) {
        if self.follows {
            self.text.push(',');
        }
        self.follows = true;
    }

    /// Opens an object.
    pub fn begin_object(&mut self) {
        self.separate();
        self.text.push('{');
        self.follows = false;
    }

    /// Closes an object.
    pub fn end_object(&mut self) {
        self.text.push('}');
        self.follows = true;
    }

    /// Opens an array.
    pub fn begin_array(&mut self) {
        self.separate();
        self.text.push('[');
        self.follows = false;
    }

    /// Closes an array.
    pub fn end_array(&mut self) {
        self.text.push(']');
        self.follows = true;
    }

    /// A member's name; its value is to follow.
    pub fn key(&mut self, name: &str) -> &mut Self {
        self.string(name);
        self.text.push(':');
        self.follows = false;
        self
    }

    /// A string, escaped.
    pub fn string(&mut self, value: &str) {
        self.separate();
        self.text.push('"');
        let mut from = 0;
        for (at, byte) in value.bytes().enumerate() {
            if byte >= 0x20 && byte != b'"' && byte != b'\\' {
                continue;
            }
            self.text.push_str(&value[from..at]);
            from = at + 1;
            match byte {
                b'"' => self.text.push_str("\\\""),
                b'\\' => self.text.push_str("\\\\"),
                b'\n' => self.text.push_str("\\n"),
                b'\r' => self.text.push_str("\\r"),
                b'\t' => self.text.push_str("\\t"),
                // Writing to a String cannot fail.
                other => _ = write!(self.text, "\\u{other:04x}"),
            }
        }
        self.text.push_str(&value[from..]);
        self.text.push('"');
    }

    /// A whole number.
    pub fn integer(&mut self, value: impl Into<i128>) {
        self.separate();
        _ = write!(self.text, "{}", value.into());
    }

    /// A JSON value as it stands, such as `RawValue::get` gives.
    pub fn raw(&mut self, json: &str) {
        self.separate();
        self.text.push_str(json);
    }

    /// Any value that serializes to JSON.
    ///
    /// # Errors
    /// Those of serde_json, e.g. for a map whose keys are no strings.
    pub fn value(&mut self, value: &impl Serialize) -> Result<(), serde_json::Error> {
        let json = serde_json::to_string(value)?;
        self.raw(&json);
        Ok(())
    }

    /// A hole: the host puts the whole object there by reference.
    pub fn insert(&mut self, input: Input) {
        self.separate();
        // The canonical ABI bounds a text to 32-bit lengths.
        self.inserts.push(Insert {
            at: self.text.len() as u32,
            input,
        });
    }

    /// The text with its holes.
    pub fn finish(self) -> Composed {
        Composed {
            text: self.text.into_bytes(),
            inserts: self.inserts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Branch;

    fn group() -> Group {
        Group {
            primary: b"{\"p\":1}".to_vec(),
            branches: vec![
                Branch {
                    objects: vec![b"{\"a\":0}".to_vec(), b"{\"a\":1}".to_vec()],
                    ..Branch::default()
                },
                Branch {
                    objects: vec![b"{\"b\":0}".to_vec()],
                    ..Branch::default()
                },
            ],
        }
    }

    #[test]
    fn holes_and_values_are_separated_alike() {
        let group = group();
        let mut out = Composer::new();
        out.begin_object();
        out.key("n").integer(-7);
        out.key("list").begin_array();
        out.insert(group.input(0, 1));
        out.integer(2u64);
        out.insert(group.input(1, 0));
        out.end_array();
        out.key("none").begin_array();
        out.end_array();
        out.key("p").insert(group.primary_input());
        out.key("last").raw("null");
        out.end_object();
        let text = out.finish().fill(&group);
        assert_eq!(
            String::from_utf8(text).unwrap(),
            r#"{"n":-7,"list":[{"a":1},2,{"b":0}],"none":[],"p":{"p":1},"last":null}"#
        );
    }

    #[test]
    fn strings_read_back_as_they_were() {
        for text in [
            "",
            "plain",
            "q\"b\\s/",
            "\u{0}\u{1f}\n\r\t\u{7f}",
            "ä\u{2028}😀\"",
        ] {
            let mut out = Composer::new();
            out.string(text);
            let json = out.finish().text;
            assert_eq!(serde_json::from_slice::<String>(&json).unwrap(), text);
        }
    }

    #[test]
    fn values_serialize_and_failures_write_nothing() {
        let mut out = Composer::new();
        out.begin_array();
        out.value(&[1, 2]).unwrap();
        let bad = std::collections::BTreeMap::from([(vec![1], 1)]);
        assert!(out.value(&bad).is_err());
        out.end_array();
        assert_eq!(out.finish().text, b"[[1,2]]");
    }
}
