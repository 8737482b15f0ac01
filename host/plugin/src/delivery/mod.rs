//! Where plugins come from: a directory, read again whenever something in it changes.

mod scan;
mod watch;

pub use scan::{DeliveryError, PluginFile, PluginSet};
pub use watch::DirectorySource;
