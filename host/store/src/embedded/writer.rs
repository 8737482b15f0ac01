//! The one thread that changes the store.
//!
//! It takes all transactions that wait, evaluates their guards in order, each against what the
//! ones before it made, writes what passed as one durable batch, publishes the new state, and
//! then answers all of them. While a batch is on its way to the disk the next ones gather: the
//! longer the disk takes, the larger the batch.

use super::layout::Layout;
use super::log::Log;
use super::state::{Commit, State};
use super::{OpenError, Options, Shared};
use crate::{Committed, Guard, Op, StoreError, TxnError};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{oneshot, watch};

/// The most commands in one batch: bounds how long the first of them waits for the last.
const MAX_BATCH: usize = 1024;
/// The most bytes put in one batch, with the same aim.
const MAX_BATCH_BYTES: usize = 8 << 20;
/// History is cut back when it is over its bound by one part in this many, for cutting at each
/// commit would double what is written.
const SLACK: usize = 10;
/// Between two looks whether a disk that was full has room again.
const RETRY: Duration = Duration::from_secs(1);

/// Why nothing can be written.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) error: StoreError,
    /// Whether the writer tries again by itself.
    pub(super) passing: bool,
}

/// What the writer is asked to do.
pub(super) enum Command {
    /// See [`crate::Store::txn`].
    Txn {
        ops: Vec<Op>,
        guards: Vec<Guard>,
        reply: oneshot::Sender<Result<Committed, TxnError>>,
    },
    /// See [`crate::Store::compact`].
    Compact {
        revision: u64,
        reply: oneshot::Sender<Result<(), StoreError>>,
    },
}

impl Command {
    fn bytes(&self) -> usize {
        match self {
            Self::Txn { ops, .. } => ops
                .iter()
                .map(|op| match op {
                    Op::Put { value, .. } => value.len(),
                    Op::Delete { .. } | Op::DeleteRange { .. } => 0,
                })
                .sum(),
            Self::Compact { .. } => 0,
        }
    }
}

/// An outcome that may be told once the batch is durable.
enum Reply {
    Txn(
        oneshot::Sender<Result<Committed, TxnError>>,
        Result<Committed, TxnError>,
    ),
    Compact(
        oneshot::Sender<Result<(), StoreError>>,
        Result<(), StoreError>,
    ),
}

impl Reply {
    // That nobody waits any more is no failure: the caller was cancelled.
    fn send(self) {
        match self {
            Self::Txn(to, outcome) => drop(to.send(outcome)),
            Self::Compact(to, outcome) => drop(to.send(outcome)),
        }
    }

    fn send_failure(self, error: &StoreError) {
        match self {
            Self::Txn(to, _) => drop(to.send(Err(error.clone().into()))),
            Self::Compact(to, _) => drop(to.send(Err(error.clone()))),
        }
    }
}

/// The writer's side of the store.
pub(super) struct Writer {
    pub(super) commands: Receiver<Command>,
    pub(super) layout: Arc<Layout>,
    /// None after a failure.
    pub(super) log: Option<Log>,
    pub(super) state: State,
    pub(super) shared: Arc<Shared>,
    /// Dropped with the writer, which ends all watches.
    pub(super) published: watch::Sender<u64>,
    pub(super) options: Options,
    /// When a write was last tried after one had failed.
    pub(super) tried: Instant,
}

impl Writer {
    /// Works until the store is closed.
    pub(super) fn run(mut self) {
        while let Some(commands) = self.next_batch() {
            self.recover();
            self.process(commands);
        }
    }

    /// All commands that wait. Empty when history has grown too old meanwhile; none when the
    /// store is closed.
    fn next_batch(&self) -> Option<Vec<Command>> {
        let first = match self.until_expiry() {
            None => self.commands.recv().ok()?,
            Some(wait) => match self.commands.recv_timeout(wait) {
                Ok(command) => command,
                Err(RecvTimeoutError::Timeout) => return Some(Vec::new()),
                Err(RecvTimeoutError::Disconnected) => return None,
            },
        };
        let mut bytes = first.bytes();
        let mut batch = vec![first];
        while batch.len() < MAX_BATCH
            && bytes < MAX_BATCH_BYTES
            && let Ok(command) = self.commands.try_recv()
        {
            bytes += command.bytes();
            batch.push(command);
        }
        Some(batch)
    }

    fn process(&mut self, commands: Vec<Command>) {
        let mut next = self.state.clone();
        let mut floor = self.state.floor;
        let now = self.now();
        let mut replies = Vec::with_capacity(commands.len());
        for command in commands {
            replies.push(match command {
                Command::Txn { ops, guards, reply } => {
                    let outcome = next.check(&guards).map(|()| next.apply(ops, now));
                    Reply::Txn(reply, outcome)
                }
                Command::Compact { revision, reply } => {
                    // Against the published state: a batch must not remove what it inserts.
                    let outcome = if revision > self.state.revision {
                        self.state.readable(revision).map(drop)
                    } else {
                        floor = floor.max(revision);
                        Ok(())
                    };
                    Reply::Compact(reply, outcome)
                }
            });
        }
        floor = floor.max(self.floor_by_policy(now));
        match self.commit(next, floor) {
            Ok(()) => replies.into_iter().for_each(Reply::send),
            Err(error) => replies
                .into_iter()
                .for_each(|reply| reply.send_failure(&error)),
        }
    }

    /// Makes `next`, compacted to `floor`, durable and visible.
    fn commit(&mut self, mut next: State, floor: u64) -> Result<(), StoreError> {
        let failure = self.shared.failure.read().clone();
        if let Some(failure) = failure {
            return Err(failure.error);
        }
        let Some(log) = &mut self.log else {
            return Err(StoreError::Closed);
        };
        let commits: Vec<Arc<Commit>> = next.since(self.state.revision).cloned().collect();
        let dropped = next.compact(floor);
        if commits.is_empty() && dropped.is_empty() {
            return Ok(());
        }
        let compaction = (!dropped.is_empty()).then_some((next.floor, &dropped[..]));
        if let Err(error) = log.write(&commits, compaction) {
            tracing::error!(%error, "writing the store failed; it takes no changes for now");
            let passing = error.passing;
            let error = StoreError::Storage(Arc::new(error));
            self.fail(error.clone(), passing);
            return Err(error);
        }
        self.publish(next);
        Ok(())
    }

    fn publish(&mut self, next: State) {
        self.state = next;
        self.shared.publish(self.state.clone());
        self.published.send_replace(self.state.revision);
    }

    fn fail(&mut self, error: StoreError, passing: bool) {
        self.tried = Instant::now();
        *self.shared.failure.write() = Some(Failure { error, passing });
    }

    /// After a failure that may be over: opens the engine anew, which reads everything again, as a new
    /// process would. What failed may be there, whole: then it took place.
    fn recover(&mut self) {
        let failure = self.shared.failure.read().clone();
        let Some(failure) = failure.filter(|failure| failure.passing) else {
            return;
        };
        if self.tried.elapsed() < RETRY {
            return;
        }
        self.tried = Instant::now();
        if self.layout.try_room().is_err() {
            return;
        }
        // Closed before it is opened again.
        self.log = None;
        match Log::open(&self.layout, self.options.fsync) {
            Ok((log, state)) if state.revision >= self.state.revision => {
                self.log = Some(log);
                self.publish(state);
                *self.shared.failure.write() = None;
                tracing::info!(
                    revision = self.state.revision,
                    "the store takes changes again"
                );
            }
            Ok((_, state)) => {
                tracing::error!(
                    published = self.state.revision,
                    found = state.revision,
                    "the store has lost what was durable"
                );
                self.fail(failure.error, false);
            }
            Err(error @ OpenError::Io { .. }) => {
                tracing::warn!(error = ?error, "the store cannot be opened anew yet");
            }
            Err(error) => {
                tracing::error!(%error, "the store cannot be opened anew");
                self.fail(failure.error, false);
            }
        }
    }

    /// Milliseconds since 1970, but never before the last commit, however the clock jumps.
    fn now(&self) -> u64 {
        let clock = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| {
                u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
            });
        self.state
            .history
            .back()
            .map_or(clock, |last| clock.max(last.time))
    }

    /// Up to where history is over one of its bounds.
    fn floor_by_policy(&self, now: u64) -> u64 {
        let State {
            history, weight, ..
        } = &self.state;
        let limit = &self.options;
        let mut drop = 0;
        if history.len() > with_slack(limit.history_count) {
            drop = history.len() - limit.history_count;
        }
        if *weight > with_slack(limit.history_bytes) {
            let mut weight = *weight;
            let fit = history.iter().position(|commit| {
                let fits = weight <= limit.history_bytes;
                weight -= commit.weight();
                fits
            });
            drop = drop.max(fit.unwrap_or(history.len()));
        }
        let age = millis(limit.history_age);
        let slack = age / SLACK as u64;
        if history
            .front()
            .is_some_and(|oldest| now - oldest.time >= age + slack)
        {
            let young = history.iter().position(|commit| now - commit.time < age);
            drop = drop.max(young.unwrap_or(history.len()));
        }
        self.state.floor + drop as u64
    }

    /// How long until there is something to do unasked: the oldest commit is too old, or the disk may have room again.
    fn until_expiry(&self) -> Option<Duration> {
        if let Some(failure) = &*self.shared.failure.read() {
            return failure.passing.then_some(RETRY);
        }
        let oldest = self.state.history.front()?;
        let age = millis(self.options.history_age);
        let due = oldest.time.saturating_add(age + age / SLACK as u64);
        Some(Duration::from_millis(due.saturating_sub(self.now()).max(1)))
    }
}

fn with_slack(bound: usize) -> usize {
    bound.saturating_add(bound / SLACK)
}

fn millis(duration: Duration) -> u64 {
    // Far below the maximum, so that sums with times do not overflow.
    u64::try_from(duration.as_millis())
        .unwrap_or(u64::MAX)
        .min(u64::MAX / 4)
}
