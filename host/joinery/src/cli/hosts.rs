//! `joinery standalone` and `joinery serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::PolicyFiles;
use super::values::{address, bytes, namespace};
use crate::api_services::ServiceName;

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
    /// How much memory the instances of all plugins may have together, such as 512Mi or 2Gi. One that would need more fails
    /// that call; each plugin's own bounds are in its settings.
    #[arg(long, value_name = "BYTES", default_value = "2Gi", value_parser = bytes)]
    pub(crate) max_plugin_memory: usize,
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
        value_name = "NAMESPACE",
        value_parser = namespace
    )]
    pub(crate) plugin_namespace: String,
    /// What plugins may do.
    #[command(flatten)]
    pub(crate) policy: PolicyFiles,
}

/// `joinery standalone`
#[derive(Args, Debug)]
pub(crate) struct Standalone {
    /// Folders.
    #[command(flatten)]
    pub(crate) common: Common,
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:0", value_parser = address)]
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
    #[arg(long, value_name = "IP:PORT", default_value = "0.0.0.0:6443", value_parser = address)]
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
