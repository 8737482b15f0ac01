//! Further hosts over the same upstream: what replicas, other settings and restarts look like, without disturbing the one that
//! kube-apiserver sends its clients to.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::Result;

use crate::environment::{Cluster, direct_kubectl, lock};
use crate::host::{Form, Host, install_guests};
use crate::kubectl::Kubectl;
use crate::run_dir::RunDir;
use crate::workspace::Workspace;

/// A host that no APIService names; it ends when dropped.
pub struct SideHost {
    host: Mutex<Host>,
    direct: Kubectl,
    url: String,
    plugin_dir: PathBuf,
    log: PathBuf,
}

impl SideHost {
    pub(crate) fn start(
        workspace: &Workspace,
        run_dir: &RunDir,
        cluster: &Cluster,
        name: &str,
        settings: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<SideHost> {
        let serving = cluster.serving_authority.server(
            run_dir,
            name,
            &["joinery.joinery-system.svc", "localhost", "127.0.0.1"],
        )?;
        let mut host = Host::prepare(
            workspace,
            run_dir,
            name,
            Form::Behind {
                upstream: cluster.host_kubeconfig.clone(),
                serving,
                registers: None,
            },
        )?;
        install_guests(workspace, host.plugins())?;
        settings(host.plugins())?;
        let url = format!("https://127.0.0.1:{}", host.port());
        let direct = direct_kubectl(
            run_dir,
            &cluster.control_plane,
            name,
            &url,
            cluster.serving_authority.pem(),
        )?;
        host.start(&direct)?;
        Ok(SideHost {
            direct,
            url,
            plugin_dir: host.plugins().to_owned(),
            log: host.log(),
            host: Mutex::new(host),
        })
    }

    /// kubectl as an administrator, straight to this host.
    #[must_use]
    pub fn direct(&self) -> &Kubectl {
        &self.direct
    }

    /// Its address, `https://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its process id while it runs.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        lock(&self.host).id()
    }

    /// Its own folder of plugins.
    #[must_use]
    pub fn plugin_dir(&self) -> &Path {
        &self.plugin_dir
    }

    /// What it printed.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Ends it as an operator does (SIGTERM).
    pub fn stop(&self) {
        lock(&self.host).stop(false);
    }

    /// Starts it again, at the same address with the same data, and waits until it is ready.
    ///
    /// # Errors
    /// When it does not get ready.
    pub fn begin(&self) -> Result<()> {
        lock(&self.host).start(&self.direct)
    }

    /// Restarts it at the same address with the same data; `crash` ends it with SIGKILL. Returns once it is ready again.
    ///
    /// # Errors
    /// When it does not get ready.
    pub fn restart(&self, crash: bool) -> Result<()> {
        let mut host = lock(&self.host);
        host.stop(crash);
        host.start(&self.direct)
    }
}
