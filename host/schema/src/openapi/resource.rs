use std::collections::BTreeSet;

use crate::structural::StructuralSchema;

/// What OpenAPI says of one resource.
#[derive(Clone, Debug)]
pub struct ResourceDoc {
    /// API group; not the core group.
    pub group: String,
    /// API version, e.g. `v1`.
    pub version: String,
    /// Kind of the objects.
    pub kind: String,
    /// Kind of their list.
    pub list_kind: String,
    /// Plural in lower case, as in the path.
    pub plural: String,
    /// Whether the objects live in namespaces.
    pub namespaced: bool,
    /// The verbs that are served.
    pub verbs: Vec<String>,
    /// The schema of the kind.
    pub schema: StructuralSchema,
    /// What else is served below the objects.
    pub subresources: Vec<ResourceSubresource>,
    /// Names that a field selector may use besides metadata's, e.g. `spec.state`.
    pub selectable_fields: Vec<String>,
}

/// A subresource, with the verbs get, patch and update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceSubresource {
    /// `/status`, the object itself.
    Status,
    /// `/scale`, an autoscaling/v1 Scale.
    Scale,
}

/// A resource whose names would break the documents of the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {value:?} {detail}")]
pub struct DocError {
    /// Which name: `group`, `version`, `kind`, `listKind`, `plural` or `verbs`.
    pub field: &'static str,
    /// As given.
    pub value: String,
    /// What is allowed.
    pub detail: String,
}

const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

impl ResourceDoc {
    /// Checks the names, of which those of the definitions are made: kube-apiserver cannot read a document whose
    /// definition names hold a slash or a tilde.
    ///
    /// # Errors
    /// The first name that is not allowed.
    pub fn check(&self) -> Result<(), DocError> {
        let fail = |field, value: &str, detail: &str| {
            Err(DocError {
                field,
                value: value.to_owned(),
                detail: detail.to_owned(),
            })
        };
        // The core group has no name.
        if !self.group.is_empty()
            && (self.group.len() > 253
                || !self.group.contains('.')
                || !self.group.split('.').all(is_label))
        {
            return fail(
                "group",
                &self.group,
                "must be a DNS-1123 subdomain with at least one dot",
            );
        }
        for (field, value) in [("version", &self.version), ("plural", &self.plural)] {
            if !is_label(value) || !value.starts_with(|c: char| c.is_ascii_lowercase()) {
                return fail(
                    field,
                    value,
                    "must be a DNS-1035 label: a-z, 0-9 and -, beginning with a letter",
                );
            }
        }
        for (field, value) in [("kind", &self.kind), ("listKind", &self.list_kind)] {
            let lower = value.to_ascii_lowercase();
            if !is_label(&lower) || !lower.starts_with(|c: char| c.is_ascii_lowercase()) {
                return fail(
                    field,
                    value,
                    "must be letters, 0-9 and -, beginning with a letter, in CamelCase",
                );
            }
        }
        if self.kind == self.list_kind {
            return fail("listKind", &self.list_kind, "must not be the kind itself");
        }
        if let Some(verb) = self
            .verbs
            .iter()
            .find(|verb| !VERBS.contains(&verb.as_str()))
        {
            return fail(
                "verbs",
                verb,
                &format!("is not a verb, allowed: {}", VERBS.join(", ")),
            );
        }
        Ok(())
    }

    /// Name of the kind's definition: the group reversed, the version, the kind.
    pub(super) fn definition(&self) -> String {
        self.name_of(&self.kind)
    }

    pub(super) fn list_definition(&self) -> String {
        self.name_of(&self.list_kind)
    }

    /// Where the resources of the group and version are below the server's root: `apis/<group>/<version>`, or
    /// `api/<version>` for the core group.
    #[must_use]
    pub fn root(&self) -> String {
        if self.group.is_empty() {
            format!("api/{}", self.version)
        } else {
            format!("apis/{}/{}", self.group, self.version)
        }
    }

    fn name_of(&self, kind: &str) -> String {
        if self.group.is_empty() {
            return format!("io.k8s.api.core.{}.{kind}", self.version);
        }
        let mut parts: Vec<&str> = self.group.split('.').collect();
        parts.reverse();
        format!("{}.{}.{kind}", parts.join("."), self.version)
    }

    pub(super) fn has(&self, verb: &str) -> bool {
        self.verbs.iter().any(|other| other == verb)
    }
}

/// The groups and versions of some resources.
pub(super) fn group_versions(docs: &[ResourceDoc]) -> BTreeSet<(&str, &str)> {
    docs.iter()
        .map(|doc| (doc.group.as_str(), doc.version.as_str()))
        .collect()
}

fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| inner(b) || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}
