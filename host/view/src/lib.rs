//! Views: objects that are not stored but joined from sources.
//!
//! A [`Join`] says what belongs together and how the result looks; this crate does the rest. *Cached* reading follows the
//! sources and recombines what a change touches ([`View`]); *live* reading asks upstream for each request
//! ([`read_live`]). Both give the same bytes but for metadata.resourceVersion.

mod call;
mod claim;
mod compose;
mod engine;
mod index;
mod join;
mod joined;
mod live;
mod past;
mod project;
mod replay;
mod view;

pub use compose::Outcome;
pub use join::{
    Branch, CombineResult, Composed, Group, Join, JoinError, Reach, Relation, Selection,
    SharedJoin, Side, SourceSpec, ViewSpec,
};
pub use live::{LiveError, LivePage, Primaries, URL_BOUND, read_live};
pub use replay::Replayed;
pub use view::{Prepared, ResumeError, Resumed, View, ViewSnapshot};
