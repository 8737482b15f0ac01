//! The programs of a real control plane: taken from `KUBEBUILDER_ASSETS` if it holds them all, else built from the Go modules pinned in
//! `e2e/controlplane`, once per user and version.

use std::path::PathBuf;

use anyhow::Result;

use crate::go_build::{GoBuild, complete};
use crate::workspace::Workspace;

/// Without the version the servers call themselves v0.0.0-master, which clients and version skew checks read.
const VERSION: (&str, &str, &str) = ("v1.36.3", "1", "36");

/// `go build tool` names a program after the last element of its package's path; etcd's is `server`.
const PROGRAMS: [(&str, &str); 4] = [
    ("etcd", "server"),
    ("kube-apiserver", "kube-apiserver"),
    ("kube-controller-manager", "kube-controller-manager"),
    ("kubectl", "kubectl"),
];

/// A folder with etcd, kube-apiserver, kube-controller-manager and kubectl.
#[derive(Debug, Clone)]
pub struct ControlPlaneBinaries {
    dir: PathBuf,
}

impl ControlPlaneBinaries {
    /// The programs, if they are there already: nothing is built.
    #[must_use]
    pub fn cached(workspace: &Workspace) -> Option<ControlPlaneBinaries> {
        if let Some(found) = from_assets() {
            return Some(found);
        }
        let build = build(workspace);
        let dir = build.target().ok()?;
        build.complete(&dir).then_some(ControlPlaneBinaries { dir })
    }

    /// The programs, built first if need be (about ten minutes on two cores, at low priority). Runs that build at the same time wait for
    /// one another.
    ///
    /// # Errors
    /// When Go is missing, or the build fails: with the last lines that it printed.
    pub fn ensure(workspace: &Workspace) -> Result<ControlPlaneBinaries> {
        if let Some(found) = from_assets() {
            return Ok(found);
        }
        let dir = build(workspace).ensure()?;
        Ok(ControlPlaneBinaries { dir })
    }

    /// etcd's server.
    #[must_use]
    pub fn etcd(&self) -> PathBuf {
        self.dir.join("etcd")
    }

    /// kube-apiserver.
    #[must_use]
    pub fn kube_apiserver(&self) -> PathBuf {
        self.dir.join("kube-apiserver")
    }

    /// kube-controller-manager.
    #[must_use]
    pub fn kube_controller_manager(&self) -> PathBuf {
        self.dir.join("kube-controller-manager")
    }

    /// The sample of an aggregated API server; a folder of other origin than this checkout's build need not have it.
    #[must_use]
    pub fn sample_apiserver(&self) -> Option<PathBuf> {
        let path = self.dir.join("sample-apiserver");
        path.is_file().then_some(path)
    }

    /// kubectl of the same version.
    #[must_use]
    pub fn kubectl(&self) -> PathBuf {
        self.dir.join("kubectl")
    }
}

/// setup-envtest's folder has no kube-controller-manager: then it does not serve.
fn from_assets() -> Option<ControlPlaneBinaries> {
    let dir = PathBuf::from(std::env::var_os("KUBEBUILDER_ASSETS")?);
    complete(&PROGRAMS, &dir).then_some(ControlPlaneBinaries { dir })
}

fn build(workspace: &Workspace) -> GoBuild {
    let (version, major, minor) = VERSION;
    let package = "k8s.io/component-base/version";
    GoBuild {
        title: "control plane",
        name: "controlplane",
        module: workspace.root().join("e2e/controlplane"),
        inputs: vec!["go.mod".to_owned(), "go.sum".to_owned()],
        flags: vec![
            "-ldflags".to_owned(),
            format!(
                "-s -w -X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
            ),
        ],
        package: "tool",
        programs: &PROGRAMS,
        announcement: "building etcd, kube-apiserver, kube-controller-manager and kubectl from Go modules (about 10 minutes, once)",
        without_go: "a real control plane is built from Go modules, so install Go (https://go.dev/dl), or let KUBEBUILDER_ASSETS name a \
                     folder with etcd, kube-apiserver, kube-controller-manager and kubectl",
    }
}
