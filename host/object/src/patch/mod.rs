//! Patches that need no schema: JSON merge patch and JSON patch, and the strategic merge patch of built-in kinds.

mod json;
mod merge;
mod pointer;
mod strategic;

pub use json::{MAX_JSON_PATCH_OPERATIONS, json_patch};
pub use merge::merge_patch;
pub use strategic::strategic_merge_patch;
