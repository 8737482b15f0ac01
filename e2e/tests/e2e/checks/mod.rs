//! What holds in both environments, one topic a file.

pub(crate) mod discovery;
pub(crate) mod following;
pub(crate) mod freshness;
pub(crate) mod input;
pub(crate) mod isolation;
pub(crate) mod kubectl;
pub(crate) mod plugins;
pub(crate) mod reading;
pub(crate) mod reload;
pub(crate) mod representations;
pub(crate) mod stored;
pub(crate) mod up;
pub(crate) mod upstream;
pub(crate) mod watching;
pub(crate) mod writing;
