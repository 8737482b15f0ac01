//! Table columns and cells, as apiextensions-apiserver's tableconvertor makes them of `additionalPrinterColumns`.

mod cell;
mod columns;
mod duration;

pub use cell::Cell;
pub use columns::{Column, ColumnError, ColumnType, Columns};
pub use duration::human_duration;
