//! Grants: which groups a plugin may claim, which resources it may read, which hosts it may call.
//!
//! They are the operator's and lie in a file of their own, not in the settings beside a plugin: who may put a plugin into
//! a ConfigMap does not thereby decide what it may do. What is not granted is denied.
//!
//! ```yaml
//! plugins:
//!   combined_tasks:
//!     groups: [aggregated.tasks.example.com]
//!     sources: [tasks.tasks.example.com, events]
//!   "*":                              # all plugins, besides what they are granted by name
//!     groups: ["*.plugins.example.com"]
//!   weather:
//!     groups: [weather.example.com]
//!     hosts: ["api.weather.example", "*.cache.example:8443"]
//!   overview:
//!     groups: [overview.example.com]
//!     sources: [pods, nodes]
//!     definer: true                   # who may read the view sees its sources
//!     anyNamespace: [nodes]           # relations that may leave the primary's namespace
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use joinery_object::GroupVersionResource;
use serde::Deserialize;

/// What all plugins are granted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Grants {
    plugins: Arc<BTreeMap<String, Grant>>,
}

/// What one plugin is granted. `*` stands for everything, `*.x` for everything that ends in `.x`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Grant {
    /// API groups in which it may claim resources. Groups of Kubernetes' own stay refused.
    pub groups: Vec<String>,
    /// What its views may be made of and its rules may look up: `resource.group`, or `resource` in the core group.
    pub sources: Vec<String>,
    /// What it may call: `host` (port 443) or `host:port`.
    pub hosts: Vec<String>,
    /// Whether its views may show their sources to whoever may read the view (`security: definer` in its settings).
    pub definer: bool,
    /// Relations of its views that may reach into any namespace (`anyNamespace` in its settings).
    #[serde(rename = "anyNamespace")]
    pub any_namespace: Vec<String>,
}

impl Grants {
    /// Any plugin may do anything that a plugin can.
    pub fn everything() -> Self {
        let all = || vec!["*".to_owned()];
        let grant = Grant {
            groups: all(),
            sources: all(),
            hosts: all(),
            definer: true,
            any_namespace: all(),
        };
        Self {
            plugins: Arc::new(BTreeMap::from([("*".to_owned(), grant)])),
        }
    }

    /// Reads a file of grants, YAML or JSON.
    ///
    /// # Errors
    /// With the file, what is wrong and what is allowed.
    pub fn read(path: &Path) -> Result<Self, String> {
        let fault = |error: &dyn std::fmt::Display| format!("grants {}: {error}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| fault(&error))?;
        Self::parse(&text).map_err(|error| fault(&error))
    }

    /// Reads grants from the text of a file. An empty one grants nothing.
    ///
    /// # Errors
    /// What is wrong and what is allowed.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let grants: Option<Self> =
            serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        let grants = grants.unwrap_or_default();
        for (plugin, grant) in grants.plugins.iter() {
            let all = grant
                .groups
                .iter()
                .chain(&grant.sources)
                .chain(&grant.hosts)
                .chain(&grant.any_namespace);
            for pattern in all {
                let rest = pattern.strip_prefix("*.").unwrap_or(pattern);
                if pattern != "*" && (rest.is_empty() || rest.contains('*')) {
                    return Err(format!(
                        "plugin {plugin:?}: {pattern:?} must be a name, \"*\", or \"*.\" and the end of a name"
                    ));
                }
            }
        }
        Ok(grants)
    }

    /// What a plugin is granted, by its name and by `*`.
    pub fn of(&self, plugin: &str) -> Grant {
        let mut sum = Grant::default();
        for grant in ["*", plugin].iter().filter_map(|n| self.plugins.get(*n)) {
            sum.groups.extend_from_slice(&grant.groups);
            sum.sources.extend_from_slice(&grant.sources);
            sum.hosts.extend_from_slice(&grant.hosts);
            sum.definer |= grant.definer;
            sum.any_namespace.extend_from_slice(&grant.any_namespace);
        }
        sum
    }
}

impl Grant {
    /// Whether it may claim resources in this group.
    pub fn allows_group(&self, group: &str) -> bool {
        any(&self.groups, group)
    }

    /// Whether it may read this resource.
    pub fn allows_source(&self, gvr: &GroupVersionResource) -> bool {
        self.allows_source_named(&source_name(gvr))
    }

    pub(crate) fn allows_source_named(&self, name: &str) -> bool {
        any(&self.sources, name)
    }

    /// Whether this relation of its views may reach into any namespace.
    pub(crate) fn allows_any_namespace(&self, relation: &str) -> bool {
        any(&self.any_namespace, relation)
    }

    /// Whether it may call this host, by name and port.
    pub fn allows_host(&self, host: &str, port: u16) -> bool {
        let named = |pattern: &&String| {
            let (pattern, wanted) = match pattern.rsplit_once(':') {
                Some((name, wanted)) => (name, wanted.parse().ok()),
                None if *pattern == "*" => return true,
                None => (pattern.as_str(), Some(443)),
            };
            wanted == Some(port) && matches(pattern, &host.to_ascii_lowercase())
        };
        self.hosts.iter().any(|pattern| named(&pattern))
    }
}

/// `resource.group`, as grants name it; without a dot in the core group.
pub(crate) fn source_name(gvr: &GroupVersionResource) -> String {
    if gvr.group.is_empty() {
        gvr.resource.to_string()
    } else {
        gvr.group_resource()
    }
}

fn any(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, name))
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix('*') {
        // With the dot: "*.example.com" is not "badexample.com".
        Some(end) => name.len() > end.len() && name.ends_with(end),
        None => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gvr(group: &str, resource: &str) -> GroupVersionResource {
        GroupVersionResource::new(group, "v1", resource)
    }

    #[test]
    fn what_is_not_granted_is_denied() {
        let none = Grants::default().of("any");
        assert!(!none.allows_group("a.b"));
        assert!(!none.allows_source(&gvr("", "events")));
        assert!(!none.allows_host("a.b", 443));
        assert_eq!(Grants::parse("").unwrap().of("any"), none);
    }

    #[test]
    fn names_and_ends_of_names_are_granted_to_one_plugin_or_to_all() {
        let grants = Grants::parse(
            "plugins:\n  one:\n    groups: [a.example.com]\n    sources: [events, pods.metrics.k8s.io]\n    \
             hosts: [h.example, '*.h.example:8443']\n  '*':\n    groups: ['*.b.example.com']\n    sources: ['*.c.example']\n",
        )
        .unwrap();
        let one = grants.of("one");
        assert!(one.allows_group("a.example.com") && one.allows_group("x.b.example.com"));
        for group in ["b.example.com", "xb.example.com", "x.a.example.com", ""] {
            assert!(!one.allows_group(group), "{group}");
        }
        assert!(one.allows_source(&gvr("", "events")));
        assert!(one.allows_source(&gvr("metrics.k8s.io", "pods")));
        assert!(one.allows_source(&gvr("c.example", "things")));
        assert!(!one.allows_source(&gvr("", "pods")));
        assert!(!one.allows_source(&gvr("events.k8s.io", "events")));
        assert!(one.allows_host("H.example", 443) && one.allows_host("x.h.example", 8443));
        assert!(!one.allows_host("h.example", 80) && !one.allows_host("x.h.example", 443));
        let other = grants.of("other");
        assert!(other.allows_group("x.b.example.com") && !other.allows_group("a.example.com"));
    }

    #[test]
    fn everything_is_everything() {
        let all = Grants::everything().of("any");
        assert!(all.allows_group("a.b") && all.allows_source(&gvr("", "secrets")));
        assert!(all.allows_host("h", 80));
    }

    #[test]
    fn a_file_that_cannot_be_is_refused() {
        for (text, words) in [
            ("plugin: {}", "plugin"),
            ("plugins: {a: {group: [x]}}", "group"),
            ("plugins: {a: {groups: ['a*']}}", "\"a*\" must be a name"),
            ("plugins: {a: {hosts: ['*.']}}", "\"*.\" must be a name"),
            ("[", ""),
        ] {
            let error = Grants::parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
