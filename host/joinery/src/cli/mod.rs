//! The command line.

mod hosts;
mod policy;
mod store;
mod values;

use clap::{Parser, Subcommand, ValueEnum};

pub(crate) use self::hosts::{Common, Serve, Standalone};
pub(crate) use self::policy::PolicyFiles;
pub(crate) use self::store::StoreCommand;
pub(crate) use self::values::namespace;
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_holds_together() {
        Cli::command().debug_assert();
    }
}
