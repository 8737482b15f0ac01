//! How to say it: the representation that a client accepts, and how objects, lists and events are written in it.

mod accept;
mod document;
mod gzip;
mod pretty;
mod table;

pub(crate) use accept::{
    Format, MetaVersion, Representation, Shape, clauses, error_format, negotiate, wants_pretty,
};
pub(crate) use document::{ListWriter, encode_object, finish, finish_as, finish_list};
pub(crate) use pretty::yaml;
pub(crate) use table::{IncludeObject, TableWriter, partial_metadata};
