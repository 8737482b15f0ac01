//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Parser, Subcommand, ValueEnum};
use joinery_plugin::{Grants, Policy, TrustedKeys};

use crate::api_services::ServiceName;
use crate::plugin::Plugin;

/// An aggregation host for Kubernetes whose resources are WebAssembly components.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// What to log: a level, or levels by module such as `info,joinery_plugin=debug`. Unless said otherwise, hosts log
    /// what happens (`info`) and the commands for plugins only what is wrong (`warn`).
    #[arg(long, global = true, env = "JOINERY_LOG", value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// How to log.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What the binary can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve without a cluster, from an embedded store.
    ///
    /// Serves namespaces, core Events, Leases, Tasks and every plugin's resources on loopback, and writes an
    /// administrator's kubeconfig.
    Standalone(Standalone),
    /// Serve behind the aggregation layer of a kube-apiserver.
    Serve(Serve),
    /// Back up, restore or check the embedded store.
    Store {
        /// What to do.
        #[command(subcommand)]
        command: StoreCommand,
    },
    /// Write, check, try, pack and measure plugins.
    Plugin(Plugin),
    /// Compile a component (used by the host itself, as a child process with limits of its own).
    #[command(hide = true)]
    Compile {
        /// For the child.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

/// What both ways of serving need.
#[derive(Args, Debug)]
pub(crate) struct Common {
    /// Where objects and compiled plugins are kept. Made if it is missing.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// Where plugins lie: NAME.wasm or NAME.wasm.zst, each with an optional NAME.yaml or NAME.json beside it.
    #[arg(long, value_name = "DIR")]
    pub(crate) plugins: PathBuf,
    /// How much of what views read is held in memory, such as 512Mi or 2Gi. Beyond it the largest source is let go: its
    /// views are read live, and watches of them are refused until it fits again.
    #[arg(long, value_name = "BYTES", default_value = "1Gi", value_parser = bytes)]
    pub(crate) max_source_bytes: usize,
    /// How many changes the store remembers for watches and for lists of an older resourceVersion.
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) history_count: u64,
    /// For how long the store remembers a change, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) history_age: u64,
    /// The namespace whose ConfigMaps with the label plugins.joinery.dev/plugin are plugins too.
    #[arg(
        long,
        env = "JOINERY_PLUGIN_NAMESPACE",
        default_value = "joinery-system",
        value_name = "NAMESPACE"
    )]
    pub(crate) plugin_namespace: String,
    /// What plugins may do.
    #[command(flatten)]
    pub(crate) policy: PolicyFiles,
}

/// `joinery store`
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Write all that is stored to a file, whether a host runs on the data folder or not.
    Backup {
        /// The host's data folder.
        #[arg(long, value_name = "DIR")]
        data_dir: PathBuf,
        /// Where to; replaced when the backup is whole. `-` is the standard output.
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
    },
    /// Make the store of a data folder of a backup.
    ///
    /// All objects get a resourceVersion above any that clients can have seen, and watches begin anew.
    Restore {
        /// Where from. `-` is the standard input.
        #[arg(long, value_name = "FILE")]
        from: PathBuf,
        /// The host's data folder, which must not hold a store.
        #[arg(long, value_name = "DIR")]
        data_dir: PathBuf,
    },
    /// Read everything in a store that no host runs on, or in a backup, and say whether it is whole.
    #[command(group = clap::ArgGroup::new("what").required(true))]
    Check {
        /// The host's data folder.
        #[arg(long, value_name = "DIR", group = "what")]
        data_dir: Option<PathBuf>,
        /// A backup.
        #[arg(long, value_name = "FILE", group = "what")]
        backup: Option<PathBuf>,
    },
}

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

/// Reads a number of bytes, with one of the suffixes of Kubernetes' quantities that stand for powers of 1024.
fn bytes(text: &str) -> Result<usize, String> {
    let (digits, shift) = [("Ki", 10), ("Mi", 20), ("Gi", 30)]
        .into_iter()
        .find_map(|(suffix, shift)| Some((text.strip_suffix(suffix)?, shift)))
        .unwrap_or((text, 0));
    let count: usize = digits.parse().map_err(
        |_| "a whole number of bytes is needed, or one with Ki, Mi or Gi, such as 512Mi",
    )?;
    count
        .checked_mul(1 << shift)
        .ok_or_else(|| "too large".to_owned())
}

/// `joinery standalone`
#[derive(Args, Debug)]
pub(crate) struct Standalone {
    /// Folders.
    #[command(flatten)]
    pub(crate) common: Common,
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Where to write the administrator's kubeconfig, once everything is ready.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: PathBuf,
    /// How long Events are kept, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) event_ttl: u64,
}

/// `joinery serve`
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Folders.
    #[command(flatten)]
    pub(crate) common: Common,
    /// Where to listen.
    #[arg(long, value_name = "IP:PORT", default_value = "0.0.0.0:6443")]
    pub(crate) listen: SocketAddr,
    /// How to reach the kube-apiserver. In a cluster, when left out: the ServiceAccount.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The serving certificate and its chain, PEM. Read again when it changes.
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert_file: PathBuf,
    /// The key of the serving certificate, PEM.
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_private_key_file: PathBuf,
    /// The Service behind which kube-apiserver finds this host. With it the host makes an APIService for each group and
    /// version that its plugins serve, and takes it away with the last of them.
    #[arg(
        long,
        value_name = "NAMESPACE/NAME[:PORT]",
        requires = "service_ca_file"
    )]
    pub(crate) service: Option<ServiceName>,
    /// The authority of the serving certificate, PEM: the caBundle of the APIServices. Read again when it changes.
    #[arg(long, value_name = "FILE", requires = "service")]
    pub(crate) service_ca_file: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn bytes_are_read_as_quantities_are() {
        assert_eq!(bytes("17"), Ok(17));
        assert_eq!(bytes("512Mi"), Ok(512 << 20));
        assert_eq!(bytes("2Gi"), Ok(2 << 30));
        for wrong in ["", "Mi", "1.5Gi", "-1", "1 Gi", "1G", "99999999999Gi"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
