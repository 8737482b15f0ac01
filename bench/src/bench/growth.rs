//! What reads and changes cost as objects become more, on `joinery standalone`.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use joinery_e2e::{ControlPlaneBinaries, Kubectl, say};

use super::start::Standalone;
use super::watch::newest;
use super::{EVENTS, Session};
use crate::client::{Ask, Identity, JSON};
use crate::data::{Data, task_name};
use crate::load::{Budget, Rounds, Subject, round};
use crate::process::{Cpu, quiet};
use crate::report::{Report, Table};
use crate::stats::{Samples, bytes, number, seconds};
use crate::world::OURS;

/// Changes at each size.
const CHANGES: usize = 200;

pub(super) async fn run(session: &mut Session) -> Result<Report> {
    let dir = tempfile::tempdir_in(session.workspace.root().join("target"))?;
    let host = Standalone::start(&session.workspace, dir.path())?;
    let program = ControlPlaneBinaries::ensure(&session.workspace)?.kubectl();
    let kubectl = Kubectl::of_kubeconfig(program, &host.kubeconfig, dir.path());
    let target = Identity::of(&kubectl, &[])?.own();
    // With 10 Events each: a thousand, ten thousand and a hundred thousand objects.
    let sizes: &[usize] = if session.quick {
        &[10, 20]
    } else {
        &[91, 909, 9091]
    };
    let mut data = Data::create(&target, 0, EVENTS).await?;
    let processes = [host.process()];
    let mut table = Table::new(
        "Cost against the number of objects (Tasks and Events)",
        &[
            "objects",
            "list",
            "list, CPU a MB",
            "get",
            "get, CPU",
            "a change until its watcher knows",
            "a change, CPU",
            "resident memory",
        ],
    );
    for tasks in sizes {
        data.grow(&target, *tasks, EVENTS).await?;
        say(format!("{} objects", tasks * (EVENTS + 1)));
        quiet(&processes).await?;
        let subject = |ask| Subject {
            name: String::new(),
            target: target.clone(),
            ask,
            processes: processes.to_vec(),
            ours: true,
        };
        let budget = Budget {
            time: Duration::from_millis(if session.quick { 100 } else { 2000 }),
            requests: usize::MAX,
        };
        let (mut list, mut get) = (Rounds::default(), Rounds::default());
        let all = subject(Ask::get(format!("{OURS}/combinedtasks"), JSON));
        let name = task_name(data.len() / 2);
        let one = Ask::get(
            format!("{OURS}/namespaces/default/combinedtasks/{name}"),
            JSON,
        );
        for _ in 0..session.rounds {
            round(&all, 1, budget, &mut list).await?;
            round(&subject(one.clone()), 1, budget, &mut get).await?;
        }
        let changes = if session.quick { 10 } else { CHANGES };
        let cpu = Cpu::start(&processes)?;
        let change = change(&data, &target, changes).await?;
        let change_cpu = cpu.spent()?[0] / changes as f64;
        table.row([
            number((tasks * (EVENTS + 1)) as f64),
            list.latency.spread(seconds),
            seconds(list.cpu.median() / (list.bytes as f64 / 1e6)),
            get.latency.spread(seconds),
            seconds(get.cpu.median()),
            format!(
                "{}, p99 {}",
                seconds(change.median()),
                seconds(change.percentile(99.0))
            ),
            seconds(change_cpu),
            bytes(processes[0].resident()?),
        ]);
    }
    Ok(Report {
        tables: vec![table],
        plots: Vec::new(),
    })
}

/// Creates Events, one after the other, each when the watcher of the CombinedTasks has seen the one before.
async fn change(data: &Data, target: &crate::client::Target, count: usize) -> Result<Samples> {
    let path = format!("{OURS}/combinedtasks?watch=true");
    let version = newest(target, &path).await?;
    let mut watcher = target.connect().await?;
    let mut lines = watcher
        .watch(&format!("{path}&resourceVersion={version}"))
        .await?;
    let mut writer = target.connect().await?;
    let mut samples = Samples::default();
    for number in 0..count {
        let name = format!("changed.{}.{number}", data.len());
        let start = Instant::now();
        writer
            .must(&data.marked(number % data.len(), &name, "mark"))
            .await?;
        lines.next().await?.context("the watch ended")?;
        samples.push(start.elapsed().as_secs_f64());
    }
    Ok(samples)
}
