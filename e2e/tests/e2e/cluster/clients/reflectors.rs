//! kube-rs: a reflector of each resource, once with a list before its watch and once with the state in its watch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::reflector::Store;
use kube::runtime::reflector::store::Writer;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, Config};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::shared::Shared;

const KINDS: [&str; 3] = ["ClusterTask", "CustomTask", "CombinedTask"];
const SYNC: Duration = Duration::from_secs(60);
const SETTLE: Duration = Duration::from_secs(60);
/// What one may meet, most of it while the host is away.
const MAX_ERRORS: usize = 50;

pub(super) struct Reflectors {
    runtime: Runtime,
    running: Vec<Running>,
}

struct Running {
    title: String,
    /// Of a view. The resourceVersion of its objects is the position of their sources at which a host composed them: a restarted host
    /// composes all anew, and an unchanged object then has a later one than a client that did not list again.
    view: bool,
    api: Api<DynamicObject>,
    store: Store<DynamicObject>,
    errors: Arc<AtomicUsize>,
}

impl Reflectors {
    /// Starts them, and waits until all have synced.
    pub(super) fn start(environment: &Shared) -> Reflectors {
        // kube takes the process' default; whoever was first is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = Runtime::new().unwrap();
        let kubeconfig = Kubeconfig::read_from(environment.kubeconfig()).unwrap();
        let running = runtime.block_on(async {
            let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .unwrap();
            let client = Client::try_from(config).unwrap();
            let mut running = Vec::new();
            for kind in KINDS {
                for streaming in [false, true] {
                    running.push(start(&client, kind, streaming));
                }
            }
            for one in &running {
                let synced = tokio::time::timeout(SYNC, one.store.wait_until_ready()).await;
                assert!(matches!(synced, Ok(Ok(()))), "{} did not sync", one.title);
            }
            running
        });
        Reflectors { runtime, running }
    }

    /// What they hold is what the server lists, and they did not fail again and again.
    pub(super) fn end_with_the_truth(self) {
        self.runtime.block_on(async {
            for one in &self.running {
                let end = Instant::now() + SETTLE;
                loop {
                    let truth = one.truth().await;
                    let held = one.by_name(one.store.state().iter().map(|object| &**object));
                    if truth == held {
                        break;
                    }
                    assert!(
                        Instant::now() < end,
                        "{}: {:#?}",
                        one.title,
                        difference(&truth, &held)
                    );
                    tokio::time::sleep(Duration::from_millis(250)).await;
                }
                let errors = one.errors.load(Ordering::Relaxed);
                assert!(errors <= MAX_ERRORS, "{}: {errors} errors", one.title);
            }
        });
    }
}

impl Running {
    async fn truth(&self) -> BTreeMap<String, Value> {
        let list = self.api.list(&ListParams::default()).await.unwrap();
        self.by_name(&list.items)
    }

    fn by_name<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a DynamicObject>,
    ) -> BTreeMap<String, Value> {
        let named = objects.into_iter().map(|object| {
            let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
            let name = object.metadata.name.as_deref().unwrap_or_default();
            let mut value = serde_json::to_value(object).unwrap();
            if self.view {
                value["metadata"]["resourceVersion"].take();
            }
            (format!("{namespace}/{name}"), value)
        });
        named.collect()
    }
}

fn start(client: &Client, kind: &str, streaming: bool) -> Running {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "aggregated.tasks.example.com",
        "v1",
        kind,
    ));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let writer = Writer::new(resource);
    let store = writer.as_reader();
    let (config, how) = if streaming {
        (watcher::Config::default().streaming_lists(), "streaming")
    } else {
        (watcher::Config::default().page_size(20), "listing")
    };
    let errors = Arc::new(AtomicUsize::new(0));
    let counted = errors.clone();
    let stream = reflector(writer, watcher(api.clone(), config).default_backoff());
    tokio::spawn(async move {
        let mut stream = std::pin::pin!(stream);
        while let Some(event) = stream.next().await {
            if event.is_err() {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    Running {
        title: format!("{how} reflector of {kind}s"),
        view: kind == "CombinedTask",
        api,
        store,
        errors,
    }
}

fn difference<'a>(
    truth: &'a BTreeMap<String, Value>,
    held: &'a BTreeMap<String, Value>,
) -> Vec<(&'a String, Option<&'a Value>, Option<&'a Value>)> {
    truth
        .keys()
        .chain(held.keys())
        .filter(|key| truth.get(*key) != held.get(*key))
        .map(|key| (key, truth.get(key), held.get(key)))
        .collect()
}
