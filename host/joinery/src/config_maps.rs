//! Plugins in labelled ConfigMaps of one namespace, followed through the API: no kubelet stands in between, so they are
//! live as soon as they are written.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use joinery_object::{GroupVersionResource, Object, ObjectKey};
use joinery_plugin::{DeliveryError, PLUGIN_LABEL, PluginConfigMap};
use joinery_source::{
    ByteBudget, Page, Query, SourceCache, SourceSpec, Upstream, UpstreamError, UpstreamWatch,
};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::delivery::{Candidate, Candidates, Origin};

/// The plugins of a namespace's ConfigMaps.
pub(crate) struct ConfigMapSource {
    found: watch::Receiver<Option<Arc<Candidates>>>,
    tasks: [JoinHandle<()>; 2],
}

impl ConfigMapSource {
    /// Begins to follow them. Must be called in a tokio runtime.
    pub(crate) fn start(upstream: Arc<dyn Upstream>, namespace: &str) -> Self {
        let spec = SourceSpec {
            gvr: GroupVersionResource::new("", "v1", "configmaps"),
            label_selector: PLUGIN_LABEL.to_owned(),
            field_selector: String::new(),
            optional: false,
        };
        // A ConfigMap has a MiB at most, and who may write them here decides what runs anyway.
        let budget = ByteBudget::unlimited();
        let upstream = Arc::new(InNamespace {
            upstream,
            namespace: namespace.to_owned(),
        });
        let cache = Arc::new(SourceCache::start(upstream, spec, budget));
        let (sender, found) = watch::channel(None);
        Self {
            found,
            tasks: [
                tokio::spawn(complain(cache.clone(), namespace.to_owned())),
                tokio::spawn(run(cache, sender)),
            ],
        }
    }

    /// What is found; none until they could be listed. While they cannot be followed, it stays as it was.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Arc<Candidates>>> {
        self.found.clone()
    }
}

impl Drop for ConfigMapSource {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Says once why the ConfigMaps cannot be read, and once that they can again.
async fn complain(cache: Arc<SourceCache>, namespace: String) {
    let mut state = cache.watch_state();
    loop {
        let failing = state.wait_for(|state| state.error.is_some()).await;
        let Ok(Some(error)) = failing.map(|state| state.error.clone()) else {
            return;
        };
        warn!(
            namespace,
            error, "plugins in ConfigMaps cannot be followed; they stay as they are"
        );
        if state.wait_for(|state| state.error.is_none()).await.is_err() {
            return;
        }
        info!(namespace, "plugins in ConfigMaps are followed again");
    }
}

async fn run(cache: Arc<SourceCache>, sender: watch::Sender<Option<Arc<Candidates>>>) {
    cache.synced().await;
    let mut reader = Reader::default();
    while let Some((objects, _, mut follower)) = cache.subscribe() {
        let objects: Vec<_> = objects.values().cloned().collect();
        let read = tokio::task::spawn_blocking(move || {
            let found = reader.read(&objects);
            (reader, found)
        });
        let Ok((again, found)) = read.await else {
            return;
        };
        reader = again;
        sender.send_replace(Some(Arc::new(found)));
        follower.ready().await;
    }
}

/// A plugin and its name; none where the label is gone.
type Named = Option<(String, Candidate)>;

/// Unpacks ConfigMaps, and of those only what has changed since the last time.
#[derive(Default)]
struct Reader {
    known: HashMap<ObjectKey, (Arc<Object>, Named)>,
}

impl Reader {
    fn read(&mut self, objects: &[Arc<Object>]) -> Candidates {
        let known = std::mem::take(&mut self.known);
        let mut found = Candidates::new();
        for object in objects {
            let before = known.get(object.key());
            let read = match before {
                Some((before, read)) if Arc::ptr_eq(before, object) => read.clone(),
                _ => candidate(object),
            };
            if let Some((name, candidate)) = &read {
                match found.get_mut(name) {
                    None => {
                        found.insert(name.clone(), candidate.clone());
                    }
                    Some(other) => other.plugin = Err(twice(name, &other.origin, candidate)),
                }
            }
            self.known
                .insert(object.key().clone(), (object.clone(), read));
        }
        found
    }
}

/// The plugin of a ConfigMap, by its name. One whose label is no name stands under that of the ConfigMap.
fn candidate(object: &Arc<Object>) -> Named {
    let key = object.key();
    let origin = Origin::ConfigMap {
        namespace: key.namespace.as_deref().unwrap_or_default().to_owned(),
        name: key.name.to_string(),
        uid: object.uid().to_owned(),
    };
    let (name, plugin) = match PluginConfigMap::parse(&object.bytes()) {
        Ok(None) => return None,
        Ok(Some(map)) => (map.plugin().to_owned(), map.unpack()),
        Err(error) => (key.name.to_string(), Err(error)),
    };
    Some((name, Candidate { origin, plugin }))
}

/// Neither of two counts: which would be chance.
fn twice(name: &str, one: &Origin, other: &Candidate) -> DeliveryError {
    let Origin::ConfigMap {
        namespace,
        name: map,
        ..
    } = &other.origin
    else {
        unreachable!("only ConfigMaps are read here");
    };
    DeliveryError::ConfigMap {
        namespace: namespace.clone(),
        name: map.clone(),
        message: format!("plugin {name} stands in {one} too: label only one of them with it"),
    }
}

/// An upstream of which only one namespace is read, as the host's Role allows.
struct InNamespace {
    upstream: Arc<dyn Upstream>,
    namespace: String,
}

impl InNamespace {
    fn query(&self, query: &Query) -> Query {
        Query {
            namespace: Some(self.namespace.clone()),
            ..query.clone()
        }
    }
}

#[async_trait]
impl Upstream for InNamespace {
    async fn get(
        &self,
        gvr: &GroupVersionResource,
        key: &ObjectKey,
    ) -> Result<Option<Arc<Object>>, UpstreamError> {
        self.upstream.get(gvr, key).await
    }

    async fn list(&self, gvr: &GroupVersionResource, query: &Query) -> Result<Page, UpstreamError> {
        self.upstream.list(gvr, &self.query(query)).await
    }

    async fn keys_at(
        &self,
        gvr: &GroupVersionResource,
        query: &Query,
        position: u64,
    ) -> Result<Vec<ObjectKey>, UpstreamError> {
        self.upstream
            .keys_at(gvr, &self.query(query), position)
            .await
    }

    async fn watch(
        &self,
        gvr: &GroupVersionResource,
        query: &Query,
        after: u64,
    ) -> Result<UpstreamWatch, UpstreamError> {
        self.upstream.watch(gvr, &self.query(query), after).await
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::*;

    fn map(name: &str, plugin: &str, code: &str, version: u64) -> Arc<Object> {
        let text = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {PLUGIN_LABEL: plugin},
                "resourceVersion": version.to_string()},
            "binaryData": {"plugin.wasm": STANDARD.encode(code)},
        });
        Arc::new(Object::parse(text.to_string().into()).unwrap())
    }

    fn error(found: &Candidates, plugin: &str) -> String {
        found[plugin].plugin.as_ref().unwrap_err().to_string()
    }

    #[test]
    fn a_config_map_is_a_plugin_with_its_place() {
        let found = Reader::default().read(&[map("one", "tasks", "code", 1)]);
        let plugin = found["tasks"].plugin.as_ref().unwrap();
        assert_eq!(&plugin.bytes[..], b"code");
        assert_eq!(found["tasks"].origin.to_string(), "ConfigMap ns/one");
    }

    #[test]
    fn two_of_one_name_are_both_refused_until_one_goes() {
        let mut reader = Reader::default();
        let (one, two) = (map("one", "p", "1", 1), map("two", "p", "2", 1));
        let found = reader.read(&[one.clone(), two.clone()]);
        assert_eq!(
            error(&found, "p"),
            "ConfigMap ns/two: plugin p stands in ConfigMap ns/one too: label only one of them with it"
        );
        let found = reader.read(&[two]);
        assert_eq!(&found["p"].plugin.as_ref().unwrap().bytes[..], b"2");
    }

    #[test]
    fn a_label_that_is_no_name_is_told_under_the_name_of_the_config_map() {
        let found = Reader::default().read(&[map("one", "", "1", 1), map("two", "p", "2", 1)]);
        assert!(error(&found, "one").contains("a plugin's name has"));
        assert!(found["p"].plugin.is_ok());
    }
}
