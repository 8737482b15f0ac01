//! One CombinedTask.

use anyhow::Result;

use super::{Session, compared, latency_and_cpu};
use crate::client::{Ask, JSON, Target};
use crate::data::task_name;
use crate::load::{Subject, in_turn};
use crate::process::{Measured, quiet};
use crate::report::Report;
use crate::world::{GO, OURS};

pub(super) async fn run(session: &mut Session) -> Result<Report> {
    let (rounds, budget, quick) = (session.rounds, session.budget(), session.quick);
    let world = session.world().await?;
    let name = task_name(world.data.len() / 2);
    let joinery = world.with_upstream(world.joinery()?)?;
    let go = world.with_upstream(world.go_process())?;
    let subject = |label: &str, target: Target, base: &str, processes: &[Measured], ours| Subject {
        name: label.to_owned(),
        target,
        ask: Ask::get(
            format!("{base}/namespaces/default/combinedtasks/{name}"),
            JSON,
        ),
        processes: processes.to_vec(),
        ours,
    };
    let subjects = [
        subject("Joinery", world.direct(), OURS, &joinery, true),
        subject("Go join server", world.go(), GO, &go, false),
        subject(
            "Joinery, aggregator",
            world.apiserver(),
            OURS,
            &joinery,
            true,
        ),
        subject(
            "Go join server, aggregator",
            world.apiserver(),
            GO,
            &go,
            false,
        ),
    ];
    let mut report = Report::default();
    for clients in [1, 16] {
        quiet(&world.everything()?).await?;
        let clients = if quick { clients.min(2) } else { clients };
        let results = in_turn(&subjects, clients, rounds, budget).await?;
        let title = format!("Get of one CombinedTask, {clients} client(s)");
        report.tables.push(compared(&title, &subjects, &results));
        if clients == 1 {
            report
                .plots
                .push(latency_and_cpu("join-get", &title, &subjects, &results));
        }
    }
    Ok(report)
}
