//! APIGroupDiscoveryList (apidiscovery.k8s.io), which kube-apiserver's aggregator and kubectl ask for.

use serde_json::{Value, json};

use super::order::{Group, Version};
use super::{STATUS_VERBS, verbs};

/// Both versions have the same shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AggregatedVersion {
    V2,
    V2Beta1,
}

impl AggregatedVersion {
    pub(super) const ALL: [Self; 2] = [Self::V2, Self::V2Beta1];

    /// As in Accept and Content-Type.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::V2 => "v2",
            Self::V2Beta1 => "v2beta1",
        }
    }
}

pub(super) fn list(version: AggregatedVersion, groups: &[&Group]) -> Value {
    let items: Vec<_> = groups
        .iter()
        .map(|group| {
            let versions: Vec<_> = group.versions.iter().map(|version| entry(group, version)).collect();
            json!({"metadata": {"name": group.name, "creationTimestamp": null}, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{}", version.as_str()),
        "metadata": {},
        "items": items,
    })
}

fn entry(group: &Group, version: &Version) -> Value {
    let resources: Vec<_> = version
        .resources
        .iter()
        .map(|definition| {
            // Clients panic without a kind, so it is always there, of subresources too.
            let kind =
                json!({"group": group.name, "version": version.name, "kind": definition.kind});
            let mut resource = json!({
                "resource": &*definition.gvr.resource,
                "responseKind": kind,
                "scope": if definition.namespaced { "Namespaced" } else { "Cluster" },
                "singularResource": definition.singular,
                "verbs": verbs(definition),
            });
            if !definition.short_names.is_empty() {
                resource["shortNames"] = definition.short_names.clone().into();
            }
            if !definition.categories.is_empty() {
                resource["categories"] = definition.categories.clone().into();
            }
            if definition.status_subresource {
                resource["subresources"] =
                    json!([{"subresource": "status", "responseKind": kind, "verbs": STATUS_VERBS}]);
            }
            resource
        })
        .collect();
    json!({"version": version.name, "resources": resources, "freshness": "Current"})
}
