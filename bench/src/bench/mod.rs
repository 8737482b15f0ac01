//! The benchmarks.

mod fan_out;
mod growth;
mod join_get;
mod join_list;
mod memory;
mod plugin;
mod start;
mod stored;
mod watch;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use joinery_e2e::Workspace;

use crate::load::{Budget, Rounds, Subject};
use crate::plot::{Bar, Plot};
use crate::report::{Report, Table};
use crate::stats::{Samples, bytes, ratio, seconds};
use crate::world::World;

/// Name, and what it measures, in the order in which they run.
pub(crate) const ALL: [(&str, &str); 9] = [
    ("join-list", "list 10,000 CombinedTasks of 10 Events each"),
    ("join-get", "get one CombinedTask"),
    ("watch", "from an Event to the watcher of its CombinedTask"),
    ("fan-out", "1,000 watchers of CombinedTasks"),
    ("memory", "resident memory at rest, with data, a watch"),
    (
        "stored",
        "create, get, update, patch, list and delete CustomTasks",
    ),
    ("start", "from start to ready, and the exchange of a plugin"),
    ("plugin", "what a call of a plugin costs"),
    (
        "growth",
        "what reads and changes cost as objects become more",
    ),
];

/// Events of each Task.
pub(crate) const EVENTS: usize = 10;

/// What the benchmarks of one run share.
pub(crate) struct Session {
    workspace: Workspace,
    quick: bool,
    rounds: usize,
    tasks: usize,
    world: Option<World>,
}

impl Session {
    pub(crate) fn new(workspace: Workspace, quick: bool, rounds: usize, tasks: usize) -> Session {
        Session {
            workspace,
            quick,
            rounds: if quick { 1 } else { rounds.max(1) },
            tasks: if quick { 50 } else { tasks },
            world: None,
        }
    }

    pub(crate) async fn run(&mut self, name: &str) -> Result<Report> {
        match name {
            "join-list" => join_list::run(self).await,
            "join-get" => join_get::run(self).await,
            "watch" => watch::run(self).await,
            "fan-out" => fan_out::run(self).await,
            "memory" => memory::run(self).await,
            "stored" => stored::run(self).await,
            "start" => start::run(self).await,
            "plugin" => plugin::run(self).await,
            "growth" => growth::run(self).await,
            _ => bail!("there is no benchmark {name}"),
        }
    }

    /// The shared cluster, started for who needs it first.
    async fn world(&mut self) -> Result<&mut World> {
        if self.world.is_none() {
            self.world = Some(World::start(&self.workspace, self.tasks, EVENTS).await?);
        }
        self.world.as_mut().context("it was just started")
    }

    /// A round.
    fn budget(&self) -> Budget {
        if self.quick {
            Budget {
                time: Duration::from_millis(200),
                requests: 5,
            }
        } else {
            Budget {
                time: Duration::from_secs(2),
                requests: usize::MAX,
            }
        }
    }
}

/// A table of latency, processor time and memory, with ratios to the first subject, and a plot of the first two.
fn compared(title: &str, subjects: &[Subject], results: &[Rounds]) -> Table {
    let mut table = Table::new(
        title,
        &[
            "server",
            "latency",
            "ratio",
            "first byte",
            "CPU a request",
            "ratio",
            "of it the server's own",
            "peak memory",
            "bytes",
            "requests",
        ],
    );
    let first = &results[0];
    for (subject, rounds) in subjects.iter().zip(results) {
        table.row([
            subject.name.clone(),
            rounds.latency.spread(seconds),
            ratio(rounds.latency.median() / first.latency.median()),
            seconds(rounds.head.median()),
            rounds.cpu.spread(seconds),
            ratio(rounds.cpu.median() / first.cpu.median()),
            rounds
                .cpu_of
                .first()
                .map_or_else(String::new, |own| seconds(own.median())),
            subject
                .processes
                .iter()
                .zip(&rounds.peak)
                .map(|(process, peak)| format!("{} {}", process.name, bytes(*peak)))
                .collect::<Vec<_>>()
                .join(", "),
            bytes(rounds.bytes as f64),
            rounds.latency.len().to_string(),
        ]);
    }
    table
}

fn bar(subject: &Subject, samples: &Samples) -> Bar {
    Bar {
        name: subject.name.clone(),
        median: samples.median(),
        least: samples.min(),
        most: samples.max(),
        shown: seconds(samples.median()),
        ours: subject.ours,
    }
}

fn latency_and_cpu(file: &str, title: &str, subjects: &[Subject], results: &[Rounds]) -> Plot {
    let bars = |of: fn(&Rounds) -> &Samples| {
        subjects
            .iter()
            .zip(results)
            .map(|(subject, rounds)| bar(subject, of(rounds)))
            .collect()
    };
    Plot {
        file: file.to_owned(),
        title: title.to_owned(),
        groups: vec![
            ("latency".to_owned(), bars(|rounds| &rounds.latency)),
            ("CPU a request".to_owned(), bars(|rounds| &rounds.cpu)),
        ],
    }
}
