use bytes::Bytes;
use jiff::Timestamp;

use super::duration::human_duration;

/// One cell of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// A JSON value, `null` where the object has none.
    Json(Bytes),
    /// A point in time of a `date` column: a hole that is filled with its age when the row is read.
    Date(Timestamp),
}

impl Cell {
    pub(super) fn null() -> Self {
        Self::Json(Bytes::from_static(b"null"))
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self, Self::Json(json) if json == "null")
    }

    /// A whole number.
    #[must_use]
    pub fn integer(number: i64) -> Self {
        Self::Json(number.to_string().into())
    }

    /// A JSON string. Control characters, which no cell should have, are escaped.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::Json(serde_json::Value::from(text).to_string().into())
    }

    /// A date as metav1.Time reads it in a table: the empty text is a time that was never set.
    #[must_use]
    pub fn date(text: &str) -> Self {
        if text.is_empty() || text == "null" {
            return Self::text("<unknown>");
        }
        match text.parse::<Timestamp>() {
            Ok(time) if time == zero() => Self::text("<unknown>"),
            Ok(time) => Self::Date(time),
            Err(_) => Self::text("<invalid>"),
        }
    }

    /// Appends the cell as JSON, ages as of `now`.
    pub fn write_json(&self, now: Timestamp, out: &mut Vec<u8>) {
        match self {
            Self::Json(json) => out.extend_from_slice(json),
            Self::Date(time) => {
                out.push(b'"');
                out.extend_from_slice(human_duration(now.duration_since(*time)).as_bytes());
                out.push(b'"');
            }
        }
    }

    /// The cell as JSON, ages as of `now`.
    #[must_use]
    pub fn to_json(&self, now: Timestamp) -> Bytes {
        match self {
            Self::Json(json) => json.clone(),
            Self::Date(_) => {
                let mut out = Vec::new();
                self.write_json(now, &mut out);
                out.into()
            }
        }
    }
}

/// Go's zero time, 0001-01-01T00:00:00Z.
fn zero() -> Timestamp {
    Timestamp::constant(-62_135_596_800, 0)
}
