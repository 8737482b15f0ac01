//! Where plugins come from: a directory, read again whenever something in it changes, or ConfigMaps.

mod configmap;
mod scan;
mod watch;

pub use configmap::{
    ConfigMapContents, DIGEST_ANNOTATION, MAX_ANNOTATIONS, MAX_CONFIG_MAP, PLUGIN_LABEL,
    PackedConfigMap, PluginConfigMap, SIGNATURE_ANNOTATION,
};
pub use scan::{DeliveryError, PluginFile, PluginSet, read_plugin};
pub use watch::DirectorySource;

use scan::{check_digest, check_name, unpack};
