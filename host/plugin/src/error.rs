use std::path::PathBuf;
use std::time::Duration;

use crate::policy::SignatureError;

/// Why a plugin was not loaded. Each says what is wrong and what is allowed; the serving generation, if there is one,
/// stays.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The host's settings of the plugin cannot be read or contradict each other.
    #[error("settings: {0}")]
    Settings(String),
    /// There are no bytes at all: most often a copy that has only just begun.
    #[error("the file is empty")]
    Empty,
    /// The file is no WebAssembly, or a damaged or cut one.
    #[error("not a WebAssembly component: {0}")]
    Corrupt(String),
    /// A core module, as `wasm32-unknown-unknown` makes it.
    #[error("a core WebAssembly module, not a component: build it for the target wasm32-wasip2")]
    CoreModule,
    /// Larger than the host compiles.
    #[error("{what}: {found}, at most {limit} are allowed")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much there is.
        found: u64,
        /// How much may be.
        limit: u64,
    },
    /// It wants something that no plugin is given.
    #[error(
        "imports {found}: a plugin may import {allowed}, and wasi:cli, clocks, filesystem, io, random and sockets @0.2 \
         (which answer, but give nothing)"
    )]
    Imports {
        /// What is too much.
        found: String,
        /// What there is of its contract.
        allowed: String,
    },
    /// It does not export what a plugin must.
    #[error("exports {found}: a plugin exports {wanted}")]
    Exports {
        /// All that it exports.
        found: String,
        /// What its contract wants, or the newest one when it exports none of any.
        wanted: &'static str,
    },
    /// It was written for a contract that this host does not know.
    #[error("written for {found}: this host speaks {speaks}, so either needs another version")]
    Contract {
        /// The export that is of another version.
        found: String,
        /// The versions that this host knows.
        speaks: String,
    },
    /// It was written for several contracts at once.
    #[error("exports {found}: a plugin speaks one version of the contract")]
    Contracts {
        /// All that it exports.
        found: String,
    },
    /// The compiler refused it, or it is more than the compiler can do within its limits.
    #[error("cannot be compiled: {0}")]
    Compile(String),
    /// Exports or imports have the right names but other types.
    #[error("does not fit the contract joinery:plugin@{contract}: {message}")]
    Link {
        /// The contract that its exports name.
        contract: &'static str,
        /// Which export or import, and how.
        message: String,
    },
    /// The guest refused its settings.
    #[error("refused its settings: {0}")]
    Configure(String),
    /// It trapped while it was asked who it is.
    #[error("failed while it was loaded: {0}")]
    Failed(String),
    /// It took too long while it was asked who it is. The clock is the machine's, so that may be others' fault.
    #[error("failed while it was loaded: no answer within {0:?}")]
    TimedOut(Duration),
    /// What it says of itself cannot be.
    #[error("its description is not valid: {}", .0.join("; "))]
    Description(Vec<String>),
    /// It claims or reads what the operator has not granted it.
    #[error(
        "the operator has not granted it what it asks for: {}; grants are the file of --plugin-grants", .0.join("; ")
    )]
    NotGranted(Vec<String>),
    /// The host has trusted keys, and none of them signed it.
    #[error("not trusted: {0}")]
    Signature(#[from] SignatureError),
    /// The same question had two answers.
    #[error(
        "not deterministic: two instances gave different answers to {0}. A view is a pure function: no clock, no \
         randomness, no order of a hash map, nothing kept between calls"
    )]
    NotDeterministic(String),
    /// The host could not do its part.
    #[error("{0}")]
    Host(String),
}

impl LoadError {
    /// Whether the same file may load at another time: what went wrong is the machine's or the host's, as far as can be
    /// told, and not the plugin's.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Host(_) | Self::TimedOut(_) => true,
            Self::Settings(_)
            | Self::Empty
            | Self::Corrupt(_)
            | Self::CoreModule
            | Self::TooLarge { .. }
            | Self::Imports { .. }
            | Self::Exports { .. }
            | Self::Contract { .. }
            | Self::Contracts { .. }
            | Self::Compile(_)
            | Self::Link { .. }
            | Self::Configure(_)
            | Self::Failed(_)
            | Self::Description(_)
            | Self::NotGranted(_)
            | Self::Signature(_)
            | Self::NotDeterministic(_) => false,
        }
    }
}

/// Why a call gave no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    /// The guest trapped, or broke a limit or the contract. Its instance is gone.
    #[error("plugin {plugin} failed: {message}")]
    Trapped {
        /// Name of the plugin.
        plugin: String,
        /// What happened, with the last words of its stderr.
        message: String,
    },
    /// The guest took too long. Its instance is gone.
    #[error("plugin {plugin} did not answer within {limit:?}")]
    TimedOut {
        /// Name of the plugin.
        plugin: String,
        /// The time that a call has.
        limit: Duration,
    },
    /// Too many calls at once.
    #[error("plugin {plugin} is busy: {message}")]
    Busy {
        /// Name of the plugin.
        plugin: String,
        /// Which bound.
        message: String,
    },
}

/// Why the runtime could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// wasmtime refuses the machine or the limits.
    #[error("WebAssembly engine: {0}")]
    Engine(String),
    /// A thread or the runtime for guests.
    #[error("threads for plugins: {0}")]
    Threads(#[source] std::io::Error),
    /// The folder for compiled plugins cannot be used.
    #[error("folder {path} for compiled plugins: {message}")]
    Cache {
        /// The folder.
        path: PathBuf,
        /// What is wrong, and what must be.
        message: String,
    },
}
