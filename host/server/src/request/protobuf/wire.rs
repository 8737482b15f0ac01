//! The wire format: fields of a message, and a message as a JSON object.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value as Json};

use super::{Field, Form, Message};

/// A field's value as it lies on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    fn number(self) -> Result<u64, String> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) => Err("a number is expected where bytes are".to_owned()),
        }
    }

    fn bytes(self) -> Result<&'a [u8], String> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) => Err("bytes are expected where a number is".to_owned()),
        }
    }

    pub(super) fn text(self) -> Result<String, String> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|error| error.to_string())
    }

    /// Negative numbers are written as their two's complement in 64 bits.
    fn signed(self) -> Result<i64, String> {
        Ok(i64::from_ne_bytes(self.number()?.to_ne_bytes()))
    }
}

/// The fields of a message in their order, each with its number. Ends after the first error.
pub(super) fn fields(
    mut rest: &[u8],
) -> impl Iterator<Item = Result<(u32, Value<'_>), String>> + '_ {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let field = next(&mut rest);
        if field.is_err() {
            rest = &[];
        }
        Some(field)
    })
}

fn next<'a>(rest: &mut &'a [u8]) -> Result<(u32, Value<'a>), String> {
    let key = varint(rest)?;
    let number = u32::try_from(key >> 3).map_err(|_| "a field's number is too large".to_owned())?;
    let value = match key & 7 {
        0 => Value::Number(varint(rest)?),
        1 => Value::Bytes(take(rest, 8)?),
        2 => {
            let length = varint(rest)?;
            let length = usize::try_from(length).map_err(|error| error.to_string())?;
            Value::Bytes(take(rest, length)?)
        }
        5 => Value::Bytes(take(rest, 4)?),
        other => return Err(format!("a field has wire type {other}")),
    };
    Ok((number, value))
}

fn varint(rest: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err("a number is longer than 64 bits".to_owned())
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], String> {
    let (taken, left) = rest
        .split_at_checked(length)
        .ok_or_else(|| "it ends in the middle of a field".to_owned())?;
    *rest = left;
    Ok(taken)
}

/// A message as JSON. Fields that `message` does not name are left out, as Go does.
pub(super) fn object(bytes: &[u8], message: &Message) -> Result<Map<String, Json>, String> {
    let mut object = Map::new();
    for field in fields(bytes) {
        let (number, value) = field?;
        if let Some(field) = message.0.iter().find(|field| field.0 == number) {
            add(&mut object, field, value).map_err(|error| format!("{}: {error}", field.1))?;
        }
    }
    Ok(object)
}

fn add(
    object: &mut Map<String, Json>,
    Field(_, name, form): &Field,
    value: Value<'_>,
) -> Result<(), String> {
    let json = match form {
        Form::Text => Some(value.text()?)
            .filter(|text| !text.is_empty())
            .map(Json::from),
        Form::Int => Some(value.signed()?)
            .filter(|number| *number != 0)
            .map(Json::from),
        Form::IntOrNone => Some(value.signed()?.into()),
        Form::BoolOrNone => Some((value.number()? != 0).into()),
        Form::Time => time(value.bytes()?, 0)?,
        Form::MicroTime => time(value.bytes()?, 6)?,
        Form::Nested(message) => Some(self::object(value.bytes()?, message)?.into()),
        Form::Texts => return push(object, name, value.text()?.into()),
        Form::Objects(message) => {
            return push(object, name, self::object(value.bytes()?, message)?.into());
        }
        Form::TextMap | Form::BytesMap => {
            let (mut key, mut entry) = (String::new(), &[][..]);
            for field in fields(value.bytes()?) {
                match field? {
                    (1, value) => key = value.text()?,
                    (2, value) => entry = value.bytes()?,
                    _ => {}
                }
            }
            let entry = match form {
                Form::BytesMap => STANDARD.encode(entry),
                _ => Value::Bytes(entry).text()?,
            };
            let map = object
                .entry(*name)
                .or_insert_with(|| Json::Object(Map::new()));
            if let Json::Object(map) = map {
                map.insert(key, entry.into());
            }
            return Ok(());
        }
    };
    if let Some(json) = json {
        object.insert((*name).to_owned(), json);
    }
    Ok(())
}

fn push(object: &mut Map<String, Json>, name: &str, item: Json) -> Result<(), String> {
    if let Json::Array(items) = object
        .entry(name)
        .or_insert_with(|| Json::Array(Vec::new()))
    {
        items.push(item);
    }
    Ok(())
}

/// `google.protobuf.Timestamp` as RFC 3339 with so many digits of a second. Empty is Go's zero time, so none.
fn time(bytes: &[u8], digits: usize) -> Result<Option<Json>, String> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let (mut seconds, mut nanos) = (0, 0);
    for field in fields(bytes) {
        match field? {
            (1, value) => seconds = value.signed()?,
            (2, value) => nanos = value.signed()?,
            _ => {}
        }
    }
    let nanos = i32::try_from(nanos).map_err(|error| error.to_string())?;
    let time = jiff::Timestamp::new(seconds, nanos).map_err(|error| error.to_string())?;
    let unit = if digits == 0 {
        jiff::Unit::Second
    } else {
        jiff::Unit::Microsecond
    };
    let rounding = jiff::TimestampRound::new()
        .smallest(unit)
        .mode(jiff::RoundMode::Floor);
    let time = time.round(rounding).map_err(|error| error.to_string())?;
    Ok(Some(format!("{time:.digits$}").into()))
}
