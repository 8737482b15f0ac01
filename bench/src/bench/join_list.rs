//! Lists of all CombinedTasks: what is joined once and shared, beside what is joined for each request.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use joinery_e2e::{Peer, say};
use serde_json::Value;

use super::{Session, compared, latency_and_cpu};
use crate::client::{Ask, JSON, TABLE, Target};
use crate::load::{Budget, Rounds, Subject, in_turn};
use crate::process::{Measured, quiet};
use crate::report::{Report, Table};
use crate::stats::{Samples, ratio, seconds};
use crate::world::{GO, OURS, World};

/// At once in the second half; 16 joins on each request take more memory than they take time.
const CLIENTS: usize = 16;

pub(super) async fn run(session: &mut Session) -> Result<Report> {
    let (rounds, budget, quick) = (session.rounds, session.budget(), session.quick);
    let world = session.world().await?;
    let (live, live_process) = world.live()?;
    let bare = bare(world).await?;
    let mut report = Report::default();
    for (accept, what) in [(JSON, "JSON"), (TABLE, "Table")] {
        let subjects = subjects(world, &bare, accept, Some((&live, &live_process)))?;
        quiet(&world.everything()?).await?;
        let results = in_turn(&subjects, 1, rounds, budget).await?;
        let tasks = world.data.len();
        let title = format!("List of {tasks} CombinedTasks, {what}, 1 client");
        report.tables.push(compared(&title, &subjects, &results));
        let file = format!("join-list-{}", what.to_lowercase());
        report
            .plots
            .push(latency_and_cpu(&file, &title, &subjects, &results));
    }
    world.end_live();
    // Who asks for gzip has it; identity is measured above.
    let mut gzip = subjects(world, &bare, JSON, None)?;
    gzip.retain(|subject| subject.ours);
    for subject in &mut gzip {
        subject.ask.gzip = true;
    }
    let results = in_turn(&gzip, 1, rounds, budget).await?;
    report
        .tables
        .push(compared("The same as gzip", &gzip, &results));

    let clients = if quick { 2 } else { CLIENTS };
    for (accept, what) in [(JSON, "JSON"), (TABLE, "Table")] {
        let subjects = subjects(world, &bare, accept, None)?;
        let (mut shown, mut results, mut without) = (Vec::new(), Vec::new(), Vec::new());
        for subject in subjects {
            // One list each: of the Go server that is minutes of work.
            let once = Budget {
                requests: if subject.ours { 4 } else { 1 },
                ..budget
            };
            let mut rounds = Rounds::default();
            match crate::load::round(&subject, clients, once, &mut rounds).await {
                Ok(()) => {
                    results.push(rounds);
                    shown.push(subject);
                }
                Err(error) if subject.ours => return Err(error),
                // kube-apiserver gives a request a minute.
                Err(error) => {
                    say(format!("{}: {error:#}", subject.name));
                    without.push(subject.name);
                }
            }
        }
        let mut title = format!("{what}, {clients} clients at once");
        if !without.is_empty() {
            title += &format!(" (no answer within a minute: {})", without.join(", "));
        }
        report.tables.push(compared(&title, &shown, &results));
    }
    report.tables.push(client(world, rounds.min(3))?);
    Ok(report)
}

fn subjects(
    world: &World,
    bare: &(Peer, Target),
    accept: &'static str,
    live: Option<(&Target, &Measured)>,
) -> Result<Vec<Subject>> {
    let joinery = world.with_upstream(world.joinery()?)?;
    let go = world.with_upstream(world.go_process())?;
    let subject =
        |name: &str, target: Target, path: String, processes: &[Measured], ours| Subject {
            name: name.to_owned(),
            target,
            ask: Ask::get(path, accept),
            processes: processes.to_vec(),
            ours,
        };
    let (ours, theirs) = (
        format!("{OURS}/combinedtasks"),
        format!("{GO}/combinedtasks"),
    );
    let mut subjects = vec![
        subject("Joinery", world.direct(), ours.clone(), &joinery, true),
        subject(
            "Joinery, HTTP/1.1",
            world.direct().over_http1(),
            ours.clone(),
            &joinery,
            true,
        ),
        subject(
            "bare hyper server",
            bare.1.clone(),
            format!("/{}", if accept == JSON { "json" } else { "table" }),
            &[Measured::new("bare", bare.0.id())],
            false,
        ),
        subject("Go join server", world.go(), theirs.clone(), &go, false),
        subject(
            "Joinery, aggregator",
            world.apiserver(),
            ours.clone(),
            &joinery,
            true,
        ),
        subject(
            "Go join server, aggregator",
            world.apiserver(),
            theirs,
            &go,
            false,
        ),
    ];
    if let Some((target, process)) = live {
        let processes = world.with_upstream(process.clone())?;
        subjects.push(subject(
            "Joinery, live",
            target.clone(),
            ours,
            &processes,
            true,
        ));
    }
    Ok(subjects)
}

/// A server that has Joinery's answers ready.
async fn bare(world: &World) -> Result<(Peer, Target)> {
    let dir = world.environment.run_dir().path().join("data/bare");
    std::fs::create_dir_all(&dir)?;
    let mut connection = world.direct().connect().await?;
    for (name, accept) in [("json", JSON), ("table", TABLE)] {
        let ask = Ask::get(format!("{OURS}/combinedtasks"), accept);
        std::fs::write(dir.join(name), connection.must(&ask).await?)?;
    }
    let program = std::env::current_exe()?;
    let peer = world.environment.peer("bare", |files| {
        let mut command = Command::new(program);
        command
            .arg("bare")
            .arg(format!("--listen=127.0.0.1:{}", files.port))
            .arg(format!("--tls-cert-file={}", files.certificate.display()))
            .arg(format!("--tls-private-key-file={}", files.key.display()))
            .arg(format!("--dir={}", dir.display()));
        command
    })?;
    let target = world.identity.target(&peer.url());
    for _ in 0..100 {
        if target.connect().await.is_ok() {
            return Ok((peer, target));
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    peer.check()?;
    anyhow::bail!("the bare server does not answer")
}

/// A Go program that lists Tasks and Events itself.
fn client(world: &World, rounds: usize) -> Result<Table> {
    let processes = world.upstream()?;
    let cpu = crate::process::Cpu::start(&processes)?;
    let output = world
        .go_client(rounds)
        .output()
        .context("cannot run the Go client")?;
    let upstream: f64 = cpu.spent()?.iter().sum::<f64>() / rounds as f64;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (mut took, mut own) = (Samples::default(), Samples::default());
    for line in output.stdout.split(|byte| *byte == b'\n') {
        if let Ok(line) = serde_json::from_slice::<Value>(line) {
            took.push(line["seconds"].as_f64().context("no time")?);
            own.push(line["cpuSeconds"].as_f64().context("no time")?);
        }
    }
    let mut table = Table::new(
        "A Go client that lists Tasks and Events and joins them itself",
        &[
            "",
            "seconds",
            "CPU of its own",
            "CPU upstream",
            "cores in use",
        ],
    );
    table.row([
        "Go client".to_owned(),
        took.spread(seconds),
        own.spread(seconds),
        seconds(upstream),
        ratio((own.median() + upstream) / took.median().max(f64::MIN_POSITIVE)),
    ]);
    Ok(table)
}
