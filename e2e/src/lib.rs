//! Environments in which Joinery runs for development and for tests: **standalone** (no cluster at all) and **cluster** (a real etcd,
//! kube-apiserver and kube-controller-manager on loopback, the host beside them).
//!
//! `cargo xtask up` and the end-to-end tests use the same code, so what a newcomer starts is what is tested. Everything here is synchronous
//! and supervises plain child processes:
//!
//! * [`Workspace`] builds what runs: host, controller, guests.
//! * [`ControlPlaneBinaries`] finds or builds the real control plane, once per user and version.
//! * [`Environment`] starts one environment in a [`RunDir`] of its own, on ports of its own, and stops it when dropped.
//! * A guardian process ends whatever is left when this process dies in a way that runs no destructors.

mod binaries;
mod cache;
mod cargo_component;
mod cluster;
mod descendants;
mod environment;
mod go_build;
mod go_programs;
mod guardian;
mod host;
mod interrupt;
mod kubeconfig;
mod kubectl;
mod languages;
mod manifests;
mod peer;
mod pki;
mod ports;
mod process;
mod progress;
mod run_dir;
mod samples;
mod side_host;
mod solo;
mod wait;
mod workspace;

pub use binaries::ControlPlaneBinaries;
pub use cargo_component::CargoComponent;
pub use descendants::{become_subreaper, end_descendants};
pub use environment::{ControlPlaneLogs, Environment, FrontProxy, Kind};
pub use go_programs::{go_clients, go_peers};
pub use interrupt::{
    Interrupted, interrupted, listen as listen_for_signals, sleep as interruptible_sleep,
    status as wait_for_status,
};
pub use kubectl::Kubectl;
pub use languages::{Language, LanguageGuest};
pub use peer::{Peer, PeerFiles};
pub use process::signal_process;
pub use progress::say;
pub use run_dir::RunDir;
pub use side_host::SideHost;
pub use solo::SoloHost;
pub use workspace::Workspace;
