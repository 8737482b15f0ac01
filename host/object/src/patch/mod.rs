//! Patches that need no schema: JSON merge patch and JSON patch.

mod json;
mod merge;

pub use json::{MAX_JSON_PATCH_OPERATIONS, json_patch};
pub use merge::merge_patch;
