//! `cargo xtask test`: every check, in an order that finds cheap faults first, with the time that each took.

use std::process::{Command, ExitCode};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use joinery_e2e::{
    CargoComponent, ControlPlaneBinaries, Workspace, go_clients, go_peers, say, wait_for_status,
};

/// Options of `test`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Leave out what needs the real control plane.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Repeat what is repeated about twenty times as often as CI does.
    #[arg(long)]
    full: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let workspace = Workspace::here();
    let mut stages = Stages::default();
    let result = all(arguments, &workspace, &mut stages);
    stages.print();
    result.map(|()| ExitCode::SUCCESS)
}

fn all(arguments: &Arguments, workspace: &Workspace, stages: &mut Stages) -> Result<()> {
    let full = if arguments.full { "1" } else { "0" };
    let envs = [("JOINERY_TEST_FULL", full), ("JOINERY_E2E_BUILT", "1")];
    let cargo = |folder: &str, line: &str| {
        workspace.cargo(folder, &line.split(' ').collect::<Vec<_>>(), &envs)
    };

    // It takes longest when nothing is cached, and runs at low priority behind the Rust compiler.
    let mut control_plane = (!arguments.quick).then(|| in_background(workspace));

    stages.run("toolchain", || {
        workspace.ensure_toolchain(&["rustfmt", "clippy"])
    })?;
    stages.run("fmt", || {
        cargo("", "fmt --all --check")?;
        cargo("plugins", "fmt --all --check")
    })?;
    stages.run("clippy", || {
        cargo("", "clippy --workspace --all-targets -- -D warnings")?;
        cargo("", "clippy --workspace --test e2e -- -D warnings")?;
        cargo(
            "plugins",
            "clippy --workspace --all-targets --locked -- -D warnings",
        )
    })?;
    stages.run("guests", || workspace.build_guests())?;
    stages.run("build", || workspace.build_host())?;
    stages.run("test", || {
        cargo("", "test --workspace --all-targets")?;
        cargo("", "test --workspace --doc")
    })?;
    stages.run("test guests", || {
        cargo("plugins", "test --workspace --locked")
    })?;
    stages.run("cargo component", || component(workspace))?;
    let left_out = stages.run("languages", || crate::languages::build(workspace))?;
    stages.notes.extend(left_out);
    stages.run("e2e standalone", || {
        cargo("", "test --workspace --test e2e -- --skip cluster::")
    })?;
    if let Some(building) = control_plane.take() {
        stages.run("control plane", || {
            building
                .join()
                .map_err(|_| anyhow!("the build of the control plane panicked"))?
        })?;
        stages.run("e2e cluster", || {
            cargo("", "test --workspace --test e2e -- cluster::")
        })?;
        // Small and once, so that it keeps working; nothing depends on what it measures.
        stages.run("bench", || benchmarks(workspace))?;
    }
    Ok(())
}

/// The guests build with `cargo component build` as well, and the host takes what comes of it.
fn component(workspace: &Workspace) -> Result<()> {
    let guests = CargoComponent::ensure(workspace)?.build_guests(workspace)?;
    let joinery = workspace.binary("joinery")?;
    for guest in guests {
        let mut check = Command::new(&joinery);
        check.args(["plugin", "check"]).arg(&guest);
        let status = wait_for_status(&mut check)?;
        ensure!(status.success(), "the host refuses {}", guest.display());
    }
    Ok(())
}

fn benchmarks(workspace: &Workspace) -> Result<()> {
    let mut quick = Command::new(workspace.binary("joinery-bench")?);
    let status = wait_for_status(quick.arg("--quick"))?;
    ensure!(status.success(), "a benchmark failed");
    Ok(())
}

fn in_background(workspace: &Workspace) -> JoinHandle<Result<()>> {
    let workspace = workspace.clone();
    thread::spawn(move || {
        ControlPlaneBinaries::ensure(&workspace).context("cannot get a control plane")?;
        go_clients(&workspace).context("cannot get clients in Go")?;
        go_peers(&workspace).context("cannot get peers in Go")?;
        Ok(())
    })
}

/// What ran, and for how long.
#[derive(Debug, Default)]
struct Stages {
    done: Vec<(&'static str, Duration, bool)>,
    /// What whoever reads the result must know besides.
    notes: Vec<String>,
}

impl Stages {
    fn run<T>(&mut self, name: &'static str, stage: impl FnOnce() -> Result<T>) -> Result<T> {
        say(format!("== {name}"));
        let start = Instant::now();
        let result = stage();
        self.done.push((name, start.elapsed(), result.is_ok()));
        result.with_context(|| format!("stage `{name}` failed"))
    }

    /// On stdout: this is the command's result.
    fn print(&self) {
        println!("\nstage             seconds");
        for (name, took, passed) in &self.done {
            println!(
                "{name:<16} {:8.1}  {}",
                took.as_secs_f64(),
                if *passed { "ok" } else { "FAILED" }
            );
        }
        let total: Duration = self.done.iter().map(|(_, took, _)| *took).sum();
        println!("{:<16} {:8.1}", "total", total.as_secs_f64());
        for note in &self.notes {
            println!("{note}");
        }
    }
}
