//! APIVersions, APIGroupList, APIGroup and APIResourceList, as k8s.io/apiserver/pkg/endpoints/discovery.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};

use super::order::{Group, Version};
use super::{STATUS_VERBS, verbs};

fn encode(value: &impl Serialize) -> Bytes {
    // Plain maps and strings: this cannot fail.
    serde_json::to_vec(value).unwrap_or_default().into()
}

pub(super) fn core_versions(group: &Group) -> Bytes {
    let versions: Vec<_> = group.versions.iter().map(|v| &v.name).collect();
    encode(&json!({"kind": "APIVersions", "versions": versions, "serverAddressByClientCIDRs": []}))
}

pub(super) fn group_list(groups: &[&Group]) -> Bytes {
    let groups: Vec<_> = groups.iter().map(|group| group_entry(group)).collect();
    encode(&json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
}

pub(super) fn group(group: &Group) -> Bytes {
    let mut entry = group_entry(group);
    entry["kind"] = "APIGroup".into();
    entry["apiVersion"] = "v1".into();
    encode(&entry)
}

fn group_entry(group: &Group) -> Value {
    let versions: Vec<_> = group
        .versions
        .iter()
        .map(|version| json!({"groupVersion": group.api_version(version), "version": version.name}))
        .collect();
    json!({"name": group.name, "preferredVersion": versions.first(), "versions": versions})
}

pub(super) fn resource_list(group: &Group, version: &Version) -> Bytes {
    let mut resources = Vec::new();
    for definition in &version.resources {
        let mut resource = json!({
            "name": &*definition.gvr.resource,
            "singularName": definition.singular,
            "namespaced": definition.namespaced,
            "kind": definition.kind,
            "verbs": verbs(definition),
        });
        if !definition.short_names.is_empty() {
            resource["shortNames"] = definition.short_names.clone().into();
        }
        if !definition.categories.is_empty() {
            resource["categories"] = definition.categories.clone().into();
        }
        resources.push(resource);
        if definition.status_subresource {
            resources.push(json!({
                "name": format!("{}/status", definition.gvr.resource),
                "singularName": "",
                "namespaced": definition.namespaced,
                "kind": definition.kind,
                "verbs": STATUS_VERBS,
            }));
        }
    }
    encode(&json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group.api_version(version),
        "resources": resources,
    }))
}
