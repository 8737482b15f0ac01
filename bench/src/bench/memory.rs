//! Resident memory: at rest, with data, under load.

use std::time::Duration;

use anyhow::Result;

use super::{EVENTS, Session};
use crate::client::{Ask, JSON};
use crate::load::{Budget, Rounds, Subject, round};
use crate::process::{Measured, quiet};
use crate::report::{Report, Table};
use crate::stats::{bytes, ratio};
use crate::world::{GO, OURS};

pub(super) async fn run(session: &mut Session) -> Result<Report> {
    let world = session.world().await?;
    let (joinery, go) = (world.joinery()?, world.go_process());
    let mut peaks = Vec::new();
    for (process, target, base) in [(&joinery, world.direct(), OURS), (&go, world.go(), GO)] {
        let subject = Subject {
            name: process.name.clone(),
            target,
            ask: Ask::get(format!("{base}/combinedtasks"), JSON),
            processes: vec![process.clone()],
            ours: base == OURS,
        };
        let budget = Budget {
            time: Duration::from_secs(2),
            requests: 3,
        };
        let mut rounds = Rounds::default();
        round(&subject, 1, budget, &mut rounds).await?;
        peaks.push(rounds.peak[0]);
    }
    quiet(&[joinery.clone(), go.clone()]).await?;
    let mut table = Table::new(
        format!(
            "Resident memory with {} Tasks of {EVENTS} Events each",
            world.data.len()
        ),
        &[
            "process",
            "at rest",
            "with the data",
            "most while it is read in",
            "most while one client lists",
            "afterwards",
            "ratio of the most",
        ],
    );
    let row = |process: &Measured, at_rest: &str, loaded: &str, loading: &str, peak: f64| {
        Ok::<_, anyhow::Error>([
            process.name.clone(),
            at_rest.to_owned(),
            loaded.to_owned(),
            loading.to_owned(),
            bytes(peak),
            bytes(process.resident()?),
            ratio(peak / peaks[0]),
        ])
    };
    table.row(row(
        &joinery,
        &bytes(world.at_rest),
        &bytes(world.loaded),
        &bytes(world.loading_peak),
        peaks[0],
    )?);
    table.row(row(&go, "–", "–", "–", peaks[1])?);
    Ok(Report {
        tables: vec![table],
        plots: Vec::new(),
    })
}
