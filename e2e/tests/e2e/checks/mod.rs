//! What holds in both environments, one topic a file.

pub(crate) mod freshness;
pub(crate) mod input;
pub(crate) mod isolation;
pub(crate) mod reading;
pub(crate) mod reload;
pub(crate) mod stored;
pub(crate) mod watching;
