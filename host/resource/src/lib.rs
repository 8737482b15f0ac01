//! What answers a verb: the stored resource, the view, what a plugin serves itself, and the catalog of all.

mod access;
mod admit;
pub mod builtin;
mod catalog;
mod continue_token;
mod fields;
mod go_time;
mod observed;
mod page;
mod reported;
mod resource;
mod selection;
mod serve;
mod served;
mod stored;
mod stream;
mod view;

pub use access::{Attributes, Authorizer, Decision, MASTERS, SharedAuthorizer, User, check};
pub use admit::{Admit, Lookup, LookupList, Operation, Review, Verdict};
pub use catalog::{Catalog, Snapshot};
pub use reported::ReportedResource;
pub use resource::{Caller, Definition, List, PatchType, Resource, Watch, WatchItem, Written};
pub use serve::{Entry, EntryPage, Serve, ServeRequest};
pub use served::{ServedResource, ServedSettings};
pub use stored::{
    Namespace, Namespaces, Rules, Storage, StoreNamespaces, StoredResource, StoredUpstream,
    duplicate_fields,
};
pub use stream::follow;
pub use view::{Mode, Security, ViewResource, ViewSettings};
