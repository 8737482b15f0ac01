//! `cargo xtask bench`: builds what is measured, then hands over to the benchmarks' own program.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use joinery_e2e::{ControlPlaneBinaries, Workspace, say, wait_for_status};

/// Options of `bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Measure the release build; it takes about ten minutes to compile on two cores.
    #[arg(long)]
    release: bool,
    /// `list`, or names of benchmarks and options: see `cargo xtask bench -- --help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let workspace = Workspace::here();
    workspace.ensure_built()?;
    let program = if arguments.release {
        say("building the release profile (cargo build --release)");
        let packages = ["-p", "joinery", "-p", "joinery-bench"];
        let line = [&["build", "--release", "--locked"][..], &packages[..]].concat();
        workspace.cargo("", &line, &[])?;
        workspace.root().join("target/release/joinery-bench")
    } else {
        workspace.binary("joinery-bench")?
    };
    ControlPlaneBinaries::ensure(&workspace)?;
    let status = wait_for_status(Command::new(&program).args(&arguments.rest))
        .with_context(|| format!("cannot run {}", program.display()))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}
