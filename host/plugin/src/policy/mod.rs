//! What the operator allows, whatever a plugin or the settings beside it say.

mod grants;
mod signature;

pub(crate) use grants::source_name;
pub use grants::{Grant, Grants};
pub use signature::{KeyError, SignatureError, SigningKey, TrustedKeys};

/// The operator's word on all plugins of a host.
#[derive(Clone, Debug)]
pub struct Policy {
    /// With keys, a plugin must be signed by one of them. None: signatures are not looked at.
    pub trusted_keys: Option<TrustedKeys>,
    /// Which plugin may do what.
    pub grants: Grants,
}

impl Policy {
    /// Any plugin may do anything that a plugin can: for a host that only its owner reaches.
    pub fn allow_all() -> Self {
        Self {
            trusted_keys: None,
            grants: Grants::everything(),
        }
    }
}
