//! A message as the JSON text that Go writes of it.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use joinery_object::protobuf::{Value, fields, time};
use joinery_object::{LAST_APPLIED, write_string};

use super::Kind;

/// All fields of a message, in the order of its JSON.
#[derive(Debug)]
pub(super) struct Message(pub(super) &'static [Field]);

/// Number, JSON name and form of one field.
#[derive(Debug)]
pub(super) struct Field(pub(super) u32, pub(super) &'static str, pub(super) Form);

/// How a field is written as JSON, by its type and tag in Go.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// `string`, omitempty.
    Text,
    /// `string`, always there.
    Plain,
    /// An integer, omitempty.
    Int,
    /// A pointer to an integer.
    IntOrNone,
    /// A pointer to a bool.
    Bool,
    /// `metav1.Time`: null when it is zero, for omitempty does nothing to a struct.
    Time,
    /// `*metav1.Time`, or omitzero.
    TimeOrNone,
    /// `metav1.MicroTime`, likewise null.
    MicroTime,
    /// A struct, always there.
    Nested(&'static Message),
    /// A pointer to a struct.
    OrNone(&'static Message),
    /// `[]string`, omitempty.
    Texts,
    /// A slice of structs, omitempty.
    Objects(&'static Message),
    /// `map[string]string`, omitempty.
    TextMap,
    /// A `TextMap` without what the canonical form has not.
    Annotations,
    /// Not in the canonical form.
    Dropped,
}

/// Why a message cannot be written.
#[derive(Debug)]
pub(super) enum Unwritten {
    /// It has a field of this number, which is not known here.
    Unfamiliar(u32),
    /// It is none.
    Malformed(String),
}

impl From<String> for Unwritten {
    fn from(error: String) -> Self {
        Self::Malformed(error)
    }
}

type Result<T> = std::result::Result<T, Unwritten>;

/// Fields of a message as they came.
type Found<'a> = Vec<(u32, Value<'a>)>;

/// Writes objects, one after the other.
#[derive(Default)]
pub(super) struct Writer {
    out: BytesMut,
}

impl Writer {
    /// Writes an object, and says where its `metadata` stands, braces included.
    pub(super) fn object(&mut self, message: &[u8], kind: &Kind) -> Result<Range<usize>> {
        self.out.clear();
        self.raw(b"{\"apiVersion\":");
        write_string(&mut self.out, kind.api_version);
        self.raw(b",\"kind\":");
        write_string(&mut self.out, kind.kind);
        self.raw(b",\"metadata\":");
        let (mut found, mut meta) = (found(message)?, &[][..]);
        for (number, value) in &found {
            if *number == 1 {
                meta = value.bytes()?;
            }
        }
        found.retain(|(number, _)| *number != 1);
        let start = self.out.len();
        self.message(meta, kind.metadata)?;
        let end = self.out.len();
        self.raw(b",");
        self.members(&found, kind.rest)?;
        self.raw(b"}");
        Ok(start..end)
    }

    /// What was written last.
    pub(super) fn take(&mut self) -> Bytes {
        // Held for long: no more than it needs.
        Bytes::copy_from_slice(&self.out)
    }

    fn raw(&mut self, text: &[u8]) {
        self.out.extend_from_slice(text);
    }

    fn message(&mut self, bytes: &[u8], message: &Message) -> Result<()> {
        self.raw(b"{");
        self.members(&found(bytes)?, message)?;
        self.raw(b"}");
        Ok(())
    }

    fn members(&mut self, found: &Found<'_>, message: &Message) -> Result<()> {
        let known = |number: u32| message.0.iter().any(|field| field.0 == number);
        if let Some((number, _)) = found.iter().find(|(number, _)| !known(*number)) {
            return Err(Unwritten::Unfamiliar(*number));
        }
        let mut separator: &[u8] = b"";
        for Field(number, name, form) in message.0 {
            let before = self.out.len();
            self.raw(separator);
            self.raw(b"\"");
            self.raw(name.as_bytes());
            self.raw(b"\":");
            let of = found.iter().filter(|(found, _)| found == number);
            if self.value(of.map(|(_, value)| *value), *form)? {
                separator = b",";
            } else {
                self.out.truncate(before);
            }
        }
        Ok(())
    }

    /// Writes the value of a field; false where it is left out.
    fn value<'a>(&mut self, mut of: impl Iterator<Item = Value<'a>>, form: Form) -> Result<bool> {
        match form {
            // They can be there several times; of all others the last counts.
            Form::Texts | Form::Objects(_) => {
                let mut separator: &[u8] = b"[";
                for value in of {
                    self.raw(separator);
                    separator = b",";
                    match form {
                        Form::Objects(message) => self.message(value.bytes()?, message)?,
                        _ => self.string(value.bytes()?),
                    }
                }
                if separator == b"[" {
                    return Ok(false);
                }
                self.raw(b"]");
                return Ok(true);
            }
            Form::TextMap | Form::Annotations => return self.map(of, form),
            Form::Dropped => return Ok(false),
            _ => {}
        }
        let last = of.try_fold(None, |_, value| Ok::<_, Unwritten>(Some(value)))?;
        match form {
            Form::Text | Form::Plain => {
                let text = last.map_or(Ok(&[][..]), Value::bytes)?;
                if text.is_empty() && matches!(form, Form::Text) {
                    return Ok(false);
                }
                self.string(text);
            }
            Form::Int | Form::IntOrNone => {
                let number = last.map(Value::signed).transpose()?;
                match number {
                    None => return Ok(false),
                    Some(0) if matches!(form, Form::Int) => return Ok(false),
                    Some(number) => self.raw(number.to_string().as_bytes()),
                }
            }
            Form::Bool => match last.map(Value::number).transpose()? {
                None => return Ok(false),
                Some(number) => self.raw(if number == 0 { b"false" } else { b"true" }),
            },
            Form::Time | Form::TimeOrNone | Form::MicroTime => {
                let digits = if matches!(form, Form::MicroTime) {
                    6
                } else {
                    0
                };
                let text = time(last.map_or(Ok(&[][..]), Value::bytes)?, digits)?;
                match text {
                    Some(text) => self.string(text.as_bytes()),
                    None if matches!(form, Form::TimeOrNone) => return Ok(false),
                    None => self.raw(b"null"),
                }
            }
            Form::Nested(message) => {
                self.message(last.map_or(Ok(&[][..]), Value::bytes)?, message)?
            }
            Form::OrNone(message) => match last {
                None => return Ok(false),
                Some(value) => self.message(value.bytes()?, message)?,
            },
            Form::Texts | Form::Objects(_) | Form::TextMap | Form::Annotations | Form::Dropped => {}
        }
        Ok(true)
    }

    /// Go sorts the keys of a map.
    fn map<'a>(&mut self, entries: impl Iterator<Item = Value<'a>>, form: Form) -> Result<bool> {
        let mut map = std::collections::BTreeMap::new();
        for entry in entries {
            let (mut key, mut value) = (&[][..], &[][..]);
            for field in fields(entry.bytes()?) {
                match field? {
                    (1, text) => key = text.bytes()?,
                    (2, text) => value = text.bytes()?,
                    (number, _) => return Err(Unwritten::Unfamiliar(number)),
                }
            }
            map.insert(key, value);
        }
        if matches!(form, Form::Annotations) {
            map.remove(LAST_APPLIED.as_bytes());
        }
        let mut separator: &[u8] = b"{";
        for (key, value) in &map {
            self.raw(separator);
            self.string(key);
            self.raw(b":");
            self.string(value);
            separator = b",";
        }
        if map.is_empty() {
            return Ok(false);
        }
        self.raw(b"}");
        Ok(true)
    }

    /// A string as encoding/json writes it: what could end a script or a line in HTML and JavaScript is escaped too, and each byte
    /// that is no UTF-8 is U+FFFD. (Go's protobuf takes any bytes for a string, so a client can store them.)
    fn string(&mut self, text: &[u8]) {
        self.raw(b"\"");
        for chunk in text.utf8_chunks() {
            self.characters(chunk.valid());
            for _ in chunk.invalid() {
                self.raw(b"\\ufffd");
            }
        }
        self.raw(b"\"");
    }

    fn characters(&mut self, text: &str) {
        let harmless =
            |byte: u8| !matches!(byte, 0..=0x1f | b'"' | b'\\' | b'<' | b'>' | b'&' | 0xe2);
        if text.bytes().all(harmless) {
            self.raw(text.as_bytes());
        } else {
            for c in text.chars() {
                match c {
                    '"' => self.raw(b"\\\""),
                    '\\' => self.raw(b"\\\\"),
                    '\n' => self.raw(b"\\n"),
                    '\r' => self.raw(b"\\r"),
                    '\t' => self.raw(b"\\t"),
                    '\u{8}' => self.raw(b"\\b"),
                    '\u{c}' => self.raw(b"\\f"),
                    '\0'..='\x1f' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                        self.raw(format!("\\u{:04x}", u32::from(c)).as_bytes());
                    }
                    c => self.raw(c.encode_utf8(&mut [0; 4]).as_bytes()),
                }
            }
        }
    }
}

fn found(message: &[u8]) -> Result<Found<'_>> {
    fields(message)
        .collect::<std::result::Result<_, _>>()
        .map_err(Unwritten::Malformed)
}
