//! Kubernetes objects as raw bytes, and the words that are spoken about them.
//!
//! Everything here is plain data and pure functions: no I/O, no HTTP. The other crates of the host depend on this one.

mod canonical;
mod change;
mod history;
mod key;
mod object;
mod objects;
mod options;
mod patch;
pub mod protobuf;
mod resource_version;
mod rope;
mod selector;
mod status;

pub use canonical::{LAST_APPLIED, Members, canonical, write_string};
pub use change::{Change, EventType, frame};
pub use history::{Bounds, Follower, History, TooOld};
pub use key::{GroupVersionResource, ObjectKey, Scope, not_a_path_segment};
pub use object::{Compressed, Insert, Object, ObjectError, Row};
pub use objects::Objects;
pub use options::{
    CreateOptions, DeleteOptions, FieldValidation, ListOptions, PatchOptions, Preconditions,
    PropagationPolicy, Query, ResourceVersionMatch, UpdateOptions, WriteOptions,
    default_field_manager,
};
pub use patch::{MAX_JSON_PATCH_OPERATIONS, json_patch, merge_patch, strategic_merge_patch};
pub use resource_version::{InvalidResourceVersion, ResourceVersion};
pub use rope::Rope;
pub use selector::{
    FieldRequirement, FieldSelector, LabelRequirement, LabelSelector, Operator, SelectorError,
};
pub use status::{Cause, Details, Result, Status, reason};
