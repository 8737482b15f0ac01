//! Other servers in the environment, which the host is measured beside.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Result;

use crate::environment::{Cluster, lock};
use crate::ports::Port;
use crate::process::Process;
use crate::run_dir::RunDir;

const GRACE: Duration = Duration::from_secs(2);

/// What a peer may use.
#[derive(Debug, Clone)]
pub struct PeerFiles {
    /// A port of 127.0.0.1 that is its own.
    pub port: u16,
    /// A serving certificate for `localhost`, 127.0.0.1 and `NAME.joinery-system.svc`, PEM.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
    /// Authorities of clients and of the aggregator, PEM.
    pub client_authorities: [PathBuf; 2],
    /// An administrator's.
    pub kubeconfig: PathBuf,
    /// The cluster's etcd.
    pub etcd_url: String,
}

/// A running peer; it ends when dropped.
pub struct Peer {
    process: Mutex<Process>,
    port: Port,
}

impl Peer {
    pub(crate) fn start(
        run_dir: &RunDir,
        cluster: &Cluster,
        name: &str,
        command: impl FnOnce(&PeerFiles) -> Command,
    ) -> Result<Peer> {
        let port = Port::reserve()?;
        let service = format!("{name}.joinery-system.svc");
        let serving = cluster.serving_authority.server(
            run_dir,
            name,
            &[&service, "localhost", "127.0.0.1"],
        )?;
        let control_plane = &cluster.control_plane;
        let files = PeerFiles {
            port: port.number(),
            certificate: serving.certificate,
            key: serving.key,
            client_authorities: control_plane.client_authorities().map(ToOwned::to_owned),
            kubeconfig: control_plane.kubeconfig().to_owned(),
            etcd_url: control_plane.etcd_url().to_owned(),
        };
        let process = Process::start(name, &run_dir.logs(), GRACE, &mut command(&files))?;
        Ok(Peer {
            process: Mutex::new(process),
            port,
        })
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        lock(&self.process).id()
    }

    /// Its address, `https://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port.number())
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Fails, with the end of its log, if it is no longer there.
    ///
    /// # Errors
    /// Exactly then.
    pub fn check(&self) -> Result<()> {
        lock(&self.process).check()
    }
}
