//! One running `joinery`, in either of its two forms, and its restarts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::kubectl::Kubectl;
use crate::pki::KeyPairFiles;
use crate::ports::Port;
use crate::process::Process;
use crate::run_dir::RunDir;
use crate::wait;
use crate::workspace::Workspace;

/// The host may drain watches before it ends; who runs it by hand does not want to wait for long.
const GRACE: Duration = Duration::from_secs(5);
/// Compiling three guests on two busy cores takes most of it.
const READY: Duration = Duration::from_secs(120);

/// How a host is run.
pub(crate) enum Form {
    /// `joinery standalone`, which writes this kubeconfig.
    Standalone { kubeconfig: PathBuf },
    /// `joinery serve` behind a kube-apiserver.
    Behind {
        upstream: PathBuf,
        serving: KeyPairFiles,
        /// The authority of the serving certificate, if the host is to make APIServices.
        registers: Option<PathBuf>,
    },
}

/// A host with its port, its folders and its process.
pub(crate) struct Host {
    name: String,
    program: PathBuf,
    form: Form,
    port: Port,
    data: PathBuf,
    plugins: PathBuf,
    logs: PathBuf,
    arguments: Vec<String>,
    process: Option<Process>,
}

impl Host {
    /// Lays out the host's folders; nothing runs yet.
    pub(crate) fn prepare(
        workspace: &Workspace,
        run_dir: &RunDir,
        name: &str,
        form: Form,
    ) -> Result<Host> {
        Ok(Host {
            name: name.to_owned(),
            program: workspace.binary("joinery")?,
            form,
            port: Port::reserve()?,
            data: run_dir.create(&format!("data/{name}"))?,
            plugins: run_dir.create(&format!("plugins/{name}"))?,
            logs: run_dir.logs(),
            arguments: Vec::new(),
            process: None,
        })
    }

    pub(crate) fn plugins(&self) -> &Path {
        &self.plugins
    }

    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// For every start from now on.
    pub(crate) fn add_arguments(&mut self, arguments: &[&str]) {
        self.arguments
            .extend(arguments.iter().map(|argument| (*argument).to_owned()));
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.number()
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.logs.join(format!("{}.log", self.name))
    }

    /// Starts the process and waits until it says that it is ready to a kubectl that speaks to it directly.
    pub(crate) fn start(&mut self, direct: &Kubectl) -> Result<()> {
        match self.form {
            Form::Standalone { .. } => self.start_standalone()?,
            Form::Behind { .. } => self.spawn()?,
        }
        let process = self.process.as_mut().context("the host does not run")?;
        wait::until(&format!("{} to be ready", self.name), READY, || {
            process.check()?;
            Ok(direct
                .run(["get", "--raw", "/readyz", "--request-timeout=5s"])
                .is_ok()
                .then_some(()))
        })
    }

    /// Starts a standalone host and waits until it writes its kubeconfig, which it does when it is ready.
    pub(crate) fn start_standalone(&mut self) -> Result<()> {
        self.spawn()?;
        let Form::Standalone { kubeconfig } = &self.form else {
            bail!("{} is no standalone host", self.name);
        };
        let process = self.process.as_mut().context("the host does not run")?;
        wait::until_with(
            Duration::from_millis(10),
            "the host to write its kubeconfig",
            READY,
            || {
                process.check()?;
                Ok(kubeconfig.is_file().then_some(()))
            },
        )
    }

    /// Starts the process and waits for nothing.
    pub(crate) fn spawn(&mut self) -> Result<()> {
        let mut command = Command::new(&self.program);
        match &self.form {
            Form::Standalone { kubeconfig } => {
                // A file of an earlier start must not be taken for this one's sign of readiness.
                let _ = fs::remove_file(kubeconfig);
                command
                    .arg("standalone")
                    .arg("--kubeconfig")
                    .arg(kubeconfig);
            }
            Form::Behind {
                upstream,
                serving,
                registers,
            } => {
                command.arg("serve").arg("--kubeconfig").arg(upstream);
                command
                    .arg("--tls-cert-file")
                    .arg(&serving.certificate)
                    .arg("--tls-private-key-file")
                    .arg(&serving.key);
                if let Some(authority) = registers {
                    let service = format!("joinery-system/joinery:{}", self.port.number());
                    command
                        .arg("--service")
                        .arg(service)
                        .arg("--service-ca-file")
                        .arg(authority);
                }
                command.arg("--plugin-grants").arg(self.grants()?);
            }
        }
        command
            .arg("--listen")
            .arg(format!("127.0.0.1:{}", self.port.number()));
        command
            .arg("--data-dir")
            .arg(&self.data)
            .arg("--plugins")
            .arg(&self.plugins)
            .args(&self.arguments);
        self.process = Some(Process::start(&self.name, &self.logs, GRACE, &mut command)?);
        Ok(())
    }

    /// Writes what plugins are granted: the groups of this project, to read anything and to call any host. That those
    /// which are bundled get along with what deploy/ grants them is a test of their own.
    fn grants(&self) -> Result<PathBuf> {
        let path = self.data.join("grants.yaml");
        let grants = "plugins: {\"*\": {groups: [\"*.example.com\"], sources: [\"*\"], hosts: [\"*\"]}, combined_tasks: {definer: true}}\n";
        fs::write(&path, grants).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// Ends the process as an operator does (SIGTERM), or as a crash does.
    pub(crate) fn stop(&mut self, crash: bool) {
        if let Some(mut process) = self.process.take() {
            if crash {
                process.kill()
            } else {
                process.stop()
            }
        }
    }

    pub(crate) fn check(&mut self) -> Result<()> {
        self.process.as_mut().map_or(Ok(()), Process::check)
    }

    pub(crate) fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }
}

/// Copies the guests, each with its settings file if it has one (`plugins/NAME/SETTINGS`, named after the component), into a host's folder.
pub(crate) fn install_guests(workspace: &Workspace, into: &Path) -> Result<()> {
    for guest in workspace.guests()? {
        let stem = guest
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
            .unwrap_or_default();
        copy(&guest, &into.join(format!("{stem}.wasm")))?;
        for extension in ["yaml", "json"] {
            let settings = workspace
                .plugins()
                .join(stem.replace('_', "-"))
                .join(format!("{stem}.{extension}"));
            if settings.is_file() {
                copy(&settings, &into.join(format!("{stem}.{extension}")))?;
            }
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}
