//! Kubernetes' protobuf encoding, as far as it is the same for all messages.
//!
//! Objects are encoded as k8s.io/apimachinery's `runtime.Unknown` behind four magic bytes; see [`Envelope`]. What the fields of
//! which kind are is known to those who read these.

/// Before every encoded object.
const MAGIC: &[u8] = b"k8s\0";

/// An encoded object, opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// Its apiVersion.
    pub api_version: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// The message of this kind.
    pub message: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Opens it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn open(body: &'a [u8]) -> Result<Self, String> {
        let envelope = body
            .strip_prefix(MAGIC)
            .ok_or_else(|| "it does not begin with k8s and a zero byte".to_owned())?;
        let mut opened = Self::default();
        for field in fields(envelope) {
            match field? {
                (1, Value::Bytes(type_meta)) => {
                    for field in fields(type_meta) {
                        match field? {
                            (1, value) => opened.api_version = value.text()?,
                            (2, value) => opened.kind = value.text()?,
                            _ => {}
                        }
                    }
                }
                (2, Value::Bytes(bytes)) => opened.message = bytes,
                _ => {}
            }
        }
        Ok(opened)
    }
}

/// A field's value as it lies on the wire.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A varint.
    Number(u64),
    /// Text, a message, or a number of fixed size.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// # Errors
    /// When it is no number.
    pub fn number(self) -> Result<u64, String> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) => Err("a number is expected where bytes are".to_owned()),
        }
    }

    /// # Errors
    /// When it is a number.
    pub fn bytes(self) -> Result<&'a [u8], String> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) => Err("bytes are expected where a number is".to_owned()),
        }
    }

    /// # Errors
    /// When it is no text in UTF-8.
    pub fn text(self) -> Result<&'a str, String> {
        std::str::from_utf8(self.bytes()?).map_err(|error| error.to_string())
    }

    /// Negative numbers are written as their two's complement in 64 bits.
    ///
    /// # Errors
    /// When it is no number.
    pub fn signed(self) -> Result<i64, String> {
        Ok(i64::from_ne_bytes(self.number()?.to_ne_bytes()))
    }
}

/// The fields of a message in their order, each with its number. Ends after the first error, which says what is wrong.
pub fn fields(mut rest: &[u8]) -> impl Iterator<Item = Result<(u32, Value<'_>), String>> + '_ {
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

/// `google.protobuf.Timestamp` as RFC 3339 with so many digits of a second. Empty is Go's zero time, so none.
///
/// # Errors
/// When it is no such message, or no time.
pub fn time(bytes: &[u8], digits: usize) -> Result<Option<String>, String> {
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
    Ok(Some(format!("{time:.digits$}")))
}
