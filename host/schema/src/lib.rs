//! What Joinery knows of a resource from its schema alone: structural schemas (pruning, defaults, validation), the
//! OpenAPI documents made of them, and what is read out of objects by JSONPath (table cells, selectable fields).
//!
//! Schemas and the objects of stored resources are [`serde_json::Value`]s here; table cells and selectable fields
//! are read from an object's bytes in one pass, because that is what a list of large views does for every row.

mod go;
mod jsonpath;
mod openapi;
mod selectable;
mod structural;
mod table;

pub use go::quote;
pub use jsonpath::{JsonPath, JsonPathError};
pub use openapi::{
    DocError, Document, ResourceDoc, ResourceSubresource, openapi_v2, openapi_v3_group_version,
    openapi_v3_root,
};
pub use selectable::{SelectableError, SelectableFields};
pub use structural::{Cause, Problem, SchemaError, StructuralSchema};
pub use table::{Cell, Column, ColumnError, ColumnType, Columns, human_duration};
