//! Resources by group and version, the preferred version first.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use joinery_resource::Definition;

/// A group with its versions, the preferred one first.
pub(super) struct Group {
    pub(super) name: String,
    pub(super) versions: Vec<Version>,
}

/// A version with its resources, by plural.
pub(super) struct Version {
    pub(super) name: String,
    pub(super) resources: Vec<Arc<Definition>>,
}

impl Group {
    /// `v1` or `group/v1`.
    pub(super) fn api_version(&self, version: &Version) -> String {
        if self.name.is_empty() {
            version.name.clone()
        } else {
            format!("{}/{}", self.name, version.name)
        }
    }
}

pub(super) fn groups(definitions: impl Iterator<Item = Arc<Definition>>) -> Vec<Group> {
    let mut groups: BTreeMap<String, BTreeMap<String, Vec<Arc<Definition>>>> = BTreeMap::new();
    for definition in definitions {
        groups
            .entry(definition.gvr.group.to_string())
            .or_default()
            .entry(definition.gvr.version.to_string())
            .or_default()
            .push(definition);
    }
    groups
        .into_iter()
        .map(|(name, versions)| {
            let mut versions: Vec<_> = versions
                .into_iter()
                .map(|(name, mut resources)| {
                    resources.sort_by(|a, b| a.gvr.resource.cmp(&b.gvr.resource));
                    Version { name, resources }
                })
                .collect();
            versions.sort_by(|a, b| compare(&b.name, &a.name));
            Group { name, versions }
        })
        .collect()
}

/// As k8s.io/apimachinery/pkg/version.CompareKubeAwareVersionStrings: stable above beta above alpha above the rest.
fn compare(a: &str, b: &str) -> Ordering {
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        // What follows no pattern is in alphabetical order.
        (None, None) => b.cmp(a),
    }
}

/// Stability, major, minor.
fn rank(version: &str) -> Option<(u8, u32, u32)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let major = rest[..digits].parse().ok()?;
    let rest = &rest[digits..];
    if rest.is_empty() {
        return Some((2, major, 0));
    }
    if let Some(minor) = rest.strip_prefix("beta") {
        return Some((1, major, minor.parse().ok()?));
    }
    Some((0, major, rest.strip_prefix("alpha")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_stable_and_newest_version_is_preferred() {
        let mut versions = [
            "v1alpha1", "foo", "v2", "v1beta2", "v10", "v1", "v1beta10", "bar",
        ];
        versions.sort_by(|a, b| compare(b, a));
        assert_eq!(
            versions,
            [
                "v10", "v2", "v1", "v1beta10", "v1beta2", "v1alpha1", "bar", "foo"
            ]
        );
    }
}
