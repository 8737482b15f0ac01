//! Which resources there are, changed in one step.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use joinery_object::GroupVersionResource;
use tokio::sync::watch;

use crate::resource::Resource;

/// What is served at one moment. Requests hold the one they began with.
#[derive(Clone, Default)]
pub struct Snapshot {
    resources: BTreeMap<GroupVersionResource, Arc<dyn Resource>>,
    revision: u64,
}

impl Snapshot {
    /// The resource of a path.
    pub fn find(&self, gvr: &GroupVersionResource) -> Option<&Arc<dyn Resource>> {
        self.resources.get(gvr)
    }

    /// All resources, by group, version and plural.
    pub fn resources(&self) -> impl Iterator<Item = (&GroupVersionResource, &Arc<dyn Resource>)> {
        self.resources.iter()
    }

    /// Rises with every change: what is derived from a snapshot may be kept under this number.
    pub fn revision(&self) -> u64 {
        self.revision
    }
}

/// The resources of this host.
pub struct Catalog {
    current: ArcSwap<Snapshot>,
    revision: watch::Sender<u64>,
}

impl Default for Catalog {
    fn default() -> Self {
        Self {
            current: ArcSwap::default(),
            revision: watch::channel(0).0,
        }
    }
}

impl Catalog {
    /// A catalog of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is served now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Tells of every change, after it has been made.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Takes away and adds resources in one step that no request sees half done.
    pub fn change(
        &self,
        remove: &[GroupVersionResource],
        add: impl IntoIterator<Item = Arc<dyn Resource>>,
    ) {
        let add: Vec<_> = add
            .into_iter()
            .map(|resource| (resource.definition().gvr.clone(), resource))
            .collect();
        self.current.rcu(|current| {
            let mut next = Snapshot::clone(current);
            for gvr in remove {
                next.resources.remove(gvr);
            }
            next.resources.extend(add.iter().cloned());
            next.revision += 1;
            next
        });
        let revision = self.current.load().revision;
        self.revision
            .send_modify(|told| *told = revision.max(*told));
    }
}
