//! Label and field selectors: what narrows a list or a watch.

mod field;
mod label;

pub use field::{FieldRequirement, FieldSelector};
pub use label::{LabelRequirement, LabelSelector, Operator};

/// A selector that cannot be read. The message is that of the upstream parser; to a client it is a 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub(crate) String);

impl From<SelectorError> for crate::Status {
    fn from(error: SelectorError) -> Self {
        Self::bad_request(error.0)
    }
}
