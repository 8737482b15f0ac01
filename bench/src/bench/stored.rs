//! Stored objects: CustomTasks with their plugin's admission on the embedded store, beside a CustomResourceDefinition and the
//! sample-apiserver on etcd. All three write to the same disk, durably before they answer.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::future::try_join_all;
use joinery_e2e::{Environment, Kind, Peer};
use serde_json::{Value, json};

use super::Session;
use crate::client::{Ask, Identity, JSON, Target};
use crate::plot::{Bar, Plot};
use crate::process::{Cpu, Measured, quiet};
use crate::report::{Report, Table};
use crate::stats::{Samples, number, ratio, seconds};
use crate::world::{OURS, process};

const MERGE: &str = "application/merge-patch+json";
/// In the order in which they follow each other: each works on what the earlier ones left.
const VERBS: [&str; 6] = ["create", "get", "update", "patch", "list", "delete"];
/// Objects of a client that get, update, patch and list work on.
const OWN: usize = 20;

/// One of the three.
struct Store {
    name: &'static str,
    target: Target,
    /// Of the collection.
    path: String,
    api_version: String,
    kind: &'static str,
    spec: Value,
    changed: Value,
    processes: Vec<Measured>,
}

impl Store {
    fn object(&self, name: &str) -> Value {
        json!({
            "apiVersion": self.api_version, "kind": self.kind,
            "metadata": {"name": name, "namespace": "default"}, "spec": self.spec,
        })
    }
}

/// What one verb cost.
#[derive(Clone, Default)]
struct Cost {
    latency: Samples,
    rate: Samples,
    /// Requests a processor second of server and store together.
    per_cpu: Samples,
}

pub(super) async fn run(session: &mut Session) -> Result<Report> {
    let environment =
        Environment::start_to_measure(&session.workspace, Kind::Cluster, "bench-stored")?;
    let identity = Identity::of(environment.kubectl(), &[environment.direct()])?;
    let (stores, _sample) = stores(&environment, &identity).await?;
    let fsync = fsync_rate(&environment, session.quick)?;
    let span = Duration::from_millis(if session.quick { 100 } else { 2000 });
    let rounds = session.rounds.min(3);
    let mut report = Report::default();
    for clients in [1, if session.quick { 4 } else { 64 }] {
        let mut costs = vec![vec![Cost::default(); VERBS.len()]; stores.len()];
        for number in 0..rounds {
            for (store, costs) in stores.iter().zip(&mut costs) {
                let all: Vec<Measured> = stores.iter().flat_map(|s| s.processes.clone()).collect();
                quiet(&all).await?;
                one_round(store, clients, number, span, costs).await?;
            }
        }
        report.tables.push(table(&stores, &costs, clients, fsync));
        report.plots.push(plot(&stores, &costs, clients));
    }
    Ok(report)
}

async fn stores(
    environment: &Environment,
    identity: &Identity,
) -> Result<(Vec<Store>, Option<Peer>)> {
    environment
        .kubectl()
        .run_with_input(["apply", "-f", "-"], &crd().to_string())?;
    environment.kubectl().run([
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        "crd/customtasks.bench.example.com",
    ])?;
    let etcd = process(environment, "etcd")?;
    let spec = json!({
        "priority": 5, "deadline": "2097-11-11T11:11:11Z", "taskState": "Pending",
        "details": "Write the runbook for a full disk: what to look at first, what may be deleted, whom to wake.",
    });
    let mut changed = spec.clone();
    changed["priority"] = 6.into();
    let bench = "bench.example.com/v1";
    let mut stores = vec![
        Store {
            name: "Joinery, CustomTask",
            target: identity.target(environment.url()),
            path: format!("{OURS}/namespaces/default/customtasks"),
            api_version: "aggregated.tasks.example.com/v1".to_owned(),
            kind: "CustomTask",
            spec: spec.clone(),
            changed: changed.clone(),
            processes: vec![process(environment, "joinery")?],
        },
        Store {
            name: "kube-apiserver, CRD",
            target: identity.own(),
            path: format!("/apis/{bench}/namespaces/default/customtasks"),
            api_version: bench.to_owned(),
            kind: "CustomTask",
            spec,
            changed,
            processes: vec![process(environment, "kube-apiserver")?, etcd.clone()],
        },
    ];
    let Some(peer) = environment.sample_apiserver()? else {
        return Ok((stores, None));
    };
    let wardle = "wardle.example.com/v1alpha1";
    let sample = Store {
        name: "sample-apiserver, Flunder",
        target: identity.target(&peer.url()),
        path: format!("/apis/{wardle}/namespaces/default/flunders"),
        api_version: wardle.to_owned(),
        kind: "Flunder",
        spec: json!({"reference": "some-fischer", "referenceType": "Fischer"}),
        changed: json!({"reference": "another-fischer", "referenceType": "Fischer"}),
        processes: vec![Measured::new("sample-apiserver", peer.id()), etcd],
    };
    wait_for(&sample, &peer).await?;
    stores.push(sample);
    Ok((stores, Some(peer)))
}

async fn wait_for(store: &Store, peer: &Peer) -> Result<()> {
    let mut last = String::new();
    for _ in 0..120 {
        peer.check()?;
        let answer = async {
            let mut connection = store.target.connect().await?;
            connection.must(&Ask::get(&store.path, JSON)).await
        };
        match answer.await {
            Ok(_) => return Ok(()),
            Err(error) => last = format!("{error:#}"),
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    anyhow::bail!("{} does not answer: {last}", store.name)
}

/// All verbs once, with objects of this round's own.
async fn one_round(
    store: &Store,
    clients: usize,
    number: usize,
    span: Duration,
    costs: &mut [Cost],
) -> Result<()> {
    let mut workers = Vec::new();
    for client in 0..clients {
        workers.push(Worker {
            connection: store.target.connect().await?,
            path: store.path.as_str().into(),
            prefix: format!("r{number}-c{clients}-{client}"),
            body: store.object("NAME").to_string().into(),
            changed: store.changed.clone(),
            made: Vec::new(),
            at: 0,
        });
    }
    for (verb, cost) in VERBS.iter().zip(costs) {
        let cpu = Cpu::start(&store.processes)?;
        let start = Instant::now();
        let work = workers.into_iter().map(|mut worker| {
            let work = tokio::spawn(async move {
                let mut took = Vec::new();
                while let Some(seconds) = worker.step(verb).await? {
                    took.push(seconds);
                    if start.elapsed() >= span {
                        break;
                    }
                }
                Ok::<_, anyhow::Error>((worker, took))
            });
            async { work.await? }
        });
        let done = try_join_all(work).await?;
        let elapsed = start.elapsed().as_secs_f64();
        let spent: f64 = cpu.spent()?.iter().sum();
        let count = done.iter().map(|(_, took)| took.len()).sum::<usize>() as f64;
        ensure!(count > 0.0, "{}: no {verb} was done", store.name);
        workers = Vec::new();
        for (worker, took) in done {
            workers.push(worker);
            cost.latency.extend(took);
        }
        cost.rate.push(count / elapsed);
        // A tick at least: shorter rounds say nothing.
        cost.per_cpu.push(count / spent.max(0.01));
    }
    // What the time did not suffice for.
    for worker in &mut workers {
        while worker.step("delete").await?.is_some() {}
    }
    Ok(())
}

/// One client and its objects.
struct Worker {
    connection: crate::client::Connection,
    path: Arc<str>,
    prefix: String,
    body: Arc<str>,
    changed: Value,
    /// Names, and the last state of each that get and update have seen.
    made: Vec<(String, Bytes)>,
    at: usize,
}

impl Worker {
    /// One request; none when there is nothing left to do.
    async fn step(&mut self, verb: &str) -> Result<Option<f64>> {
        let path = |name: &str| format!("{}/{name}", self.path);
        if verb == "create" {
            let name = format!("{}-{}", self.prefix, self.made.len());
            let body = self.body.replacen("NAME", &name, 1);
            let ask = Ask::write("POST", &*self.path, JSON, body);
            let (took, answer) = self.send(&ask).await?;
            self.made.push((name, answer));
            return Ok(Some(took));
        }
        if verb == "delete" {
            let Some((name, _)) = self.made.pop() else {
                return Ok(None);
            };
            let ask = Ask::write("DELETE", path(&name), "", Bytes::new());
            return Ok(Some(self.send(&ask).await?.0));
        }
        self.at = (self.at + 1) % self.made.len().min(OWN);
        let (name, last) = &self.made[self.at];
        let ask = match verb {
            "get" => Ask::get(path(name), JSON),
            "list" => Ask::get(format!("{}?limit=100", self.path), JSON),
            "patch" => {
                let patch = json!({"metadata": {"labels": {"turn": self.at.to_string()}}, "spec": self.changed});
                Ask::write("PATCH", path(name), MERGE, patch.to_string())
            }
            _ => {
                // A real change each time, from the state that was read last.
                let mut object: Value = serde_json::from_slice(last)?;
                let turn = object.pointer("/metadata/annotations/turn");
                let turn = turn
                    .and_then(Value::as_str)
                    .and_then(|t| t.parse::<u64>().ok());
                object["metadata"]["annotations"] =
                    json!({"turn": (turn.unwrap_or(0) + 1).to_string()});
                Ask::write("PUT", path(name), JSON, object.to_string())
            }
        };
        let (took, answer) = self.send(&ask).await?;
        if verb != "list" {
            self.made[self.at].1 = answer;
        }
        Ok(Some(took))
    }

    async fn send(&mut self, ask: &Ask) -> Result<(f64, Bytes)> {
        let start = Instant::now();
        let answer = self.connection.must(ask).await?;
        Ok((start.elapsed().as_secs_f64(), answer))
    }
}

fn table(stores: &[Store], costs: &[Vec<Cost>], clients: usize, fsync: f64) -> Table {
    let mut table = Table::new(
        format!(
            "{clients} client(s); the disk does {} single fsyncs of 2 kB a second",
            number(fsync)
        ),
        &[
            "verb",
            "server",
            "p50",
            "p99",
            "requests a second",
            "of the fsync rate",
            "requests a CPU second",
            "Joinery's beside it",
        ],
    );
    for (at, verb) in VERBS.iter().enumerate() {
        for (store, costs_of) in stores.iter().zip(costs) {
            let (cost, ours) = (&costs_of[at], &costs[0][at]);
            let writes = !matches!(*verb, "get" | "list");
            table.row([
                (*verb).to_owned(),
                store.name.to_owned(),
                seconds(cost.latency.median()),
                seconds(cost.latency.percentile(99.0)),
                cost.rate.spread(number),
                if writes {
                    ratio(cost.rate.median() / fsync)
                } else {
                    "–".to_owned()
                },
                cost.per_cpu.spread(number),
                ratio(ours.per_cpu.median() / cost.per_cpu.median()),
            ]);
        }
    }
    table
}

fn plot(stores: &[Store], costs: &[Vec<Cost>], clients: usize) -> Plot {
    let groups = VERBS.iter().enumerate().map(|(at, verb)| {
        let bars = stores.iter().zip(costs).map(|(store, costs)| {
            let samples = &costs[at].per_cpu;
            Bar {
                name: store.name.to_owned(),
                median: samples.median(),
                least: samples.min(),
                most: samples.max(),
                shown: number(samples.median()),
                ours: store.name.starts_with("Joinery"),
            }
        });
        ((*verb).to_owned(), bars.collect())
    });
    Plot {
        file: format!("stored-{clients}"),
        title: format!("Requests a CPU second of server and store, {clients} client(s)"),
        groups: groups.collect(),
    }
}

/// How often the disk can take 2 kB and say that it has them, one after the other.
fn fsync_rate(environment: &Environment, quick: bool) -> Result<f64> {
    let path = environment.run_dir().path().join("data/fsync");
    let mut file = std::fs::File::create(&path).context("cannot write to the run's folder")?;
    let span = Duration::from_millis(if quick { 100 } else { 2000 });
    let (start, mut count, block) = (Instant::now(), 0_u32, [7_u8; 2048]);
    while start.elapsed() < span {
        file.write_all(&block)?;
        file.sync_data()?;
        count += 1;
    }
    let rate = f64::from(count) / start.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(rate)
}

/// A CustomTask as a CustomResourceDefinition: the same fields and bounds.
fn crd() -> Value {
    let spec = json!({
        "type": "object",
        "properties": {
            "priority": {"type": "integer", "minimum": 0, "maximum": 10},
            "details": {"type": "string", "maxLength": 4096},
            "deadline": {"type": "string", "format": "date-time"},
            "taskState": {"type": "string", "enum": ["Pending", "Finished"]},
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "customtasks.bench.example.com"},
        "spec": {
            "group": "bench.example.com", "scope": "Namespaced",
            "names": {"kind": "CustomTask", "listKind": "CustomTaskList", "plural": "customtasks", "singular": "customtask"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "required": ["spec"],
                    "properties": {
                        "spec": spec,
                        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    },
                }},
            }],
        },
    })
}
