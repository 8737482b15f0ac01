//! What resource versions promise, as a model: clients list, watch, are cut off and come back on another replica, while
//! the sources reach the replicas in different interleavings. In the end each knows the truth, or was told to list again.

use joinery_object::{GroupVersionResource, ResourceVersion};
use joinery_source::testing::MemoryUpstream;
use joinery_view::{Reach, ResumeError};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::time::Duration;

use crate::client::{Client, Watch};
use crate::joins::{NativeJoin, Shows, events, logs, shared, tasks};
use crate::same::change;
use crate::world::{Host, run, upstream};

/// How a version tells what a client has seen.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scheme {
    /// The view's own.
    Positions,
    /// The planted fault: the highest version of any source, as if all up to it had been seen.
    Max,
}

impl Scheme {
    fn seen(self, version: &ResourceVersion) -> ResourceVersion {
        match self {
            Self::Positions => version.clone(),
            Self::Max => {
                let positions = version.positions();
                let max = positions.iter().max().copied().unwrap();
                ResourceVersion::of_positions(&vec![max; positions.len()])
            }
        }
    }

    async fn reached(self, host: &Host, version: &ResourceVersion) -> bool {
        match self {
            Self::Positions => {
                let patience = Duration::from_millis(100);
                host.view.wait_for(version, patience).await
            }
            Self::Max => self.seen(&host.view.snapshot().version).covers(version),
        }
    }
}

#[derive(Clone, Copy)]
struct Setting {
    join: fn() -> NativeJoin,
    counters: [usize; 3],
    scheme: Scheme,
}

#[derive(Default, Debug)]
struct Outcome {
    lost: bool,
    resumed: usize,
    relisted: usize,
}

struct Reader {
    client: Client,
    watch: Option<(usize, Watch)>,
}

struct Model {
    setting: Setting,
    random: StdRng,
    upstream: MemoryUpstream,
    hosts: Vec<Host>,
    readers: Vec<Reader>,
    outcome: Outcome,
}

impl Model {
    async fn new(setting: Setting, seed: u64) -> Self {
        let upstream = upstream(setting.counters);
        let mut random = StdRng::seed_from_u64(seed);
        for _ in 0..10 {
            change(&upstream, random.random());
        }
        let mut model = Self {
            setting,
            random,
            upstream,
            hosts: Vec::new(),
            readers: Vec::new(),
            outcome: Outcome::default(),
        };
        for _ in 0..2 {
            let host = model.host().await;
            model.hosts.push(host);
        }
        for _ in 0..3 {
            let reader = model.list();
            model.readers.push(reader);
        }
        model
    }

    async fn host(&self) -> Host {
        Host::start(&self.upstream, shared((self.setting.join)())).await
    }

    fn any(&mut self, count: usize) -> usize {
        self.random.random_range(0..count)
    }

    fn list(&mut self) -> Reader {
        let host = self.any(2);
        let mut client = Client::list(&self.hosts[host].view);
        client.version = Some(self.setting.scheme.seen(client.version.as_ref().unwrap()));
        Reader {
            client,
            watch: None,
        }
    }

    fn resource(&mut self) -> GroupVersionResource {
        [tasks(), events(), logs()][self.any(3)].clone()
    }

    async fn step(&mut self) {
        let (host, gvr) = (self.any(2), self.resource());
        match self.any(100) {
            0..35 => change(&self.upstream, self.random.random()),
            35..50 => {
                let messages = 1 + self.any(3);
                self.hosts[host].upstream.let_through(&gvr, messages);
            }
            50..56 => self.hosts[host].upstream.hold(&gvr),
            56..60 => self.hosts[host].upstream.release(&gvr),
            60..62 => self.upstream.bookmark(&gvr),
            62..64 => self.hosts[host].upstream.break_streams(),
            64 if self.any(3) == 0 => self.upstream.compact(&gvr),
            65 => {
                // Its streams end with it.
                for reader in &mut self.readers {
                    reader.watch = reader.watch.take().filter(|(on, _)| *on != host);
                }
                self.hosts[host] = self.host().await;
            }
            _ => self.read().await,
        }
        for _ in 0..self.any(12) {
            tokio::task::yield_now().await;
        }
    }

    async fn read(&mut self) {
        let index = self.any(self.readers.len());
        let (host, most, what) = (self.any(2), 1 + self.any(4), self.any(10));
        let scheme = self.setting.scheme;
        let reader = &mut self.readers[index];
        match &mut reader.watch {
            Some((_, watch)) => {
                let goes_on = match what {
                    0..6 => reader.client.read(watch, most),
                    6 => reader.client.read_all(watch),
                    _ => {
                        reader.watch = None;
                        return;
                    }
                };
                if !goes_on {
                    self.outcome.relisted += 1;
                    self.readers[index] = self.list();
                    return;
                }
                let version = reader.client.version.as_ref().unwrap();
                reader.client.version = Some(scheme.seen(version));
            }
            None => {
                let version = reader.client.version.clone().unwrap();
                if scheme.reached(&self.hosts[host], &version).await {
                    self.resume(index, host).await;
                }
            }
        }
    }

    async fn resume(&mut self, index: usize, host: usize) {
        let watch = self.readers[index]
            .client
            .watch(&self.hosts[host].view)
            .await;
        match watch {
            Ok(watch) => {
                self.outcome.resumed += 1;
                self.readers[index].watch = Some((host, watch));
            }
            Err(ResumeError::TooOld(_)) => {
                self.outcome.relisted += 1;
                self.readers[index] = self.list();
            }
            Err(ResumeError::Upstream(_) | ResumeError::Suspended) => {}
        }
    }

    /// Everything arrives in the end, and everybody reads it.
    async fn end(mut self) -> Outcome {
        for host in &self.hosts {
            for gvr in [tasks(), events(), logs()] {
                host.upstream.release(&gvr);
            }
        }
        for host in &self.hosts {
            host.settle().await;
        }
        let truth = self.hosts[0].truth().await;
        assert_eq!(self.hosts[0].shown(), truth);
        assert_eq!(self.hosts[1].shown(), truth);
        for index in 0..self.readers.len() {
            if self.readers[index].watch.is_none() {
                let host = self.any(2);
                self.resume(index, host).await;
            }
            let reader = &mut self.readers[index];
            if let Some((_, watch)) = &mut reader.watch
                && !reader.client.read(watch, usize::MAX)
            {
                self.outcome.relisted += 1;
                self.readers[index] = self.list();
            }
            let reader = &self.readers[index];
            self.outcome.lost |= reader.client.known() != truth;
        }
        self.outcome
    }
}

fn explore(setting: Setting, seed: u64) -> Outcome {
    run(async {
        let mut model = Model::new(setting, seed).await;
        for _ in 0..120 {
            model.step().await;
        }
        model.end().await
    })
}

fn nothing_is_lost(setting: Setting, seeds: u64) {
    let mut resumed = 0;
    let mut relisted = 0;
    for seed in 0..seeds {
        let outcome = explore(setting, seed);
        assert!(!outcome.lost, "seed {seed}: {outcome:?}");
        resumed += outcome.resumed;
        relisted += outcome.relisted;
    }
    println!("{resumed} watches resumed, {relisted} times listed again");
    assert!(
        resumed > 20 * relisted.max(1) / 10,
        "mostly 410: {resumed} to {relisted}"
    );
}

/// Each is a run of its own.
fn seeds() -> u64 {
    match std::env::var("JOINERY_TEST_FULL").is_ok_and(|value| value == "1") {
        true => 8000,
        false => 400,
    }
}

#[test]
fn with_one_etcd_nothing_is_lost_between_replicas() {
    nothing_is_lost(
        Setting {
            join: || NativeJoin::task_events(1000),
            counters: [0, 0, 0],
            scheme: Scheme::Positions,
        },
        seeds(),
    );
}

#[test]
fn with_an_etcd_for_each_source_nothing_is_lost_between_replicas() {
    nothing_is_lost(
        Setting {
            join: NativeJoin::task_event_logs,
            counters: [0, 1, 2],
            scheme: Scheme::Positions,
        },
        seeds(),
    );
}

#[test]
fn of_a_view_that_hides_most_changes_nothing_is_lost_between_replicas() {
    nothing_is_lost(
        Setting {
            join: || NativeJoin::task_event_logs().showing(Shows::Names),
            counters: [0, 0, 0],
            scheme: Scheme::Positions,
        },
        seeds(),
    );
}

#[test]
fn of_a_view_with_n_to_m_relations_nothing_is_lost_between_replicas() {
    nothing_is_lost(
        Setting {
            join: || NativeJoin::task_logs(Reach::AnyNamespace).showing(Shows::Names),
            counters: [0, 1, 1],
            scheme: Scheme::Positions,
        },
        seeds(),
    );
}

#[test]
fn the_model_finds_what_the_highest_source_version_loses() {
    let setting = Setting {
        join: || NativeJoin::task_events(1000),
        counters: [0, 0, 0],
        scheme: Scheme::Max,
    };
    let lost = (0..seeds()).find(|seed| explore(setting, *seed).lost);
    assert!(lost.is_some(), "the planted fault is not found");
}
