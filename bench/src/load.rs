//! Rounds of one request, by several clients at once.

use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::try_join_all;

use crate::client::{Ask, Target};
use crate::process::{Cpu, Measured};
use crate::stats::Samples;

/// Who is asked, and which processes work for it.
#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) target: Target,
    pub(crate) ask: Ask,
    pub(crate) processes: Vec<Measured>,
    pub(crate) ours: bool,
}

/// What the rounds of one subject came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rounds {
    /// Seconds until the whole answer was there, of all requests.
    pub(crate) latency: Samples,
    /// Seconds until the head of the answer.
    pub(crate) head: Samples,
    /// Processor seconds a request, of all processes together; one sample a round.
    pub(crate) cpu: Samples,
    /// The same of each process.
    pub(crate) cpu_of: Vec<Samples>,
    /// Requests a second; one sample a round.
    pub(crate) rate: Samples,
    /// Most resident memory of each process in any round.
    pub(crate) peak: Vec<f64>,
    /// Bytes of an answer.
    pub(crate) bytes: usize,
}

/// How long a round is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Requests begin for so long, at least one a client.
    pub(crate) time: Duration,
    /// And at most so many a client.
    pub(crate) requests: usize,
}

/// One round: `clients` connections, each with one request after the other.
pub(crate) async fn round(
    subject: &Subject,
    clients: usize,
    budget: Budget,
    into: &mut Rounds,
) -> Result<()> {
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(subject.target.connect().await?);
    }
    for process in &subject.processes {
        process.forget_peak()?;
    }
    let cpu = Cpu::start(&subject.processes)?;
    let start = Instant::now();
    let results = try_join_all(connections.into_iter().map(|mut connection| {
        let ask = subject.ask.clone();
        let work = tokio::spawn(async move {
            let mut took = Vec::new();
            loop {
                took.push(connection.time(&ask).await?);
                if start.elapsed() >= budget.time || took.len() >= budget.requests {
                    return Ok::<_, anyhow::Error>(took);
                }
            }
        });
        async { work.await? }
    }))
    .await?;
    let elapsed = start.elapsed().as_secs_f64();
    // What is done after the last byte, such as freeing, is part of the work.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let spent = cpu.spent()?;
    let all: Vec<_> = results.into_iter().flatten().collect();
    let count = all.len() as f64;
    into.rate.push(count / elapsed);
    into.cpu.push(spent.iter().sum::<f64>() / count);
    into.cpu_of.resize_with(spent.len(), Samples::default);
    for (samples, spent) in into.cpu_of.iter_mut().zip(spent) {
        samples.push(spent / count);
    }
    into.peak.resize(subject.processes.len(), 0.0);
    for (peak, process) in into.peak.iter_mut().zip(&subject.processes) {
        *peak = peak.max(process.peak()?);
    }
    into.bytes = all.last().map_or(0, |took| took.bytes);
    into.latency.extend(all.iter().map(|took| took.whole));
    into.head.extend(all.iter().map(|took| took.head));
    Ok(())
}

/// Several rounds of all subjects, in turn, after one request of each that is not counted.
pub(crate) async fn in_turn(
    subjects: &[Subject],
    clients: usize,
    rounds: usize,
    budget: Budget,
) -> Result<Vec<Rounds>> {
    let mut results = vec![Rounds::default(); subjects.len()];
    for subject in subjects {
        let once = Budget {
            time: Duration::ZERO,
            requests: 1,
        };
        round(subject, 1, once, &mut Rounds::default()).await?;
    }
    for _ in 0..rounds {
        for (subject, result) in subjects.iter().zip(&mut results) {
            round(subject, clients, budget, result).await?;
        }
    }
    Ok(results)
}
