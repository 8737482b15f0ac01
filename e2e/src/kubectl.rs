//! kubectl, as a user types it, against one environment.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// kubectl with a kubeconfig and a discovery cache of its own (a shared one would remember another server at the same port).
#[derive(Debug, Clone)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    cache: PathBuf,
}

impl Kubectl {
    pub(crate) fn new(program: PathBuf, kubeconfig: PathBuf, cache: PathBuf) -> Kubectl {
        Kubectl {
            program,
            kubeconfig,
            cache,
        }
    }

    /// A kubectl for a kubeconfig that somebody else wrote; its discovery cache lies below `cache`.
    #[must_use]
    pub fn of_kubeconfig(program: PathBuf, kubeconfig: &Path, cache: &Path) -> Kubectl {
        Kubectl::new(program, kubeconfig.to_owned(), cache.join("kubectl-cache"))
    }

    /// The program itself.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// A command to which more can be added before it is run.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECACHEDIR", &self.cache)
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    /// Runs kubectl to its end, whatever its exit status.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn output<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<Output> {
        self.command(arguments)
            .output()
            .with_context(|| format!("cannot run {}", self.program.display()))
    }

    /// Runs kubectl and gives its stdout.
    ///
    /// # Errors
    /// When it cannot be run, or fails: with what it printed on stderr.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<String> {
        let command = self.command(arguments);
        run(command, None)
    }

    /// Runs kubectl with `input` on its stdin (`-f -`) and gives its stdout.
    ///
    /// # Errors
    /// As [`Kubectl::run`].
    pub fn run_with_input<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
        input: &str,
    ) -> Result<String> {
        let command = self.command(arguments);
        run(command, Some(input))
    }

    /// Runs kubectl and parses its stdout (`-o json`, `get --raw`).
    ///
    /// # Errors
    /// As [`Kubectl::run`], and when what it printed is not JSON.
    pub fn json<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<Value> {
        let printed = self.run(arguments)?;
        serde_json::from_str(&printed)
            .with_context(|| format!("kubectl printed no JSON: {printed}"))
    }
}

fn run(mut command: Command, input: Option<&str>) -> Result<String> {
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        // A kubectl that failed early does not read it all; its exit status tells.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child
        .wait_with_output()
        .context("cannot wait for kubectl")?;
    if !output.status.success() {
        let arguments: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
        bail!(
            "kubectl {} failed ({}): {}",
            arguments.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    String::from_utf8(output.stdout).context("kubectl printed what is not UTF-8")
}
