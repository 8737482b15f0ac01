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
        "imports {0}: a plugin may import joinery:plugin/types, log, kubernetes and http @0.1, and wasi:cli, clocks, \
         filesystem, io, random and sockets @0.2 (which answer, but give nothing)"
    )]
    Imports(String),
    /// It does not export what a plugin must.
    #[error(
        "exports {found}: a plugin exports joinery:plugin/setup@0.1.0 and at least one of joinery:plugin/join@0.1.0, \
         joinery:plugin/admission@0.1.0 and joinery:plugin/verbs@0.1.0"
    )]
    Exports {
        /// What it exports, or `nothing`.
        found: String,
    },
    /// It was written for a contract that this host does not know.
    #[error(
        "written for {found}: this host speaks joinery:plugin@0.1, so either needs another version"
    )]
    Contract {
        /// The export that is of another version.
        found: String,
    },
    /// The compiler refused it, ran out of its limits or could not be started.
    #[error("cannot be compiled: {0}")]
    Compile(String),
    /// Exports or imports have the right names but other types.
    #[error("does not fit the contract joinery:plugin@0.1: {0}")]
    Link(String),
    /// The guest refused its settings.
    #[error("refused its settings: {0}")]
    Configure(String),
    /// It trapped or took too long while it was asked who it is.
    #[error("failed while it was loaded: {0}")]
    Failed(String),
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
