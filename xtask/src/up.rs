//! `cargo xtask up`: an environment to try things in, until Ctrl-C or for one command.

use std::io::{IsTerminal, stdin};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use joinery_e2e::{
    Environment, Kind, Workspace, end_descendants, interrupted, interruptible_sleep, say,
    signal_process,
};

const POLL: Duration = Duration::from_millis(50);
/// How long the command may take to end after a signal.
const COMMAND_GRACE: Duration = Duration::from_secs(5);

const SIGINT: i32 = 2;

/// Options of `up`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Behind a real etcd, kube-apiserver and kube-controller-manager instead of standalone.
    #[arg(long)]
    cluster: bool,
    /// Run this command in the environment once everything is ready, and exit with its status. It sees KUBECONFIG, JOINERY_URL, JOINERY_CA,
    /// JOINERY_PLUGIN_DIR, `joinery` and `kubectl` first in PATH, and with --cluster FRONT_PROXY_CERT and FRONT_PROXY_KEY.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let kind = if arguments.cluster {
        Kind::Cluster
    } else {
        Kind::Standalone
    };
    if let Some(program) = arguments.command.first() {
        ensure!(
            is_there(program),
            "cannot run {program}: it is neither in PATH nor the path of a file"
        );
    }
    let workspace = Workspace::here();
    workspace.ensure_built()?;
    let environment = Environment::start(&workspace, kind, kind.name())?;
    match arguments.command.split_first() {
        Some((program, rest)) => run_in(&environment, program, rest),
        None => stay_up(&environment),
    }
}

/// Whether a command can be run, as far as can be told before everything is started.
fn is_there(program: &str) -> bool {
    // What the environment puts into PATH.
    if matches!(program, "joinery" | "kubectl") {
        return true;
    }
    if program.contains('/') {
        return Path::new(program).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Until Ctrl-C, or until a process dies.
fn stay_up(environment: &Environment) -> Result<ExitCode> {
    println!("\n{}", what_to_type(environment));
    while interrupted().is_none() {
        environment.check()?;
        if interruptible_sleep(Duration::from_millis(200)).is_err() {
            break;
        }
    }
    say("stopping");
    Ok(ExitCode::SUCCESS)
}

fn what_to_type(environment: &Environment) -> String {
    let shown = |path: &Path| path.display().to_string();
    let kubectl = if environment.kind() == Kind::Cluster {
        format!(
            "    export PATH={}:$PATH\n",
            shown(&environment.run_dir().path().join("bin"))
        )
    } else {
        String::new()
    };
    format!(
        "Joinery is ready ({kind}). In another terminal:\n\n    export KUBECONFIG={kubeconfig}\n{kubectl}    kubectl get combinedtasks -A\n    \
         kubectl get combinedtasks -n default task-sample-5 -o yaml\n    kubectl get combinedtasks -n default -w\n    \
         kubectl explain combinedtasks.status\n\nPlugins: {plugins}\nLogs:    {logs}\nHost:    {url}\n\nCtrl-C stops everything.",
        kind = environment.kind().name(),
        kubeconfig = shown(environment.kubeconfig()),
        plugins = shown(environment.plugin_dir()),
        logs = shown(&environment.run_dir().logs()),
        url = environment.url(),
    )
}

/// For one command: its status is ours.
fn run_in(environment: &Environment, program: &str, arguments: &[String]) -> Result<ExitCode> {
    let mut command = Command::new(program);
    command.args(arguments);
    environment.describe_to(&mut command)?;
    let shown = std::iter::once(program)
        .chain(arguments.iter().map(String::as_str))
        .collect::<Vec<_>>()
        .join(" ");
    say(format!("running {shown}"));
    // It stays in our process group: it may be a shell that wants the terminal.
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {program}"))?;
    let status = wait(&mut child, environment)?;
    end_descendants(&environment.process_ids());
    say(format!("{program} ended ({status}); stopping"));
    Ok(ExitCode::from(code_of(status)))
}

fn wait(child: &mut Child, environment: &Environment) -> Result<ExitStatus> {
    let mut deadline = None;
    let mut complained = false;
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for the command")? {
            return Ok(status);
        }
        if !complained && let Err(error) = environment.check() {
            // The command may want to see what happens then: it goes on.
            complained = true;
            say(format!("{error:#}"));
        }
        match (interrupted(), deadline) {
            (Some(number), None) => {
                // Ctrl-C at the terminal reached the command as well.
                if number != SIGINT || !stdin().is_terminal() {
                    signal_process(child.id(), number);
                }
                deadline = Some(Instant::now() + COMMAND_GRACE);
            }
            (Some(_), Some(deadline)) if Instant::now() >= deadline => {
                child.kill().context("cannot end the command")?;
            }
            _ => {}
        }
        thread::sleep(POLL);
    }
}

/// As a shell gives it: 128 and the signal's number for a command that died of one.
fn code_of(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|number| 128 + number));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::code_of;

    #[test]
    fn the_exit_code_is_the_commands_or_its_signal_as_a_shell_says_it() {
        assert_eq!(code_of(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(code_of(ExitStatus::from_raw(15)), 143);
    }
}
