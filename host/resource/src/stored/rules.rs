//! In what a resource differs from a custom resource.

use serde_json::Value;

use super::names::{self, NameRule};

/// What k8s.io/apiserver calls a strategy. The default is that of custom resources.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// A PUT without a resourceVersion replaces whatever is there, instead of being refused.
    pub(crate) unconditional_update: bool,
    /// Objects have a metadata.generation.
    pub(crate) generation: bool,
    /// How they may be named.
    pub(crate) name: NameRule,
    /// Whether an object that is to be deleted must stay for now.
    pub(crate) pending: fn(&Value) -> bool,
    /// Called when an object is marked to be deleted.
    pub(crate) terminate: fn(&mut Value),
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            unconditional_update: false,
            generation: true,
            name: names::subdomain,
            pending: has_finalizers,
            terminate: |_| {},
        }
    }
}

/// Whether metadata.finalizers has any.
pub(crate) fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|finalizers| !finalizers.is_empty())
}
