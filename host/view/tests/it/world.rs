//! An upstream with the resources that the joins read, and hosts that serve views of it.

use std::sync::Arc;
use std::time::Duration;

use joinery_object::{GroupVersionResource, ObjectKey, ResourceVersion};
use joinery_source::testing::MemoryUpstream;
use joinery_source::{ByteBudget, SourceCache, SourceSpec, Upstream};
use joinery_view::{Join, Prepared, Primaries, View, read_live};
use serde_json::{Value, json};

use crate::client::text;
use crate::joins::{UID_LABEL, events, logs, tasks};

/// All in one etcd, or each resource in its own.
pub(crate) fn upstream(counters: [usize; 3]) -> MemoryUpstream {
    MemoryUpstream::new()
        .with(&tasks(), "Task", counters[0])
        .with(&events(), "Event", counters[1])
        .with(&logs(), "Log", counters[2])
}

pub(crate) fn key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(Some(namespace), name)
}

pub(crate) fn uid(namespace: &str, name: &str) -> String {
    format!("uid-{namespace}-{name}")
}

pub(crate) fn task(namespace: &str, name: &str, spec: Value) -> Value {
    let uid = uid(namespace, name);
    json!({"metadata": {"name": name, "namespace": namespace, "uid": uid}, "spec": spec})
}

/// An Event that carries a Task's uid.
pub(crate) fn event(namespace: &str, name: &str, uid: &str, spec: Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": namespace, "labels": {UID_LABEL: uid}},
        "spec": spec,
    })
}

pub(crate) fn log(namespace: &str, name: &str, words: &[&str]) -> Value {
    json!({"metadata": {"name": name, "namespace": namespace}, "spec": {"words": words}})
}

/// A host: a connection to upstream with caches, and one view.
pub(crate) struct Host {
    pub(crate) upstream: MemoryUpstream,
    pub(crate) view: View,
    gvrs: Vec<GroupVersionResource>,
}

pub(crate) fn caches(upstream: &MemoryUpstream, join: &dyn Join) -> Vec<Arc<SourceCache>> {
    let start = |source: &joinery_view::SourceSpec| {
        let spec = SourceSpec {
            gvr: source.gvr.clone(),
            label_selector: source.label_selector.clone(),
            field_selector: source.field_selector.clone(),
            optional: source.optional,
        };
        let upstream = Arc::new(upstream.clone());
        Arc::new(SourceCache::start(upstream, spec, ByteBudget::unlimited()))
    };
    join.spec().sources.iter().map(start).collect()
}

impl Host {
    pub(crate) async fn start(upstream: &MemoryUpstream, join: Arc<dyn Join>) -> Self {
        let upstream = upstream.connect();
        let sources = caches(&upstream, &*join);
        let gvrs = join.spec().sources.iter().map(|s| s.gvr.clone()).collect();
        Self {
            upstream,
            gvrs,
            view: View::new(Prepared::new(join, sources).await),
        }
    }

    /// Waits until all that upstream has is in the view.
    pub(crate) async fn settle(&self) {
        for gvr in &self.gvrs {
            self.upstream.bookmark(gvr);
        }
        let positions: Vec<u64> = self
            .gvrs
            .iter()
            .map(|gvr| self.upstream.revision(gvr))
            .collect();
        let version = ResourceVersion::of_positions(&positions);
        let reached = self.view.wait_for(&version, Duration::from_secs(20)).await;
        assert!(reached, "{version:?} is not reached");
    }

    /// What the view shows, by key.
    pub(crate) fn shown(&self) -> Vec<(String, String)> {
        let objects = self.view.snapshot().objects;
        let shown = objects
            .iter()
            .map(|(key, object)| (key.to_string(), text(object)));
        shown.collect()
    }

    /// What upstream has, joined by live reading.
    pub(crate) async fn truth(&self) -> Vec<(String, String)> {
        let primaries = Primaries::Listed(joinery_source::Query::default());
        let upstream: &dyn Upstream = &self.upstream;
        let known = vec![0; self.gvrs.len()];
        let page = read_live(self.view.join(), upstream, &primaries, &known)
            .await
            .unwrap();
        let objects = page
            .outcomes
            .into_iter()
            .filter_map(|(key, outcome)| Some((key.to_string(), text(&*outcome.ok()??))));
        objects.collect()
    }
}

/// A runtime whose clock stands still while there is something to do.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(test)
}
