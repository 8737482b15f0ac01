//! The APIServices of what is served: made with the first resource of a group and version, gone with the last, and
//! touched when a definition changes, for the aggregator looks of its own accord only once a minute.
//!
//! Ours carry a label with the name of our Service. One without it is somebody else's and is never touched.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use joinery_object::{Follower, GroupVersionResource};
use joinery_resource::{Catalog, Definition, Snapshot};
use joinery_source::{ByteBudget, SourceCache, SourceSpec, Upstream};
use k8s_openapi::ByteString;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{
    APIService, APIServiceSpec, ServiceReference,
};
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams, Preconditions};
use kube::{Api, ResourceExt};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tracing::{info, warn};

/// Label of our APIServices: namespace and name of the Service, with a dot between them.
const OWNER: &str = "joinery.dev/service";
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "joinery");
/// Annotation that changes when a definition does. Any change makes the aggregator read discovery and OpenAPI anew.
const CONTENT: &str = "joinery.dev/content";
/// As of CustomResourceDefinitions (k8s.io/kube-aggregator).
const GROUP_PRIORITY: i32 = 1000;
const VERSION_PRIORITY: i32 = 100;
/// Between two looks when nothing changes: the authority's file tells nobody that it did.
const EVERY: Duration = Duration::from_secs(30);
/// Between two looks whether all plugins have been tried.
const NOT_YET: Duration = Duration::from_millis(100);
/// Until a failure is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// Where kube-apiserver finds this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceName {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) port: i32,
}

impl ServiceName {
    /// As the label of what is ours has it.
    fn owner(&self) -> String {
        format!("{}.{}", self.namespace, self.name)
    }
}

impl std::str::FromStr for ServiceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not like joinery-system/joinery:443");
        let (namespace, rest) = text.split_once('/').ok_or_else(wrong)?;
        let (name, port) = rest.split_once(':').unwrap_or((rest, "443"));
        let port = port.parse().map_err(|_| wrong())?;
        if namespace.is_empty() || name.is_empty() || !(1..=65535).contains(&port) {
            return Err(wrong());
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            port,
        })
    }
}

/// How each APIService is, by name; or why it is not as it should be.
pub(crate) type Registered = BTreeMap<String, Result<(), String>>;

/// Keeps the APIServices as the catalog is.
pub(crate) struct ApiServices {
    api: Api<APIService>,
    service: ServiceName,
    ca_file: PathBuf,
    catalog: Arc<Catalog>,
    /// Those that are ours, followed for what others do to them.
    ours: SourceCache,
    registered: Mutex<Registered>,
    changed: watch::Sender<()>,
}

impl ApiServices {
    /// Begins to follow those that are ours. Must be called in a tokio runtime.
    pub(crate) fn start(
        client: kube::Client,
        upstream: Arc<dyn Upstream>,
        service: ServiceName,
        ca_file: PathBuf,
        catalog: Arc<Catalog>,
    ) -> Arc<Self> {
        let ours = SourceSpec {
            gvr: GroupVersionResource::new("apiregistration.k8s.io", "v1", "apiservices"),
            label_selector: format!("{OWNER}={}", service.owner()),
            field_selector: String::new(),
            optional: false,
        };
        Arc::new(Self {
            api: Api::all(client),
            ours: SourceCache::start(upstream, ours, ByteBudget::unlimited()),
            service,
            ca_file,
            catalog,
            registered: Mutex::default(),
            changed: watch::channel(()).0,
        })
    }

    /// How they are.
    pub(crate) fn registered(&self) -> Registered {
        self.registered.lock().clone()
    }

    /// Tells when that changes.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Keeps them so for ever, once all plugins have been tried (`complete`): what is not there yet is not gone, and the
    /// aggregator must not be shown the half of a group.
    pub(crate) async fn run(self: Arc<Self>, complete: impl Fn() -> bool) {
        while !complete() {
            tokio::time::sleep(NOT_YET).await;
        }
        let mut revision = self.catalog.subscribe();
        let mut follower = None;
        loop {
            revision.mark_unchanged();
            let good = match self.reconcile().await {
                Ok(good) => good,
                Err(error) => {
                    warn!("APIServices: {error:#}");
                    false
                }
            };
            let pause = if good { EVERY } else { AGAIN };
            tokio::select! {
                changed = revision.changed() => if changed.is_err() { return },
                () = self.touched(&mut follower) => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Waits until one of ours is another, or is ours no longer.
    async fn touched(&self, follower: &mut Option<Follower>) {
        loop {
            let following = match follower {
                Some(following) => following,
                None => {
                    let (_, _, new) = self.ours.subscribed().await;
                    *follower = Some(new);
                    // Something may have been done to them before.
                    return;
                }
            };
            match following.next().await {
                Ok((changes, _)) if changes.is_empty() => {}
                Ok(_) => return,
                // It was too slow.
                Err(_) => *follower = None,
            }
        }
    }

    fn owner(&self) -> String {
        self.service.owner()
    }

    /// Whether all are as they should be.
    async fn reconcile(&self) -> Result<bool> {
        let unreadable = || format!("cannot read {}", self.ca_file.display());
        let ca = tokio::fs::read(&self.ca_file)
            .await
            .with_context(unreadable)?;
        let wanted = wanted(&self.catalog.snapshot());
        let mut registered = Registered::new();
        for (name, version) in &wanted {
            let mut outcome = self.ensure(name, version, &ca).await;
            if outcome.as_ref().is_err_and(is_conflict) {
                // The aggregator has just written its status.
                outcome = self.ensure(name, version, &ca).await;
            }
            if let Err(error) = &outcome {
                let before = self.registered.lock().get(name).cloned();
                if before != Some(Err(format!("{error:#}"))) {
                    warn!(apiservice = name, "{error:#}");
                }
            }
            registered.insert(name.clone(), outcome.map_err(|error| format!("{error:#}")));
        }
        let gone = self.remove_others(&wanted).await?;
        let good = gone && registered.values().all(Result::is_ok);
        let before = std::mem::replace(&mut *self.registered.lock(), registered.clone());
        if before != registered {
            self.changed.send_replace(());
        }
        Ok(good)
    }

    async fn ensure(&self, name: &str, version: &Version, ca: &[u8]) -> Result<()> {
        let Some(found) = self.api.get_opt(name).await? else {
            let new = self.apply(version, ca, APIService::default());
            match self.api.create(&PostParams::default(), &new).await {
                Ok(_) => info!(apiservice = name, "APIService made"),
                Err(error) => return Err(error.into()),
            }
            return Ok(());
        };
        if found.labels().get(OWNER) != Some(&self.owner()) {
            bail!(
                "it is there and not of this host (its label {OWNER} is not {}): delete it, or take the label over",
                self.owner()
            );
        }
        let new = self.apply(version, ca, found.clone());
        if (&new.spec, &new.metadata) != (&found.spec, &found.metadata) {
            self.api.replace(name, &PostParams::default(), &new).await?;
            info!(
                apiservice = name,
                "APIService changed, so that its resources are read anew"
            );
        }
        Ok(())
    }

    /// The APIService as it should be, with all that others wrote there.
    fn apply(&self, version: &Version, ca: &[u8], mut service: APIService) -> APIService {
        let metadata = ObjectMeta {
            name: Some(format!("{}.{}", version.version, version.group)),
            ..std::mem::take(&mut service.metadata)
        };
        service.metadata = metadata;
        let labels = service.labels_mut();
        labels.insert(OWNER.to_owned(), self.owner());
        labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
        service
            .annotations_mut()
            .insert(CONTENT.to_owned(), version.content.clone());
        service.spec = Some(APIServiceSpec {
            ca_bundle: Some(ByteString(ca.to_owned())),
            group: Some(version.group.clone()),
            group_priority_minimum: GROUP_PRIORITY,
            insecure_skip_tls_verify: None,
            service: Some(ServiceReference {
                name: Some(self.service.name.clone()),
                namespace: Some(self.service.namespace.clone()),
                port: Some(self.service.port),
            }),
            version: Some(version.version.clone()),
            version_priority: VERSION_PRIORITY,
        });
        service
    }

    /// Takes away those of ours that nothing is served for: a group without a server keeps every namespace for ever.
    /// Whether all of them are gone.
    async fn remove_others(&self, wanted: &BTreeMap<String, Version>) -> Result<bool> {
        let mut all = true;
        let ours = ListParams::default().labels(&format!("{OWNER}={}", self.owner()));
        for service in self.api.list(&ours).await? {
            let name = service.name_any();
            if wanted.contains_key(&name) {
                continue;
            }
            let unchanged = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: service.uid(),
                    resource_version: service.resource_version(),
                }),
                ..DeleteParams::default()
            };
            match self.api.delete(&name, &unchanged).await {
                Ok(_) => info!(
                    apiservice = name,
                    "APIService removed: nothing of it is served any more"
                ),
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                // The aggregator has just written its status.
                Err(kube::Error::Api(status)) if status.code == 409 => all = false,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(all)
    }
}

fn is_conflict(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.code == 409)
}

/// One group and version that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    group: String,
    version: String,
    /// Digest of all definitions in it.
    content: String,
}

/// By the names of the APIServices.
fn wanted(snapshot: &Snapshot) -> BTreeMap<String, Version> {
    let mut hashes: BTreeMap<(String, String), Sha256> = BTreeMap::new();
    for (gvr, resource) in snapshot.resources() {
        let hash = hashes
            .entry((gvr.group.to_string(), gvr.version.to_string()))
            .or_default();
        hash.update(outline(&resource.definition()));
    }
    hashes
        .into_iter()
        .map(|((group, version), hash)| {
            let content = hash.finalize()[..8]
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let name = format!("{version}.{group}");
            let version = Version {
                group,
                version,
                content,
            };
            (name, version)
        })
        .collect()
}

/// What discovery and OpenAPI tell of a resource.
fn outline(definition: &Definition) -> String {
    let Definition {
        gvr,
        kind,
        list_kind,
        singular,
        short_names,
        categories,
        namespaced,
        verbs,
        status_subresource,
        schema,
        columns: _,
        selectable_fields,
    } = definition;
    format!(
        "{:?}\n",
        (
            gvr,
            (kind, list_kind, singular, short_names, categories),
            (namespaced, verbs, status_subresource),
            (schema, selectable_fields),
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_named_with_or_without_its_port() {
        let name = |text: &str| text.parse::<ServiceName>();
        let joinery = name("joinery-system/joinery").unwrap();
        assert_eq!((joinery.name.as_str(), joinery.port), ("joinery", 443));
        assert_eq!(name("a/b:6443").unwrap().port, 6443);
        for wrong in ["joinery", "a/b:c", "a/b:0", "/b", "a/:1"] {
            assert!(name(wrong).unwrap_err().contains("joinery-system/joinery"));
        }
    }
}
