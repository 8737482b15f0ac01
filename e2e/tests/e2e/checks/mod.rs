//! What holds in both environments, one topic a file.

pub mod freshness;
pub mod input;
pub mod isolation;
pub mod reading;
pub mod reload;
pub mod stored;
pub mod watching;
