//! One environment, from its first process to its last.

use std::env;
use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::binaries::ControlPlaneBinaries;
use crate::cluster::ControlPlane;
use crate::host::{Form, Host, install_guests};
use crate::kubeconfig::{self, Identity};
use crate::kubectl::Kubectl;
use crate::manifests::{self, Manifests};
use crate::peer::{Peer, PeerFiles};
use crate::pki::Authority;
use crate::process::Process;
use crate::progress::say;
use crate::run_dir::RunDir;
use crate::samples;
use crate::side_host::SideHost;
use crate::workspace::Workspace;

/// The namespace of the manifests.
pub(crate) const NAMESPACE: &str = "joinery-system";
const CONTROLLER_GRACE: Duration = Duration::from_secs(3);

/// Which environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// No cluster at all: `joinery standalone`.
    Standalone,
    /// A real control plane with `joinery serve` beside it.
    Cluster,
}

impl Kind {
    /// The name in run folders and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Standalone => "standalone",
            Kind::Cluster => "cluster",
        }
    }
}

/// The certificate with which the aggregator shows that it may speak for others (PEM files).
#[derive(Debug, Clone)]
pub struct FrontProxy {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Files that the control plane writes.
#[derive(Debug, Clone)]
pub struct ControlPlaneLogs {
    /// What kube-apiserver printed.
    pub apiserver: PathBuf,
    /// What kube-controller-manager printed.
    pub controller_manager: PathBuf,
    /// kube-apiserver's audit log: one JSON object a line for every list by the host.
    pub audit: PathBuf,
}

/// What an environment is started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Use,
    Measure,
}

/// What only the cluster has.
pub(crate) struct Cluster {
    pub(crate) control_plane: ControlPlane,
    pub(crate) serving_authority: Authority,
    pub(crate) host_kubeconfig: PathBuf,
}

/// A running environment; dropping it stops all of its processes. Fields are dropped in the order of declaration: who depends on others
/// goes first.
pub struct Environment {
    controller: Option<Mutex<Process>>,
    host: Mutex<Host>,
    cluster: Option<Mutex<Cluster>>,
    kind: Kind,
    kubectl: Kubectl,
    direct: Kubectl,
    kubeconfig: PathBuf,
    url: String,
    authority: PathBuf,
    plugin_dir: PathBuf,
    front_proxy: Option<FrontProxy>,
    host_log: PathBuf,
    control_plane_logs: Option<ControlPlaneLogs>,
    workspace: Workspace,
    run_dir: RunDir,
}

impl Environment {
    /// Starts an environment in `.joinery/NAME`, with the samples, and waits until it has settled. What it runs must be built already:
    /// [`Workspace::build_host`], [`Workspace::build_guests`].
    ///
    /// # Errors
    /// When a process cannot be started or ends early (with the end of its log), or something does not get ready in time.
    pub fn start(workspace: &Workspace, kind: Kind, name: &str) -> Result<Environment> {
        let environment = Environment::run(workspace, kind, name, Purpose::Use)?;
        say("creating the samples with kubectl");
        samples::create(workspace, &environment.kubectl)?;
        samples::settle(&environment.kubectl, || environment.check())?;
        Ok(environment)
    }

    /// As [`Environment::start`], to be measured: nothing but what is measured runs, so there are no samples and no controller, and etcd
    /// writes to the disk before it answers.
    ///
    /// # Errors
    /// As there.
    pub fn start_to_measure(workspace: &Workspace, kind: Kind, name: &str) -> Result<Environment> {
        Environment::run(workspace, kind, name, Purpose::Measure)
    }

    fn run(workspace: &Workspace, kind: Kind, name: &str, purpose: Purpose) -> Result<Environment> {
        let run_dir = RunDir::take(workspace.root(), name)?;
        match kind {
            Kind::Standalone => Environment::standalone(workspace, run_dir, purpose),
            Kind::Cluster => Environment::cluster(workspace, run_dir, purpose),
        }
    }

    fn standalone(workspace: &Workspace, run_dir: RunDir, purpose: Purpose) -> Result<Environment> {
        let kubeconfig = run_dir.path().join("kubeconfig");
        let kubectl = Kubectl::new(
            kubectl_for_standalone(workspace)?,
            kubeconfig.clone(),
            run_dir.path().join("kubectl-cache"),
        );
        let mut host = Host::prepare(
            workspace,
            &run_dir,
            "joinery",
            Form::Standalone {
                kubeconfig: kubeconfig.clone(),
            },
        )?;
        install_guests(workspace, host.plugins())?;
        say("starting joinery standalone");
        host.start(&kubectl)?;
        let (url, authority) =
            kubeconfig::endpoint(&kubectl.json(["config", "view", "--raw", "-o", "json"])?)?;
        let authority = run_dir.write("pki/serving-ca.crt", &authority)?;
        let controller = match purpose {
            Purpose::Use => Some(start_controller(workspace, &run_dir, &kubeconfig)?),
            Purpose::Measure => None,
        };
        link_programs(&run_dir, workspace, &kubectl)?;
        Ok(Environment {
            controller: controller.map(Mutex::new),
            cluster: None,
            kind: Kind::Standalone,
            direct: kubectl.clone(),
            kubectl,
            kubeconfig,
            url,
            authority,
            plugin_dir: host.plugins().to_owned(),
            front_proxy: None,
            host_log: host.log(),
            host: Mutex::new(host),
            control_plane_logs: None,
            workspace: workspace.clone(),
            run_dir,
        })
    }

    fn cluster(workspace: &Workspace, run_dir: RunDir, purpose: Purpose) -> Result<Environment> {
        let binaries = ControlPlaneBinaries::ensure(workspace)?;
        let control_plane = ControlPlane::start(&binaries, &run_dir, purpose == Purpose::Measure)?;
        let kubectl = control_plane.kubectl().clone();
        let serving_authority = Authority::new("joinery-serving")?;
        let authority = run_dir.write("pki/serving-ca.crt", serving_authority.pem())?;
        let serving = serving_authority.server(
            &run_dir,
            "joinery",
            &["joinery.joinery-system.svc", "localhost", "127.0.0.1"],
        )?;
        let host_kubeconfig = run_dir.path().join("pki/joinery.kubeconfig");
        let mut host = Host::prepare(
            workspace,
            &run_dir,
            "joinery",
            Form::Behind {
                upstream: host_kubeconfig.clone(),
                serving,
                registers: Some(authority.clone()),
            },
        )?;
        install_guests(workspace, host.plugins())?;

        say("applying deploy/overlays/local");
        Manifests::render(workspace, &kubectl, host.port())?.apply(&kubectl)?;
        control_plane.service_account(&run_dir, NAMESPACE, "joinery")?;
        let url = format!("https://127.0.0.1:{}", host.port());
        let direct = direct_kubectl(
            &run_dir,
            &control_plane,
            "joinery",
            &url,
            serving_authority.pem(),
        )?;
        say("starting joinery serve");
        host.start(&direct)?;
        manifests::registered(&kubectl)?;
        let controller = match purpose {
            Purpose::Use => {
                let kubeconfig =
                    control_plane.service_account(&run_dir, NAMESPACE, "joinery-controller")?;
                Some(start_controller(workspace, &run_dir, &kubeconfig)?)
            }
            Purpose::Measure => None,
        };
        link_programs(&run_dir, workspace, &kubectl)?;
        Ok(Environment {
            controller: controller.map(Mutex::new),
            kind: Kind::Cluster,
            direct,
            kubeconfig: control_plane.kubeconfig().to_owned(),
            kubectl,
            url,
            authority,
            plugin_dir: host.plugins().to_owned(),
            front_proxy: Some(FrontProxy {
                certificate: control_plane.front_proxy().certificate.clone(),
                key: control_plane.front_proxy().key.clone(),
            }),
            host_log: host.log(),
            host: Mutex::new(host),
            control_plane_logs: Some(ControlPlaneLogs {
                apiserver: control_plane.apiserver_log().to_owned(),
                controller_manager: control_plane.controller_manager_log().to_owned(),
                audit: control_plane.audit_log().to_owned(),
            }),
            cluster: Some(Mutex::new(Cluster {
                control_plane,
                serving_authority,
                host_kubeconfig,
            })),
            workspace: workspace.clone(),
            run_dir,
        })
    }

    /// Which one this is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// kubectl as an administrator, through kube-apiserver if there is one.
    #[must_use]
    pub fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// kubectl as an administrator, straight to the host.
    #[must_use]
    pub fn direct(&self) -> &Kubectl {
        &self.direct
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The host's own address, `https://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// PEM file of the authority of the host's serving certificate.
    #[must_use]
    pub fn authority(&self) -> &Path {
        &self.authority
    }

    /// The folder from which the host takes its plugins.
    #[must_use]
    pub fn plugin_dir(&self) -> &Path {
        &self.plugin_dir
    }

    /// The aggregator's certificate; none in standalone.
    #[must_use]
    pub fn front_proxy(&self) -> Option<&FrontProxy> {
        self.front_proxy.as_ref()
    }

    /// What the host printed.
    #[must_use]
    pub fn host_log(&self) -> &Path {
        &self.host_log
    }

    /// What the control plane wrote down; none in standalone.
    #[must_use]
    pub fn control_plane_logs(&self) -> Option<&ControlPlaneLogs> {
        self.control_plane_logs.as_ref()
    }

    /// The run's folder.
    #[must_use]
    pub fn run_dir(&self) -> &RunDir {
        &self.run_dir
    }

    /// What is built.
    #[must_use]
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Gives `command` the environment that the documentation of `cargo xtask up -- CMD` promises.
    ///
    /// # Errors
    /// When PATH cannot be extended.
    pub fn describe_to(&self, command: &mut Command) -> Result<()> {
        let mut path = OsString::from(self.run_dir.path().join("bin"));
        if let Some(rest) = env::var_os("PATH") {
            path.push(":");
            path.push(rest);
        }
        command
            .env("PATH", path)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECACHEDIR", self.run_dir.path().join("kubectl-cache"))
            .env("JOINERY_URL", &self.url)
            .env("JOINERY_CA", &self.authority)
            .env("JOINERY_PLUGIN_DIR", &self.plugin_dir);
        if let Some(front_proxy) = &self.front_proxy {
            command
                .env("FRONT_PROXY_CERT", &front_proxy.certificate)
                .env("FRONT_PROXY_KEY", &front_proxy.key);
        }
        Ok(())
    }

    /// Fails, with the end of its log, if one of the processes is no longer there.
    ///
    /// # Errors
    /// Exactly then.
    pub fn check(&self) -> Result<()> {
        lock(&self.host).check()?;
        if let Some(controller) = &self.controller {
            lock(controller).check()?;
        }
        if let Some(cluster) = &self.cluster {
            lock(cluster).control_plane.check()?;
        }
        Ok(())
    }

    /// Restarts the host at the same address with the same data; `crash` ends it with SIGKILL. Returns once it is ready again.
    ///
    /// # Errors
    /// When it does not get ready.
    pub fn restart_host(&self, crash: bool) -> Result<()> {
        let mut host = lock(&self.host);
        host.stop(crash);
        host.start(&self.direct)
    }

    /// Starts a further host beside the cluster's own, behind no APIService, with plugins and data of its own.
    ///
    /// # Errors
    /// In standalone, where there is no upstream to share, and when it does not get ready.
    pub fn side_host(&self, name: &str) -> Result<SideHost> {
        self.side_host_with(name, |_| Ok(()))
    }

    /// As [`Environment::side_host`], after `settings` has seen the folder of its plugins.
    ///
    /// # Errors
    /// As there, and those of `settings`.
    pub fn side_host_with(
        &self,
        name: &str,
        settings: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<SideHost> {
        let cluster = self
            .cluster
            .as_ref()
            .context("only the cluster environment can have two hosts")?;
        SideHost::start(
            &self.workspace,
            &self.run_dir,
            &lock(cluster),
            name,
            settings,
        )
    }

    /// The ids of the processes, which are also those of their groups.
    #[must_use]
    pub fn process_ids(&self) -> Vec<u32> {
        self.processes().into_iter().map(|(_, id)| id).collect()
    }

    /// The processes by name, each with its id.
    #[must_use]
    pub fn processes(&self) -> Vec<(String, u32)> {
        let mut processes = Vec::new();
        if let Some(controller) = &self.controller {
            processes.push(("joinery-controller".to_owned(), lock(controller).id()));
        }
        if let Some(id) = lock(&self.host).id() {
            processes.push(("joinery".to_owned(), id));
        }
        if let Some(cluster) = &self.cluster {
            processes.extend(lock(cluster).control_plane.named_ids());
        }
        processes
    }

    /// Starts another server in the environment, to be measured beside the host. `command` is told where it may listen and what files
    /// it can use.
    ///
    /// # Errors
    /// In standalone, and when it cannot be started.
    pub fn peer(&self, name: &str, command: impl FnOnce(&PeerFiles) -> Command) -> Result<Peer> {
        let cluster = self
            .cluster
            .as_ref()
            .context("only the cluster environment has peers")?;
        Peer::start(&self.run_dir, &lock(cluster), name, command)
    }

    /// Starts sample-apiserver on the cluster's etcd, behind no APIService; it may take a second or two until it answers. None where the
    /// programs of the control plane are not this checkout's build and it is not among them.
    ///
    /// # Errors
    /// As [`Environment::peer`].
    pub fn sample_apiserver(&self) -> Result<Option<Peer>> {
        let Some(program) = ControlPlaneBinaries::ensure(&self.workspace)?.sample_apiserver()
        else {
            return Ok(None);
        };
        let command = |files: &PeerFiles| {
            let mut command = Command::new(program);
            let kubeconfig = files.kubeconfig.display();
            command.args([
                format!("--etcd-servers={}", files.etcd_url),
                format!("--secure-port={}", files.port),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--tls-cert-file={}", files.certificate.display()),
                format!("--tls-private-key-file={}", files.key.display()),
                format!("--kubeconfig={kubeconfig}"),
                format!("--authentication-kubeconfig={kubeconfig}"),
                format!("--authorization-kubeconfig={kubeconfig}"),
            ]);
            command
        };
        self.peer("sample-apiserver", command).map(Some)
    }
}

/// Nothing that these locks guard is left half done by a panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An administrator's kubectl that speaks to a host itself.
pub(crate) fn direct_kubectl(
    run_dir: &RunDir,
    control_plane: &ControlPlane,
    name: &str,
    url: &str,
    authority: &str,
) -> Result<Kubectl> {
    let file = format!("pki/{name}-direct.kubeconfig");
    let kubeconfig = kubeconfig::write(
        run_dir,
        &file,
        url,
        authority,
        &Identity::Certificate(control_plane.admin()),
    )?;
    Ok(Kubectl::new(
        control_plane.kubectl().program().to_owned(),
        kubeconfig,
        run_dir.path().join(format!("kubectl-cache-{name}")),
    ))
}

fn start_controller(workspace: &Workspace, run_dir: &RunDir, kubeconfig: &Path) -> Result<Process> {
    say("starting joinery-controller");
    let mut command = Command::new(workspace.binary("joinery-controller")?);
    // One alone: an election would only make its start take longer.
    command.arg("--kubeconfig").arg(kubeconfig).args([
        "--leader-elect=false",
        "--namespace",
        NAMESPACE,
    ]);
    Process::start(
        "joinery-controller",
        &run_dir.logs(),
        CONTROLLER_GRACE,
        &mut command,
    )
}

/// Standalone needs no control plane, so nothing is built for it while the machine has a kubectl.
pub(crate) fn kubectl_for_standalone(workspace: &Workspace) -> Result<PathBuf> {
    if let Some(binaries) = ControlPlaneBinaries::cached(workspace) {
        return Ok(binaries.kubectl());
    }
    let on_path = env::var_os("PATH").and_then(|path| {
        env::split_paths(&path)
            .map(|dir| dir.join("kubectl"))
            .find(|file| file.is_file())
    });
    match on_path {
        Some(kubectl) => {
            let mut version = Command::new(&kubectl);
            let output = version.args(["version", "--client"]).output();
            let output = output.with_context(|| format!("cannot run {}", kubectl.display()))?;
            ensure!(
                output.status.success(),
                "{} does not work ({}): {}",
                kubectl.display(),
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            );
            Ok(kubectl)
        }
        None => {
            say("there is no kubectl on PATH");
            Ok(ControlPlaneBinaries::ensure(workspace)
                .context("kubectl is missing: install it, or let it be built")?
                .kubectl())
        }
    }
}

/// A folder for the front of PATH, with exactly the programs that belong to the environment.
fn link_programs(run_dir: &RunDir, workspace: &Workspace, kubectl: &Kubectl) -> Result<()> {
    let bin = run_dir.path().join("bin");
    let kubectl = std::path::absolute(kubectl.program()).context("cannot find kubectl")?;
    for (name, program) in [
        ("joinery", workspace.binary("joinery")?),
        ("kubectl", kubectl),
    ] {
        symlink(&program, bin.join(name))
            .with_context(|| format!("cannot link {}", program.display()))?;
    }
    Ok(())
}
