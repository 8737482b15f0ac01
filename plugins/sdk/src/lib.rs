//! What a Joinery plugin is written with.
//!
//! A plugin is one pure type. It implements [`Plugin`] (settings and description) and then either [`View`], for a
//! resource that is joined from others, [`Admission`], for one whose objects the host stores, or [`Verbs`], for one that
//! answers the verbs itself; or several. [`export_view!`], [`export_admission!`], [`export_verbs!`] or
//! [`export_view_and_admission!`] turns it into a component. None of the traits touches WebAssembly, so the logic is
//! tested with a plain `cargo test`, with [`Composed::fill`] in the place of the host and types of the test's own in that
//! of [`Kubernetes`] and [`Http`].
//!
//! ```
//! use joinery_sdk::{Composed, Composer, Description, Failure, Group, Plugin, Selection, Side, View};
//!
//! #[derive(Default)]
//! struct Mirror;
//!
//! impl Plugin for Mirror {
//!     fn configure(_settings: &str) -> Result<Self, String> {
//!         Ok(Mirror)
//!     }
//!     fn describe(&self) -> Description {
//!         Description::default() // its resources and sources
//!     }
//! }
//!
//! impl View for Mirror {
//!     fn keys(&self, _relation: &str, _side: Side, _object: &[u8]) -> Vec<String> {
//!         Vec::new()
//!     }
//!     fn query(&self, _relation: &str, _keys: &[String]) -> Selection {
//!         Selection::All
//!     }
//!     fn combine(&self, _resource: &str, group: &Group) -> Result<Option<Composed>, Failure> {
//!         let mut out = Composer::new();
//!         out.begin_object();
//!         out.key("apiVersion").string("example.org/v1");
//!         out.key("kind").string("Mirror");
//!         out.key("of").insert(group.primary_input());
//!         out.end_object();
//!         Ok(Some(out.finish()))
//!     }
//! }
//!
//! joinery_sdk::export_view!(Mirror);
//! # fn main() {}
//! ```

extern crate self as joinery_sdk;

mod admission;
#[doc(hidden)]
pub mod bindings;
mod compose;
mod describe;
mod export;
mod failure;
mod fields;
mod kubernetes;
pub mod log;
mod plugin;
mod settings;
pub mod time;
mod verbs;
mod view;

pub use admission::{Admission, Operation, Review, User, Verdict};
pub use compose::{Composed, Composer, Input, Insert};
pub use describe::{
    ApiResource, Column, Description, GroupVersionResource, Reach, Relation, Scale, Shape, Source,
    Subresource, ViewShape,
};
#[doc(hidden)]
pub use export::{Exported, Instance};
pub use failure::{Cause, Failure};
pub use fields::Fields;
pub use kubernetes::{Kubernetes, ListOptions, ObjectKey, ObjectList};
pub use plugin::{Plugin, parse_settings};
pub use settings::GroupVersion;
pub use verbs::{
    Entry, Http, HttpError, HttpRequest, HttpResponse, ListPage, Outside, Page, Request, Verbs,
};
pub use view::{Branch, Group, Selection, Side, View};
#[doc(hidden)]
pub use wit_bindgen::rt;
