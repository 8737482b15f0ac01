//! One change, a thousand watchers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::try_join_all;
use tokio::task::JoinHandle;

use super::Session;
use super::watch::newest;
use crate::client::{Connection, Lines, Target};
use crate::data::Data;
use crate::process::{Cpu, Measured, quiet};
use crate::report::{Report, Table};
use crate::stats::{bytes, number};
use crate::world::{OURS, World};

const WATCHERS: usize = 1000;
/// Watches that share a connection, as kube-apiserver's clients do behind the aggregator.
const SHARED: usize = 100;
/// Changes a second, until what is delivered falls behind.
const RATES: [u32; 5] = [20, 40, 80, 160, 320];

/// Watchers, and what they have been told.
struct Watchers {
    tasks: Vec<JoinHandle<Result<()>>>,
    frames: Arc<AtomicUsize>,
    bytes: Arc<AtomicUsize>,
    /// Those whose watch has ended.
    ended: Arc<AtomicUsize>,
}

impl Watchers {
    async fn open(target: &Target, count: usize, shared: usize) -> Result<Watchers> {
        let path = format!("{OURS}/namespaces/default/combinedtasks?watch=true");
        // The version to begin with is asked for once.
        let path = format!("{path}&resourceVersion={}", newest(target, &path).await?);
        let groups = (0..count.div_ceil(shared)).map(|group| {
            let (target, path) = (target.clone(), path.clone());
            async move {
                let mut connection = target.connect().await?;
                let mut lines = Vec::new();
                for _ in 0..shared.min(count - group * shared) {
                    lines.push(connection.watch(&path).await?);
                }
                Ok::<_, anyhow::Error>((Arc::new(connection), lines))
            }
        });
        let mut watchers = Watchers {
            tasks: Vec::new(),
            frames: Arc::default(),
            bytes: Arc::default(),
            ended: Arc::default(),
        };
        for (connection, lines) in try_join_all(groups).await? {
            for lines in lines {
                watchers.follow(connection.clone(), lines);
            }
        }
        Ok(watchers)
    }

    fn follow(&mut self, connection: Arc<Connection>, mut lines: Lines) {
        let (frames, bytes, ended) = (self.frames.clone(), self.bytes.clone(), self.ended.clone());
        self.tasks.push(tokio::spawn(async move {
            while let Ok(Some((count, size))) = lines.count().await {
                frames.fetch_add(count, Relaxed);
                bytes.fetch_add(size, Relaxed);
            }
            ended.fetch_add(1, Relaxed);
            drop(connection);
            Ok(())
        }));
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

pub(super) async fn run(session: &mut Session) -> Result<Report> {
    let quick = session.quick;
    let world = session.world().await?;
    let (count, shared) = if quick { (20, 5) } else { (WATCHERS, SHARED) };
    let rates = if quick { &RATES[..1] } else { &RATES[..] };
    let span = Duration::from_secs(if quick { 1 } else { 5 });
    let mut tables = Vec::new();
    for (title, shared) in [
        (
            format!("{count} watchers on {} connections", count / shared),
            shared,
        ),
        (
            format!("{count} watchers, each on a connection of its own"),
            1,
        ),
    ] {
        tables.push(saturate(world, &title, count, shared, rates, span).await?);
    }
    Ok(Report {
        tables,
        plots: Vec::new(),
    })
}

async fn saturate(
    world: &World,
    title: &str,
    count: usize,
    shared: usize,
    rates: &[u32],
    span: Duration,
) -> Result<Table> {
    let joinery = world.joinery()?;
    let processes = [joinery.clone(), Measured::own()];
    quiet(&world.everything()?).await?;
    let before = joinery.resident()?;
    let watchers = Watchers::open(&world.direct(), count, shared).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let held = (joinery.resident()? - before) / count as f64;
    let mut table = Table::new(
        format!(
            "{title}; {} of memory a watch that waits",
            bytes(held.max(0.0))
        ),
        &[
            "changes a second",
            "deliveries wanted",
            "deliveries a second",
            "bytes a second",
            "bytes each",
            "until the last",
            "CPU of Joinery, cores",
            "CPU of the clients, cores",
            "memory a watch",
            "watches ended",
        ],
    );
    for rate in rates {
        let cpu = Cpu::start(&processes)?;
        let (frames, size) = (watchers.frames.load(Relaxed), watchers.bytes.load(Relaxed));
        let start = Instant::now();
        let sent = change(&world.data, &world.apiserver(), *rate, span).await?;
        let all_sent = start.elapsed();
        let wanted = frames + sent * count;
        // What has been put together of one object is one delivery less, so silence too is an end.
        let (mut last, mut last_at) = (0, Instant::now());
        loop {
            let now = watchers.frames.load(Relaxed);
            if now >= wanted || last_at.elapsed() > Duration::from_secs(2) {
                break;
            }
            if now != last {
                (last, last_at) = (now, Instant::now());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let elapsed = if watchers.frames.load(Relaxed) >= wanted {
            start.elapsed()
        } else {
            last_at.duration_since(start)
        };
        let spent = cpu.spent()?;
        let delivered = watchers.frames.load(Relaxed) - frames;
        let moved = (watchers.bytes.load(Relaxed) - size) as f64;
        let took = elapsed.as_secs_f64();
        table.row([
            number(sent as f64 / all_sent.as_secs_f64()),
            (sent * count).to_string(),
            format!(
                "{} ({:.1} %)",
                number(delivered as f64 / took),
                100.0 * delivered as f64 / (sent * count) as f64
            ),
            bytes(moved / took),
            bytes(moved / delivered.max(1) as f64),
            format!(
                "{:.2} s after the last change",
                took - all_sent.as_secs_f64()
            ),
            number(spent[0] / took),
            number(spent[1] / took),
            bytes(((joinery.resident()? - before) / count as f64).max(0.0)),
            watchers.ended.load(Relaxed).to_string(),
        ]);
        if took > all_sent.as_secs_f64() * 1.5 {
            break;
        }
    }
    Ok(table)
}

/// Creates Events at a rate, each of another Task; gives how many.
async fn change(data: &Data, target: &Target, rate: u32, span: Duration) -> Result<usize> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let mut connection = target.connect().await?;
    let start = Instant::now();
    let mut sent = 0;
    while start.elapsed() < span {
        let number = NEXT.fetch_add(1, Relaxed);
        let name = format!("fan-out.{}.{number}", std::process::id());
        connection
            .must(&data.marked(number % data.len(), &name, "mark"))
            .await?;
        sent += 1;
        let due = start + Duration::from_secs_f64(sent as f64 / f64::from(rate));
        tokio::time::sleep_until(due.into()).await;
    }
    Ok(sent)
}
