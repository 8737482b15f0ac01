//! The files with which an operator rules over plugins.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use joinery_plugin::{Grants, Policy, TrustedKeys};

/// The operator's word on plugins.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct PolicyFiles {
    /// Public keys (PEM, Ed25519 or ECDSA P-256): a file, or a folder of *.pem and *.pub. Only plugins that one of them
    /// signed are loaded. Read when the host starts.
    #[arg(long, value_name = "DIR|FILE")]
    pub(crate) plugin_trusted_keys: Option<PathBuf>,
    /// What plugins are granted (YAML): the groups that they may claim, the sources that they may read, the hosts that
    /// they may call. What is not granted is denied; `standalone` grants everything when this is left out, `serve`
    /// nothing. Read when the host starts.
    #[arg(long, value_name = "FILE")]
    pub(crate) plugin_grants: Option<PathBuf>,
}

impl PolicyFiles {
    /// Reads both files. `default`: what is granted when there is no file.
    pub(crate) fn read(&self, default: Grants) -> Result<Policy> {
        let trusted_keys = self.plugin_trusted_keys.as_deref();
        Ok(Policy {
            trusted_keys: trusted_keys.map(TrustedKeys::read).transpose()?,
            grants: match &self.plugin_grants {
                Some(path) => Grants::read(path).map_err(anyhow::Error::msg)?,
                None => default,
            },
        })
    }
}
