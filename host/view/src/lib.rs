//! Views: objects that are not stored but joined from sources.

mod join;

pub use join::{
    Branch, CombineResult, Composed, Group, Join, JoinError, Reach, Relation, Selection,
    SharedJoin, Side, SourceSpec, ViewSpec,
};
