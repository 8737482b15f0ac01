//! A standalone host of one test's own, without controller and samples: for what ends it again and again, or needs settings that
//! others must not have.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::Result;

use crate::environment::{kubectl_for_standalone, lock};
use crate::host::{Form, Host, install_guests};
use crate::kubectl::Kubectl;
use crate::run_dir::RunDir;
use crate::workspace::Workspace;

/// `joinery standalone` with all guests. It ends when dropped.
pub struct SoloHost {
    host: Mutex<Host>,
    kubectl: Kubectl,
    data_dir: PathBuf,
    plugin_dir: PathBuf,
    run_dir: RunDir,
}

impl SoloHost {
    /// Starts one in `.joinery/NAME`, with these further arguments, and waits until it is ready.
    ///
    /// # Errors
    /// When something has not been built, or it does not get ready.
    pub fn start(workspace: &Workspace, name: &str, arguments: &[&str]) -> Result<SoloHost> {
        let run_dir = RunDir::take(workspace.root(), name)?;
        let kubeconfig = run_dir.path().join("kubeconfig");
        let form = Form::Standalone {
            kubeconfig: kubeconfig.clone(),
        };
        let mut host = Host::prepare(workspace, &run_dir, "joinery", form)?;
        host.add_arguments(arguments);
        install_guests(workspace, host.plugins())?;
        host.start_standalone()?;
        Ok(SoloHost {
            kubectl: Kubectl::new(
                kubectl_for_standalone(workspace)?,
                kubeconfig,
                run_dir.path().join("kubectl-cache"),
            ),
            data_dir: host.data().to_owned(),
            plugin_dir: host.plugins().to_owned(),
            host: Mutex::new(host),
            run_dir,
        })
    }

    /// kubectl as its administrator.
    #[must_use]
    pub fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// Its folder of plugins.
    #[must_use]
    pub fn plugins(&self) -> PathBuf {
        lock(&self.host).plugins().to_owned()
    }

    /// Its data folder.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// The folder of its plugins.
    #[must_use]
    pub fn plugin_dir(&self) -> &Path {
        &self.plugin_dir
    }

    /// The run's folder.
    #[must_use]
    pub fn run_dir(&self) -> &RunDir {
        &self.run_dir
    }

    /// Ends it as an operator does (SIGTERM), or as a crash does (SIGKILL).
    pub fn stop(&self, crash: bool) {
        lock(&self.host).stop(crash);
    }

    /// Starts it again, at the same address with the same data, and waits until it is ready.
    ///
    /// # Errors
    /// When it does not get ready.
    pub fn begin(&self) -> Result<()> {
        lock(&self.host).start_standalone()
    }
}
