//! Benchmarks of Joinery beside its peers, on the same data in the same run.
//!
//! `cargo xtask bench` builds what is needed and runs this program; docs/performance.md has the results and says what they mean.

mod bare;
mod bench;
mod client;
mod data;
mod load;
mod plot;
mod process;
mod report;
mod stats;
mod world;

use anyhow::{Result, bail};
use clap::Parser;
use joinery_e2e::{Workspace, become_subreaper, end_descendants, listen_for_signals, say};

use crate::bench::{ALL, Session};
use crate::report::{Report, Table};

#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask bench",
    bin_name = "cargo xtask bench",
    args_conflicts_with_subcommands = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Which benchmarks; all when none is named.
    names: Vec<String>,
    /// Everything small and once, to see that it works.
    #[arg(long)]
    quick: bool,
    /// How often each subject has its turn.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Tasks, of 10 Events each.
    #[arg(long, default_value_t = 10_000)]
    tasks: usize,
    /// Write the results into docs/performance.md and docs/performance.
    #[arg(long)]
    write_docs: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Say what there is.
    List,
    #[command(hide = true)]
    Bare(bare::Arguments),
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Runtime::new()?;
    match &arguments.command {
        Some(Command::Bare(bare)) => return runtime.block_on(bare::serve(bare)),
        Some(Command::List) => {
            for (name, about) in ALL {
                println!("{name:<10} {about}");
            }
            return Ok(());
        }
        None => {}
    }
    become_subreaper();
    let result = listen_for_signals().and_then(|()| runtime.block_on(run(&arguments)));
    end_descendants(&[]);
    result
}

async fn run(arguments: &Arguments) -> Result<()> {
    if let Some(unknown) = arguments
        .names
        .iter()
        .find(|name| !ALL.iter().any(|(known, _)| known == name))
    {
        bail!("there is no benchmark {unknown}: see `cargo xtask bench list`");
    }
    let workspace = Workspace::here();
    let docs = workspace.root().join("docs");
    let about = about()?;
    about.print(ABOUT);
    if arguments.write_docs {
        about.write(ABOUT, &docs)?;
    }
    let mut session = Session::new(
        workspace,
        arguments.quick,
        arguments.rounds,
        arguments.tasks,
    );
    for (name, about) in ALL {
        if !arguments.names.is_empty() && !arguments.names.iter().any(|wanted| wanted == name) {
            continue;
        }
        say(format!("== {name}: {about}"));
        let report = session.run(name).await?;
        report.print(name);
        if arguments.write_docs {
            report.write(name, &docs)?;
        }
    }
    Ok(())
}

/// The section that says on what all was measured.
const ABOUT: &str = "machine";

/// What was measured, on what.
fn about() -> Result<Report> {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown", |(_, name)| name.trim());
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism()?;
    // The host is built as this program is.
    let build = if cfg!(debug_assertions) {
        "dev profile (own crates opt-level 1 with assertions, dependencies opt-level 2)"
    } else {
        "release profile (opt-level 3, thin LTO)"
    };
    let mut table = Table::new("Measured on", &["", ""]);
    table.row([
        "processor",
        &format!("{model}, {cores} cores, shared by servers and clients"),
    ]);
    table.row(["kernel", kernel.trim()]);
    table.row(["build of Joinery", build]);
    table.row([
        "control plane and peers",
        "Kubernetes 1.36.3, etcd 3.6, Go 1.26",
    ]);
    Ok(Report {
        tables: vec![table],
        plots: Vec::new(),
    })
}
