use std::str::FromStr;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::cell::Cell;
use crate::go;
use crate::jsonpath::{JsonPath, JsonPathError, Match, Paths};
use crate::openapi::object_meta_description;

/// As an entry of a CRD's `additionalPrinterColumns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// What the cells hold.
    pub column_type: ColumnType,
    /// An OpenAPI format, or empty.
    pub format: String,
    /// For `kubectl explain`-like uses; empty: one is made of the path.
    pub description: String,
    /// Where the value is, e.g. `.spec.priority`.
    pub json_path: String,
    /// 0 is always shown, more only in wide output.
    pub priority: i32,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnType {
    /// `true` or `false`.
    Boolean,
    /// An RFC 3339 time, shown as an age.
    Date,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// Anything, as text.
    String,
}

impl FromStr for ColumnType {
    type Err = ColumnError;

    fn from_str(name: &str) -> Result<Self, ColumnError> {
        Ok(match name {
            "boolean" => Self::Boolean,
            "date" => Self::Date,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "string" => Self::String,
            _ => return Err(ColumnError::Type(name.to_owned())),
        })
    }
}

/// A column that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColumnError {
    /// An unknown type.
    #[error("column type {0:?} is not supported, allowed: boolean, date, integer, number, string")]
    Type(String),
    /// An unknown format.
    #[error(
        "column {name:?}: format {format:?} is not supported, allowed: byte, date, date-time, double, float, int32, \
         int64, password"
    )]
    Format {
        /// The column.
        name: String,
        /// Its format.
        format: String,
    },
    /// No name.
    #[error("a column must have a name (its path is {0:?})")]
    Name(String),
    /// No usable path.
    #[error("column {name:?}: {source}")]
    Path {
        /// The column.
        name: String,
        /// What is wrong.
        source: JsonPathError,
    },
}

const FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];

/// The columns of a resource, ready to make cells: first the name, then those declared. Without any declared they are
/// Name and Created At, as k8s.io/apiserver has it.
#[derive(Clone, Debug)]
pub struct Columns {
    types: Vec<CellType>,
    paths: Paths,
    definitions: Bytes,
    /// Makes the cells instead.
    made: Option<fn(&Value) -> Vec<Cell>>,
}

#[derive(Clone, Copy, Debug)]
enum CellType {
    Declared(ColumnType),
    /// The time itself instead of its age.
    Time,
}

/// One metav1.TableColumnDefinition. None of its fields is ever left out.
#[derive(Serialize)]
struct Definition<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    column_type: ColumnType,
    format: &'a str,
    description: &'a str,
    priority: i32,
}

impl Columns {
    /// Compiles the declared columns.
    ///
    /// # Errors
    /// A column without a name, of an unknown format, or whose JSONPath cannot be used.
    pub fn compile(columns: &[Column]) -> Result<Self, ColumnError> {
        let name_description = object_meta_description("name");
        let mut definitions = vec![Definition {
            name: "Name",
            column_type: ColumnType::String,
            format: "name",
            description: &name_description,
            priority: 0,
        }];
        let path = |name: &str, text: &str| {
            JsonPath::compile(text).map_err(|source| ColumnError::Path {
                name: name.to_owned(),
                source,
            })
        };
        let mut types = vec![CellType::Declared(ColumnType::String)];
        let mut paths = vec![path("Name", ".metadata.name")?];

        let created_description = object_meta_description("creationTimestamp");
        if columns.is_empty() {
            definitions.push(Definition {
                name: "Created At",
                column_type: ColumnType::Date,
                format: "",
                description: &created_description,
                priority: 0,
            });
            types.push(CellType::Time);
            paths.push(path("Created At", ".metadata.creationTimestamp")?);
        }
        let descriptions: Vec<String> = columns
            .iter()
            .map(|column| match column.description.as_str() {
                "" => format!(
                    "Custom resource definition column (in JSONPath format): {}",
                    column.json_path
                ),
                description => description.to_owned(),
            })
            .collect();
        for (column, description) in columns.iter().zip(&descriptions) {
            if column.name.is_empty() {
                return Err(ColumnError::Name(column.json_path.clone()));
            }
            if !column.format.is_empty() && !FORMATS.contains(&column.format.as_str()) {
                return Err(ColumnError::Format {
                    name: column.name.clone(),
                    format: column.format.clone(),
                });
            }
            definitions.push(Definition {
                name: &column.name,
                column_type: column.column_type,
                format: &column.format,
                description,
                priority: column.priority,
            });
            types.push(CellType::Declared(column.column_type));
            paths.push(path(&column.name, &column.json_path)?);
        }
        let definitions = serde_json::to_vec(&definitions).unwrap_or_default().into();
        Ok(Self {
            types,
            paths: Paths::new(&paths),
            definitions,
            made: None,
        })
    }

    /// Columns that no path leads to, as those of built-in kinds: these, the name among them, with the cells that
    /// `cells` makes of an object.
    ///
    /// # Errors
    /// A column without a name.
    pub fn made(columns: &[Column], cells: fn(&Value) -> Vec<Cell>) -> Result<Self, ColumnError> {
        if columns.iter().any(|column| column.name.is_empty()) {
            return Err(ColumnError::Name(String::new()));
        }
        let definitions: Vec<_> = columns
            .iter()
            .map(|column| Definition {
                name: &column.name,
                column_type: column.column_type,
                format: &column.format,
                description: &column.description,
                priority: column.priority,
            })
            .collect();
        Ok(Self {
            types: Vec::new(),
            paths: Paths::new(&[]),
            definitions: serde_json::to_vec(&definitions).unwrap_or_default().into(),
            made: Some(cells),
        })
    }

    /// `columnDefinitions` of a Table: a JSON array of metav1.TableColumnDefinition.
    #[must_use]
    pub fn definitions(&self) -> &Bytes {
        &self.definitions
    }

    /// The cells of an object, one for each definition, in one pass over its bytes. What the object lacks, or has of
    /// another type than the column, is null.
    #[must_use]
    pub fn cells(&self, object: &[u8]) -> Vec<Cell> {
        if let Some(made) = self.made {
            return made(&serde_json::from_slice(object).unwrap_or_default());
        }
        let values = self.paths.first(object);
        let mut cells: Vec<Cell> = self
            .types
            .iter()
            .zip(values)
            .map(|(cell_type, value)| value.map_or_else(Cell::null, |v| cell(*cell_type, v)))
            .collect();
        // Go takes the name from the metadata, which always has one: that of the empty object in a bookmark is empty.
        if let Some(name) = cells.first_mut().filter(|cell| cell.is_null()) {
            *name = Cell::text("");
        }
        cells
    }
}

fn cell(cell_type: CellType, raw: Match<'_>) -> Cell {
    let column_type = match cell_type {
        CellType::Declared(column_type) => column_type,
        CellType::Time => {
            return if raw.get().starts_with('"') {
                json(raw)
            } else {
                Cell::null()
            };
        }
    };
    match (column_type, raw.get().as_bytes().first()) {
        // Go prints an explicit null in a text column so.
        (ColumnType::String, Some(b'n')) => Cell::text("<no value>"),
        (ColumnType::String, Some(b'"')) => json(raw),
        (ColumnType::String, Some(b'{' | b'[')) => match serde_json::from_str::<Value>(raw.get()) {
            Ok(value) => Cell::text(&go::json(&value)),
            Err(_) => Cell::null(),
        },
        (ColumnType::String, Some(b't' | b'f')) => Cell::text(raw.get()),
        (ColumnType::String, _) => {
            number(raw).map_or_else(Cell::null, |n| Cell::text(&go::number(&n)))
        }
        (ColumnType::Boolean, Some(b't' | b'f')) => json(raw),
        (ColumnType::Date, Some(b'"')) => serde_json::from_str::<String>(raw.get())
            .map_or_else(|_| Cell::null(), |text| Cell::date(&text)),
        (ColumnType::Integer, Some(b'-' | b'0'..=b'9')) => {
            let int = number(raw).and_then(|n| {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "a float in an integer column is cut, as in Go"
                )]
                n.as_i64().or_else(|| n.as_f64().map(|float| float as i64))
            });
            int.map_or_else(Cell::null, |int| Cell::Json(int.to_string().into()))
        }
        (ColumnType::Number, Some(b'-' | b'0'..=b'9')) => json(raw),
        _ => Cell::null(),
    }
}

fn json(raw: &RawValue) -> Cell {
    Cell::Json(Bytes::copy_from_slice(raw.get().as_bytes()))
}

fn number(raw: &RawValue) -> Option<serde_json::Number> {
    serde_json::from_str(raw.get()).ok()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn column(column_type: ColumnType, json_path: &str) -> Column {
        Column {
            name: json_path.to_owned(),
            column_type,
            format: String::new(),
            description: String::new(),
            json_path: json_path.to_owned(),
            priority: 0,
        }
    }

    fn cells(columns: &[Column], object: &Value) -> Vec<String> {
        let now: Timestamp = "2026-01-02T00:05:10Z".parse().unwrap();
        let cells = Columns::compile(columns)
            .unwrap()
            .cells(object.to_string().as_bytes());
        cells
            .iter()
            .map(|cell| String::from_utf8(cell.to_json(now).to_vec()).unwrap())
            .collect()
    }

    #[test]
    fn cells_follow_the_type_of_their_column() {
        use ColumnType::{Boolean, Date, Integer, Number, String};
        let object = json!({
            "metadata": {"name": "n", "creationTimestamp": "2026-01-02T00:00:00Z"},
            "spec": {"int": 3, "float": 2.5, "text": "a\"b", "on": true, "none": null, "map": {"a": [1]},
                "future": "2027-01-01T00:00:00Z", "empty": "", "odd": "yesterday"},
        });
        for (column_type, path, expected) in [
            (String, ".spec.text", r#""a\"b""#),
            (String, ".spec.int", r#""3""#),
            (String, ".spec.float", r#""2.5""#),
            (String, ".spec.on", r#""true""#),
            (String, ".spec.map", r#""{\"a\":[1]}""#),
            (String, ".spec.none", r#""<no value>""#),
            (String, ".spec.gone", "null"),
            (Integer, ".spec.int", "3"),
            (Integer, ".spec.float", "2"),
            (Integer, ".spec.text", "null"),
            (Number, ".spec.float", "2.5"),
            (Number, ".spec.none", "null"),
            (Boolean, ".spec.on", "true"),
            (Boolean, ".spec.int", "null"),
            (Date, ".metadata.creationTimestamp", r#""5m10s""#),
            (Date, ".spec.future", r#""<invalid>""#),
            (Date, ".spec.odd", r#""<invalid>""#),
            (Date, ".spec.empty", r#""<unknown>""#),
            (Date, ".spec.none", "null"),
            (Date, ".spec.gone", "null"),
        ] {
            let found = cells(&[column(column_type, path)], &object);
            assert_eq!(
                found,
                [r#""n""#.to_owned(), expected.to_owned()],
                "{column_type:?} {path}"
            );
        }
    }

    #[test]
    fn what_has_no_name_has_an_empty_one() {
        let column = column(ColumnType::String, ".spec.text");
        let found = cells(&[column], &json!({"metadata": {}}));
        assert_eq!(found, ["\"\"", "null"]);
    }

    #[test]
    fn ages_move_on_between_two_reads() {
        let columns =
            Columns::compile(&[column(ColumnType::Date, ".metadata.creationTimestamp")]).unwrap();
        let cells = columns
            .cells(br#"{"metadata":{"name":"n","creationTimestamp":"2026-01-02T00:00:00Z"}}"#);
        let at = |now: &str| cells[1].to_json(now.parse().unwrap());
        assert_eq!(at("2026-01-02T00:00:05Z"), r#""5s""#);
        assert_eq!(at("2026-01-02T03:00:00Z"), r#""3h""#);
    }

    #[test]
    fn without_columns_there_are_name_and_created_at() {
        let object =
            json!({"metadata": {"name": "n", "creationTimestamp": "2026-01-02T00:00:00Z"}});
        assert_eq!(cells(&[], &object), [r#""n""#, r#""2026-01-02T00:00:00Z""#]);
        let columns = Columns::compile(&[]).unwrap();
        let definitions: Vec<Value> = serde_json::from_slice(columns.definitions()).unwrap();
        assert_eq!(definitions[0]["name"], "Name");
        assert_eq!(definitions[0]["format"], "name");
        assert!(
            definitions[0]["description"]
                .as_str()
                .unwrap()
                .starts_with("Name must be unique within a namespace."),
            "{definitions:?}"
        );
        assert_eq!(definitions[1]["name"], "Created At");
        assert_eq!(definitions[1]["type"], "date");
        assert_eq!(definitions[1]["format"], "");
    }

    #[test]
    fn definitions_are_those_of_a_crd() {
        let columns = [Column {
            priority: 1,
            ..column(ColumnType::Integer, ".spec.priority")
        }];
        let columns = Columns::compile(&columns).unwrap();
        let definitions: Vec<Value> = serde_json::from_slice(columns.definitions()).unwrap();
        assert_eq!(
            definitions[1],
            json!({"name": ".spec.priority", "type": "integer", "format": "", "priority": 1,
                "description": "Custom resource definition column (in JSONPath format): .spec.priority"})
        );
    }

    #[test]
    fn columns_that_cannot_be_used_say_why() {
        let error = Columns::compile(&[column(ColumnType::String, "spec")])
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(r#"column "spec": JSONPath "spec": must begin with .; allowed: "#),
            "{error}"
        );
        let error = "text".parse::<ColumnType>().unwrap_err().to_string();
        assert_eq!(
            error,
            r#"column type "text" is not supported, allowed: boolean, date, integer, number, string"#
        );
        let format = Column {
            format: "roman".to_owned(),
            ..column(ColumnType::String, ".spec")
        };
        assert!(Columns::compile(&[format]).is_err());
    }
}
