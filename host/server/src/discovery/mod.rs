//! Which groups, versions and resources there are: the legacy documents and aggregated discovery.
//!
//! All documents follow from a catalog snapshot and are kept until the next one.

mod aggregated;
mod legacy;
mod order;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use joinery_resource::{Definition, Snapshot};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha512};

pub(crate) use aggregated::AggregatedVersion;

/// Verbs of a `status` subresource.
const STATUS_VERBS: [&str; 3] = ["get", "patch", "update"];

/// A document with the tag that changes when it does.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) json: Bytes,
    /// Upper-case hexadecimal SHA-512, as k8s.io/apiserver has it, without quotes.
    pub(crate) etag: String,
}

impl Document {
    fn new(value: &impl serde::Serialize) -> Self {
        // Plain maps and strings: this cannot fail.
        let json: Bytes = serde_json::to_vec(value).unwrap_or_default().into();
        let digest = Sha512::digest(&json);
        let etag = digest.iter().map(|byte| format!("{byte:02X}")).collect();
        Self { json, etag }
    }
}

/// The documents of one snapshot.
pub(crate) struct Documents {
    /// `/api`, when there is a core group.
    pub(crate) core: Option<Bytes>,
    /// `/apis`
    pub(crate) groups: Bytes,
    /// `/apis/<group>`
    pub(crate) group: BTreeMap<String, Bytes>,
    /// `/apis/<group>/<version>`, and `/api/<version>` under an empty group.
    pub(crate) resources: BTreeMap<(String, String), Bytes>,
    /// `/api` and `/apis` as APIGroupDiscoveryList, by version.
    aggregated_core: [Document; 2],
    aggregated: [Document; 2],
}

impl Documents {
    fn new(snapshot: &Snapshot) -> Self {
        let groups = order::groups(
            snapshot
                .resources()
                .map(|(_, resource)| resource.definition()),
        );
        let (core, named): (Vec<_>, Vec<_>) =
            groups.iter().partition(|group| group.name.is_empty());
        let aggregated = |groups: &[&order::Group]| {
            AggregatedVersion::ALL.map(|version| Document::new(&aggregated::list(version, groups)))
        };
        Self {
            core: core.first().map(|group| legacy::core_versions(group)),
            groups: legacy::group_list(&named),
            group: named
                .iter()
                .map(|group| (group.name.clone(), legacy::group(group)))
                .collect(),
            resources: groups
                .iter()
                .flat_map(|group| group.versions.iter().map(move |version| (group, version)))
                .map(|(group, version)| {
                    let key = (group.name.clone(), version.name.clone());
                    (key, legacy::resource_list(group, version))
                })
                .collect(),
            aggregated_core: aggregated(&core),
            aggregated: aggregated(&named),
        }
    }

    /// `/api` (`core`) or `/apis` in the aggregated format.
    pub(crate) fn aggregated(&self, core: bool, version: AggregatedVersion) -> &Document {
        let documents = if core {
            &self.aggregated_core
        } else {
            &self.aggregated
        };
        &documents[version as usize]
    }
}

/// Makes the documents when they are first asked for.
#[derive(Default)]
pub(crate) struct Discovery {
    kept: Mutex<Option<(u64, Arc<Documents>)>>,
}

impl Discovery {
    pub(crate) fn documents(&self, snapshot: &Snapshot) -> Arc<Documents> {
        let mut kept = self.kept.lock();
        match &*kept {
            Some((revision, documents)) if *revision == snapshot.revision() => documents.clone(),
            _ => {
                let documents = Arc::new(Documents::new(snapshot));
                *kept = Some((snapshot.revision(), documents.clone()));
                documents
            }
        }
    }
}

/// The verbs of a resource, sorted.
fn verbs(definition: &Definition) -> Vec<&'static str> {
    let mut verbs = definition.verbs.clone();
    verbs.sort_unstable();
    verbs
}
