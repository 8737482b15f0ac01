//! The roles that go with a plugin.

use std::collections::BTreeMap;

use joinery_object::GroupVersionResource;
use joinery_plugin::{Description, ResourceDescription};

const READ: &str = "get, list, watch";
const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// A plugin's name as part of the name of an object: RFC 1123.
pub(crate) fn object_name(plugin: &str) -> String {
    let legal = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() => c,
        _ => '-',
    };
    let name: String = plugin.chars().map(legal).collect();
    name.trim_matches('-').to_owned()
}

/// One rule of a role: a group, its resources, verbs.
struct Rule {
    group: String,
    resources: Vec<String>,
    verbs: String,
}

/// YAML documents: who may read and write the resources, and that the host may read the sources.
pub(crate) fn roles(
    name: &str,
    description: &Description,
    namespace: &str,
    service_account: &str,
) -> String {
    let mut out = String::new();
    let all: Vec<&ResourceDescription> = description.resources.iter().collect();
    let mut read = rules(&all, |_| READ.to_owned());
    let with_status = |r: &&&ResourceDescription| r.definition.status_subresource;
    for resource in all.iter().filter(with_status) {
        read.push(Rule {
            group: resource.definition.gvr.group.to_string(),
            resources: vec![format!("{}/status", resource.definition.gvr.resource)],
            verbs: "get".to_owned(),
        });
    }
    out.push_str(&role(&format!("joinery-{name}-view"), &["view"], &read));

    let written = |namespaced: bool| {
        let some: Vec<&ResourceDescription> = all
            .iter()
            .copied()
            .filter(|r| r.definition.namespaced == namespaced && !writes(r).is_empty())
            .collect();
        rules(&some, writes)
    };
    let edit = written(true);
    if !edit.is_empty() {
        out.push_str(&role(
            &format!("joinery-{name}-edit"),
            &["edit", "admin"],
            &edit,
        ));
    }
    let cluster = written(false);
    if !cluster.is_empty() {
        out.push_str(
            "---\n# What belongs to the whole cluster is written by those alone who are bound to this role.",
        );
        let cluster = role(&format!("joinery-{name}-cluster-edit"), &[], &cluster);
        out.push_str(cluster.trim_start_matches("---"));
    }

    let sources = sources(description);
    if !sources.is_empty() {
        let name = format!("joinery-{name}-sources");
        out.push_str("---\n# The host reads the sources of the views.");
        out.push_str(role(&name, &[], &sources).trim_start_matches("---"));
        out.push_str(&format!(
            "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata:\n  name: {name}\nroleRef:\n  \
             apiGroup: rbac.authorization.k8s.io\n  kind: ClusterRole\n  name: {name}\nsubjects:\n  - kind: ServiceAccount\n    \
             name: {service_account}\n    namespace: {namespace}\n"
        ));
    }
    out
}

/// The verbs that change something.
fn writes(resource: &ResourceDescription) -> String {
    let verbs: Vec<&str> = ["create", "update", "patch", "delete", "deletecollection"]
        .into_iter()
        .filter(|verb| resource.definition.verbs.contains(verb))
        .collect();
    verbs.join(", ")
}

fn rules(
    resources: &[&ResourceDescription],
    verbs: impl Fn(&ResourceDescription) -> String,
) -> Vec<Rule> {
    let mut by_group: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for resource in resources {
        let GroupVersionResource {
            group,
            resource: plural,
            ..
        } = &resource.definition.gvr;
        by_group
            .entry((group.to_string(), verbs(resource)))
            .or_default()
            .push(plural.to_string());
    }
    let rule = |((group, verbs), resources)| Rule {
        group,
        resources,
        verbs,
    };
    by_group.into_iter().map(rule).collect()
}

fn sources(description: &Description) -> Vec<Rule> {
    let mut by_group: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in &description.sources {
        let resources = by_group.entry(source.gvr.group.to_string()).or_default();
        let resource = source.gvr.resource.to_string();
        if !resources.contains(&resource) {
            resources.push(resource);
        }
    }
    let rule = |(group, resources)| Rule {
        group,
        resources,
        verbs: READ.to_owned(),
    };
    by_group.into_iter().map(rule).collect()
}

fn role(name: &str, aggregate: &[&str], rules: &[Rule]) -> String {
    let mut out = format!(
        "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: {name}\n"
    );
    if !aggregate.is_empty() {
        out.push_str("  labels:\n");
        for to in aggregate {
            out.push_str(&format!("    {AGGREGATE}{to}: \"true\"\n"));
        }
    }
    out.push_str("rules:\n");
    for rule in rules {
        out.push_str(&format!(
            "  - apiGroups: [\"{}\"]\n    resources: [{}]\n    verbs: [{}]\n",
            rule.group,
            rule.resources.join(", "),
            rule.verbs
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_plugin_has_a_name_for_its_objects() {
        assert_eq!(object_name("combined_tasks"), "combined-tasks");
        assert_eq!(object_name("A.b_"), "a-b");
    }
}
