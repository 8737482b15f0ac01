//! What answers a verb: the stored resource, the view, and the catalog of both.

mod access;
mod admit;
mod catalog;
mod resource;
mod stream;

pub use access::{Attributes, Authorizer, Decision, SharedAuthorizer, User};
pub use admit::{Admit, Lookup, LookupList, Operation, Review, Verdict};
pub use catalog::{Catalog, Snapshot};
pub use resource::{
    Caller, Definition, List, PatchType, Resource, Watch, WatchItem, Written,
};
pub use stream::follow;
