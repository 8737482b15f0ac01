//! What is asked: path, verb and options of a request, and its body.

mod body;
mod duration;
mod info;
mod media;
mod protobuf;
mod yaml;

pub(crate) use body::{discard, read_body, to_json};
pub(crate) use duration::parse_go_duration;
pub(crate) use info::{RequestInfo, ResourcePath, Target, UNKNOWN};
pub(crate) use media::{BodyFormat, body_format, patch_type};
