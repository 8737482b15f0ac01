//! `joinery plugin`: what a plugin's writer and the operator who takes it do, with the host's own code.

mod bench;
mod cases;
mod check;
mod inputs;
mod load;
mod lookup;
mod new;
mod pack;
mod record;
mod requests;
mod roles;
mod run;
mod view;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

/// `joinery plugin`
#[derive(Debug, Args)]
pub(crate) struct Plugin {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    New(new::New),
    Check(check::Check),
    Run(run::Run),
    Test(cases::Test),
    Pack(pack::Pack),
    Bench(bench::Bench),
}

/// Which component, with which settings.
#[derive(Clone, Debug, Args)]
pub(crate) struct Target {
    /// The component: FILE.wasm, or FILE.wasm.zst.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The plugin's settings file. Left out: NAME.yaml or NAME.json beside the component, if there is one, as the host
    /// does.
    #[arg(long, value_name = "SETTINGS")]
    settings: Option<PathBuf>,
    /// The plugin's name. Left out: the file's.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// Runs one of the commands.
pub(crate) async fn run(plugin: Plugin) -> Result<ExitCode> {
    match plugin.command {
        Command::New(new) => new.run(),
        Command::Check(check) => check.run().await,
        Command::Run(run) => run.run().await,
        Command::Test(test) => test.run().await,
        Command::Pack(pack) => pack.run().await,
        Command::Bench(bench) => bench.run().await,
    }
}
