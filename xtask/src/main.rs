//! `cargo xtask`: the commands of a checkout. They install or build everything they need beyond rustup's Rust, Go and kubectl.

mod bench;
mod languages;
mod test;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use joinery_e2e::{Interrupted, become_subreaper, end_descendants, listen_for_signals};

/// The commands of a checkout of Joinery.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start Joinery with the bundled plugins, the Task controller and sample Tasks.
    Up(up::Arguments),
    /// Run all checks and tests, end to end against a real control plane included.
    Test(test::Arguments),
    /// Measure Joinery beside its peers.
    Bench(bench::Arguments),
    /// Build the plugins in other languages, and measure them beside one in Rust.
    Languages(languages::Arguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    become_subreaper();
    let result = listen_for_signals().and_then(|()| match arguments.command {
        Command::Up(arguments) => up::run(&arguments),
        Command::Test(arguments) => test::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Languages(arguments) => languages::run(&arguments),
    });
    // Everything that was started has been stopped in order by now; this is for what it left behind.
    end_descendants(&[]);
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            match error.downcast_ref::<Interrupted>() {
                // As a shell reports a child that died of a signal.
                Some(Interrupted(number)) => {
                    ExitCode::from(128_u8.saturating_add(u8::try_from(*number).unwrap_or(0)))
                }
                None => ExitCode::FAILURE,
            }
        }
    }
}
