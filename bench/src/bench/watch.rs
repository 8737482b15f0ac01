//! From an Event's creation until the watchers know: a plain watch of the Events, and watches of the CombinedTasks, in the same run.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::sync::mpsc;

use super::Session;
use crate::client::{Ask, JSON, Lines, Target};
use crate::process::quiet;
use crate::report::{Report, Table};
use crate::stats::{Samples, seconds};
use crate::world::OURS;

const PERIOD: Duration = Duration::from_millis(50);
const MARK: &[u8] = b"mark-";

pub(super) async fn run(session: &mut Session) -> Result<Report> {
    let (quick, rounds) = (session.quick, session.rounds);
    let world = session.world().await?;
    quiet(&world.everything()?).await?;
    let count = if quick { 20 } else { 200 * rounds }.min(world.data.len());
    let events =
        "/api/v1/namespaces/default/events?watch=true&labelSelector=tasks.example.com/task-uid";
    let view = format!("{OURS}/namespaces/default/combinedtasks?watch=true");
    let watches = [
        (
            "Events, kube-apiserver",
            world.apiserver(),
            events.to_owned(),
        ),
        ("CombinedTasks, Joinery", world.direct(), view.clone()),
        ("CombinedTasks, aggregator", world.apiserver(), view),
    ];
    let (sender, mut seen) = mpsc::unbounded_channel();
    let mut tasks = Vec::new();
    for (number, (_, target, path)) in watches.iter().enumerate() {
        // From here on, without what there is already.
        let lines = open(target, path).await?;
        tasks.push(tokio::spawn(follow(number, lines, sender.clone())));
    }
    let mut connection = world.apiserver().connect().await?;
    let mut sent: Vec<Instant> = Vec::new();
    let run = std::process::id();
    for number in 0..count {
        let ask = world.data.marked(
            number,
            &format!("marked.{run}.{number}"),
            &format!("mark-{number:08}"),
        );
        let next = Instant::now() + PERIOD;
        sent.push(Instant::now());
        connection.must(&ask).await?;
        tokio::time::sleep_until(next.into()).await;
    }
    let mut first: HashMap<(usize, usize), f64> = HashMap::new();
    while first.len() < count * watches.len() {
        let next = tokio::time::timeout(Duration::from_secs(10), seen.recv());
        let (watch, mark, at): (usize, usize, Instant) = next
            .await
            .context("not every Event was seen by every watch")?
            .context("no watch is left")?;
        if let Some(sent) = sent.get(mark) {
            let latency = at.saturating_duration_since(*sent).as_secs_f64();
            first.entry((watch, mark)).or_insert(latency);
        }
    }
    for task in tasks {
        task.abort();
    }
    let mut table = Table::new(
        format!("From the creation of an Event ({count} of them, 20 a second) to the watcher"),
        &["watch", "p50", "p90", "p99", "most"],
    );
    let of = |watch: usize| -> Samples {
        (0..count)
            .filter_map(|mark| first.get(&(watch, mark)).copied())
            .collect()
    };
    let mut row = |name: &str, samples: &Samples| {
        let at = |percent| seconds(samples.percentile(percent));
        table.row([name.to_owned(), at(50.0), at(90.0), at(99.0), at(100.0)]);
    };
    for (number, (name, ..)) in watches.iter().enumerate() {
        row(name, &of(number));
    }
    let added: Samples = (0..count)
        .filter_map(|mark| Some((first.get(&(1, mark))? - first.get(&(0, mark))?).max(0.0)))
        .collect();
    row("added by Joinery, Event by Event", &added);
    Ok(Report {
        tables: vec![table],
        plots: Vec::new(),
    })
}

/// A watch from the present on.
async fn open(target: &Target, path: &str) -> Result<Lines> {
    let version = newest(target, path).await?;
    let path = format!("{path}&resourceVersion={version}");
    target.connect().await?.watch(&path).await
}

/// The present version of what a watch's path is about.
pub(super) async fn newest(target: &Target, watch: &str) -> Result<String> {
    let path = watch.replacen("watch=true", "limit=1", 1);
    let body = target.connect().await?.must(&Ask::get(path, JSON)).await?;
    let list: Value = serde_json::from_slice(&body)?;
    let version = list.pointer("/metadata/resourceVersion");
    let version = version.and_then(Value::as_str);
    Ok(version.context("a list has no version")?.to_owned())
}

/// Reports the last mark of each frame.
async fn follow(
    watch: usize,
    mut lines: Lines,
    seen: mpsc::UnboundedSender<(usize, usize, Instant)>,
) -> Result<()> {
    while let Some(line) = lines.next().await? {
        let at = Instant::now();
        let found = line.windows(MARK.len()).rposition(|w| w == MARK);
        let digits = found.and_then(|start| line.get(start + MARK.len()..start + MARK.len() + 8));
        let mark = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| digits.parse().ok());
        if let Some(mark) = mark {
            // Nobody listens any more once all has been seen.
            let _ = seen.send((watch, mark, at));
        }
    }
    Ok(())
}
