//! Stored resources: the host keeps the objects, the plugin decides what is admitted.
//!
//! Reads and watches come from memory ([`cache`], [`read`], [`replay`]); writes go to the store in one order for all
//! verbs ([`write`]): decode, patch, defaults, prune, owners of fields ([`apply`]), schema, admission, metadata, schema
//! again, commit under guards.

mod amend;
mod apply;
mod cache;
mod create;
pub(crate) mod decode;
mod delete;
mod duplicates;
pub(crate) mod envelope;
mod feed;
mod lookup;
pub(crate) mod metadata;
mod metadata_types;
pub(crate) mod names;
pub(crate) mod namespaces;
mod orphans;
mod read;
mod replay;
mod resource;
mod rules;
mod storage;
mod update;
mod upstream;
mod write;

pub use decode::duplicate_fields;
pub use namespaces::{Namespace, Namespaces, StoreNamespaces};
pub use resource::StoredResource;
pub use rules::Rules;
pub(crate) use rules::has_finalizers;
pub use storage::Storage;
pub(crate) use update::refuse_unknown_in_patch;
pub use upstream::StoredUpstream;
pub(crate) use write::strict_error;
