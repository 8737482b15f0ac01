//! What a call of a plugin costs, in this process: with the way from a thread of the server to the guests' executor and back, and
//! without.

use std::fs;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use async_trait::async_trait;
use bytes::Bytes;
use joinery_object::{GroupVersionResource, ObjectKey, Status};
use joinery_plugin::{
    Compile, Generation, HostSettings, PluginFile, Policy, Runtime, RuntimeOptions,
};
use joinery_resource::{Lookup, LookupList, Operation, Review, User};
use joinery_view::{Branch, Group, Side};
use serde_json::json;

use super::{EVENTS, Session};
use crate::report::{Report, Table};
use crate::stats::{Samples, number, seconds};

/// Tasks of a large batch.
const BATCH: usize = 256;

struct Nothing;

#[async_trait]
impl Lookup for Nothing {
    async fn get(&self, _: &GroupVersionResource, _: &ObjectKey) -> Result<Option<Bytes>, Status> {
        Ok(None)
    }

    async fn list(
        &self,
        _: &GroupVersionResource,
        _: &LookupList,
    ) -> Result<(Vec<Bytes>, bool), Status> {
        Ok((Vec::new(), false))
    }
}

pub(super) async fn run(session: &mut Session) -> Result<Report> {
    let calls = if session.quick { 50 } else { 5000 };
    let cache = tempfile::tempdir_in(session.workspace.root().join("target"))?;
    let runtime = Runtime::new(RuntimeOptions {
        max_memory: RuntimeOptions::MAX_MEMORY,
        cache_dir: Some(cache.path().to_owned()),
        compile: Compile::Child {
            program: session.workspace.binary("joinery")?,
            args: vec!["compile".into()],
        },
        workers: None,
        policy: Policy::allow_all(),
    })?;
    let mut table = Table::new(
        "Loading and calling the bundled plugins",
        &["what", "p50", "p99", "a second", "times"],
    );
    let mut row = |what: &str, samples: &Samples| {
        table.row([
            what.to_owned(),
            seconds(samples.median()),
            seconds(samples.percentile(99.0)),
            number(1.0 / samples.median()),
            samples.len().to_string(),
        ]);
    };
    let start = Instant::now();
    let view = load(session, &runtime, "combined_tasks").await?;
    row(
        "load combined_tasks, to be compiled first",
        &[start.elapsed().as_secs_f64()].into_iter().collect(),
    );
    let mut warm = Samples::default();
    for _ in 0..session.rounds {
        let start = Instant::now();
        load(session, &runtime, "combined_tasks").await?;
        warm.push(start.elapsed().as_secs_f64());
    }
    row("load combined_tasks, compiled before", &warm);

    let resource = |plural| GroupVersionResource::new("aggregated.tasks.example.com", "v1", plural);
    let join = view
        .join(&resource("combinedtasks"))
        .context("no CombinedTasks")?;
    let event = || Bytes::from(event());
    let (mut keys, mut inside) = (Samples::default(), Samples::default());
    for _ in 0..calls {
        let (start, before) = (Instant::now(), view.stats().inside);
        join.keys(0, Side::Child, vec![event()]).await?;
        keys.push(start.elapsed().as_secs_f64());
        inside.push((view.stats().inside - before).as_secs_f64());
    }
    row("keys of one Event", &keys);
    row("of that, inside the executor", &inside);
    let group = Group {
        primary: Bytes::from(task()),
        branches: vec![Branch {
            objects: (0..EVENTS).map(|_| event()).collect(),
            parents: vec![Vec::new(); EVENTS],
            omitted: 0,
        }],
    };
    let mut one = Samples::default();
    for _ in 0..calls {
        let start = Instant::now();
        join.combine(vec![group.clone()]).await?;
        one.push(start.elapsed().as_secs_f64());
    }
    row("combine one Task of 10 Events", &one);
    let mut many = Samples::default();
    for _ in 0..calls / 50 {
        let groups = vec![group.clone(); BATCH];
        let start = Instant::now();
        join.combine(groups).await?;
        many.push(start.elapsed().as_secs_f64() / BATCH as f64);
    }
    row("the same in batches of 256, of each Task", &many);

    let custom = load(session, &runtime, "custom_task").await?;
    let admit = custom.admit();
    let (mut admissions, mut inside) = (Samples::default(), Samples::default());
    for _ in 0..calls {
        let (review, lookup) = (review(), Arc::new(Nothing));
        let (start, before) = (Instant::now(), custom.stats().inside);
        admit
            .admit(&resource("customtasks"), review, lookup)
            .await?;
        admissions.push(start.elapsed().as_secs_f64());
        inside.push((custom.stats().inside - before).as_secs_f64());
    }
    row("admission of a CustomTask", &admissions);
    row("of that, inside the executor", &inside);
    Ok(Report {
        tables: vec![table],
        plots: Vec::new(),
    })
}

async fn load(session: &Session, runtime: &Runtime, name: &str) -> Result<Arc<Generation>> {
    let guests = session.workspace.guests()?;
    let path = guests
        .iter()
        .find(|path| path.file_stem().is_some_and(|stem| stem == name))
        .with_context(|| format!("there is no plugin {name}"))?;
    let code = Bytes::from(fs::read(path)?);
    let plugin = PluginFile::new(name, code, HostSettings::default());
    Ok(runtime.load(plugin).await?)
}

const UID: &str = "8a3f4a5e-0000-4000-8000-000000000001";

/// What the guest reads of an Event.
fn event() -> String {
    json!({
        "metadata": {
            "uid": "8a3f4a5e-0000-4000-8000-0000000000e1", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"tasks.example.com/task-uid": UID},
        },
        "reason": "TaskUpdated", "lastTimestamp": "2026-01-01T00:00:00Z", "firstTimestamp": "2026-01-01T00:00:00Z",
    })
    .to_string()
}

fn task() -> String {
    json!({
        "apiVersion": "tasks.example.com/v1", "kind": "Task",
        "metadata": {
            "name": "task", "namespace": "default", "uid": UID, "resourceVersion": "41", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"tasks.example.com/team": "platform"},
        },
        "spec": {"priority": 5, "deadline": "2097-11-11T11:11:11Z", "taskState": "Pending", "details": "Write the runbook."},
        "status": {"observedGeneration": 1},
    })
    .to_string()
}

fn review() -> Review {
    let object = json!({
        "apiVersion": "aggregated.tasks.example.com/v1", "kind": "CustomTask",
        "metadata": {"name": "one", "namespace": "default", "uid": UID, "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"priority": 5, "deadline": "2097-11-11T11:11:11Z", "details": "Write the runbook."},
    });
    Review {
        operation: Operation::Create,
        subresource: None,
        key: ObjectKey::new(Some("default"), "one"),
        object: Some(object.to_string().into()),
        old_object: None,
        user: User::default(),
        dry_run: false,
        now: 1_767_225_600_000,
    }
}
