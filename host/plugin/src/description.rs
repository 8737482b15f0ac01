//! What a loaded plugin serves and reads: declared by the guest, checked here.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::Arc;

use joinery_object::{FieldSelector, GroupVersionResource, LabelSelector};
use joinery_resource::{Definition, Security};
use joinery_schema::{Column, ColumnType, Columns, SelectableFields, StructuralSchema};
use joinery_view::{Reach, Relation, SourceSpec, ViewSpec};

use crate::abi::Exported;
use crate::declared::{
    Declared, DeclaredRelation, DeclaredResource, DeclaredShape, DeclaredSource,
};
use crate::policy::{Grant, source_name};
use crate::settings::HostSettings;

/// All that a plugin serves and reads.
#[derive(Debug)]
pub struct Description {
    /// At least one.
    pub resources: Vec<ResourceDescription>,
    /// What its views read.
    pub sources: Vec<SourceSpec>,
}

impl Description {
    /// What the operator must grant it: the groups that it claims, the sources of its views, and what its settings want beyond them. What the rules of stored
    /// resources look up is not declared, and so not in it.
    pub fn asks(&self, settings: &HostSettings) -> Grant {
        let groups: BTreeSet<String> = self
            .resources
            .iter()
            .map(|resource| resource.definition.gvr.group.to_string())
            .collect();
        let sources: BTreeSet<String> = self
            .sources
            .iter()
            .map(|source| source_name(&source.gvr))
            .collect();
        Grant {
            groups: groups.into_iter().collect(),
            sources: sources.into_iter().collect(),
            hosts: Vec::new(),
            definer: settings.security == Security::Definer,
            any_namespace: settings.any_namespace.clone(),
        }
    }

    /// What it asks for and is not granted, one phrase each.
    pub(crate) fn denied(&self, settings: &HostSettings, grant: &Grant) -> Vec<String> {
        let asks = self.asks(settings);
        let groups = asks
            .groups
            .iter()
            .filter(|group| !grant.allows_group(group));
        let sources = asks
            .sources
            .iter()
            .filter(|name| !grant.allows_source_named(name));
        groups
            .map(|group| format!("to claim resources in group {group:?}"))
            .chain(sources.map(|source| format!("to read the source {source:?}")))
            .chain((asks.definer && !grant.definer).then(|| {
                "to show its sources to all who may read its views (security: definer)".to_owned()
            }))
            .chain(
                asks.any_namespace
                    .iter()
                    .filter(|relation| !grant.allows_any_namespace(relation))
                    .map(|relation| {
                        format!("that the relation {relation:?} reaches into any namespace (anyNamespace)")
                    }),
            )
            .collect()
    }
}

/// One resource that a plugin serves.
#[derive(Debug)]
pub struct ResourceDescription {
    /// As discovery, OpenAPI and Tables tell it.
    pub definition: Arc<Definition>,
    /// Its schema, compiled.
    pub schema: StructuralSchema,
    /// Who answers its verbs.
    pub shape: Shape,
}

/// Who answers a resource's verbs.
#[derive(Debug)]
pub enum Shape {
    /// The host stores, [`Generation::admit`](crate::Generation::admit) decides.
    Stored,
    /// [`Generation::join`](crate::Generation::join) composes.
    View(Arc<ViewSpec>),
    /// [`Generation::serve`](crate::Generation::serve) answers; which verbs, the definition says.
    Served,
}

const STORED_VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
const VIEW_VERBS: [&str; 3] = ["get", "list", "watch"];

/// What one plugin may describe. Each resource costs every client of discovery and OpenAPI, not only those who use it.
const MAX_RESOURCES: usize = 64;
const MAX_SOURCES: usize = 64;
const MAX_RELATIONS: usize = 32;
const MAX_COLUMNS: usize = 64;
/// As of a CustomResourceDefinition.
const MAX_SELECTABLE_FIELDS: usize = 8;
/// Of short names, and of categories.
const MAX_NAMES: usize = 16;
/// Bytes of all schemas together; a CustomResourceDefinition as a whole is about so large at most.
const MAX_SCHEMAS: usize = 1 << 20;

/// What is too much of a description to look at it any further.
fn excess(declared: &Declared) -> Vec<String> {
    let mut problems = Vec::new();
    let mut bound = |what: &str, count: usize, most: usize| {
        if count > most {
            problems.push(format!("{what}: {count}, at most {most} are allowed"));
        }
    };
    bound("resources", declared.resources.len(), MAX_RESOURCES);
    bound("sources", declared.sources.len(), MAX_SOURCES);
    let schemas = declared
        .resources
        .iter()
        .map(|resource| resource.schema.len());
    bound("bytes of schemas", schemas.sum(), MAX_SCHEMAS);
    for resource in declared.resources.iter().take(MAX_RESOURCES) {
        let mut of = |what: &str, count, most| {
            bound(&format!("{what} of {:.63}", resource.plural), count, most);
        };
        of("columns", resource.columns.len(), MAX_COLUMNS);
        of(
            "selectable fields",
            resource.selectable_fields.len(),
            MAX_SELECTABLE_FIELDS,
        );
        of("short names", resource.short_names.len(), MAX_NAMES);
        of("categories", resource.categories.len(), MAX_NAMES);
        if let DeclaredShape::View { relations, .. } = &resource.shape {
            of("relations", relations.len(), MAX_RELATIONS);
        }
    }
    problems
}

/// Checks all of it, so that a plugin's writer sees all problems at once.
pub(crate) fn check(
    declared: &Declared,
    exported: Exported,
    any_namespace: &[String],
) -> Result<Description, Vec<String>> {
    let mut problems = excess(declared);
    if !problems.is_empty() {
        return Err(problems);
    }
    if declared.resources.is_empty() {
        problems.push("it serves no resource".to_owned());
    }
    let mut checked = Vec::new();
    let mut names = BTreeSet::new();
    for source in &declared.sources {
        let at = format!("source {:?}", source.name);
        if source.name.is_empty() || !names.insert(&source.name) {
            problems.push(format!("{at}: each source needs a name of its own"));
        }
        checked.push(self::source(source, &mut |problem| {
            problems.push(format!("{at}: {problem}"))
        }));
    }
    let mut resources = Vec::new();
    let mut claimed = BTreeMap::new();
    let mut relations = BTreeSet::new();
    for resource in &declared.resources {
        let at = format!("resource {}.{}", resource.plural, resource.group);
        let mut complain = |problem: String| problems.push(format!("{at}: {problem}"));
        if let Some(version) =
            claimed.insert((&resource.group, &resource.plural), &resource.version)
        {
            complain(if *version == resource.version {
                "declared twice".to_owned()
            } else {
                format!(
                    "described in {version} and in {}: a plugin serves one version of a resource, for there is no \
                     conversion between versions yet; describe one",
                    resource.version
                )
            });
            continue;
        }
        let shape = match &resource.shape {
            DeclaredShape::Stored => {
                if !exported.admission {
                    complain("is stored, so joinery:plugin/admission must be exported".to_owned());
                }
                Some(Shape::Stored)
            }
            DeclaredShape::View {
                primary,
                relations: declared_relations,
            } => {
                if !exported.join {
                    complain("is a view, so joinery:plugin/join must be exported".to_owned());
                }
                for relation in declared_relations {
                    if relation.name.is_empty() || !relations.insert(&relation.name) {
                        complain(format!(
                            "relation {:?}: each needs a name of its own",
                            relation.name
                        ));
                    }
                }
                view(
                    resource,
                    primary,
                    declared_relations,
                    &checked,
                    any_namespace,
                    &mut complain,
                )
                .map(|spec| Shape::View(Arc::new(spec)))
            }
            DeclaredShape::Served(verbs) => {
                if !exported.verbs {
                    complain("is served, so joinery:plugin/verbs must be exported".to_owned());
                }
                served(verbs, &mut complain);
                Some(Shape::Served)
            }
        };
        if let (Some(shape), Some((definition, schema))) =
            (shape, definition(resource, &mut complain))
        {
            resources.push(ResourceDescription {
                definition: Arc::new(definition),
                schema,
                shape,
            });
        }
    }
    for (at, one) in resources.iter().enumerate() {
        let mut before = resources[..at].iter().map(|other| &*other.definition);
        let same = |other: &&Definition| other.gvr.group == one.definition.gvr.group;
        let both =
            before.find_map(|other| Some(other).filter(same)?.name_in_common(&one.definition));
        if let Some(name) = both {
            problems.push(format!(
                "resource {}: {name:?} is a name of another resource of its group too",
                one.definition.gvr.group_resource()
            ));
        }
    }
    for granted in any_namespace
        .iter()
        .filter(|name| !relations.contains(name))
    {
        problems.push(format!(
            "the settings grant anyNamespace to {granted:?}, which is no relation of it"
        ));
    }
    for resource in &resources {
        let gvr = &resource.definition.gvr;
        let same = |s: &&SourceSpec| s.gvr.group == gvr.group && s.gvr.resource == gvr.resource;
        if let (Shape::View(_), Some(source)) = (&resource.shape, checked.iter().find(same)) {
            problems.push(format!("source {:?} is a view of this plugin", source.name));
        }
    }
    if problems.is_empty() {
        Ok(Description {
            resources,
            sources: checked,
        })
    } else {
        Err(problems)
    }
}

/// What the guest may answer.
const GUEST_VERBS: [&str; 5] = ["create", "delete", "get", "list", "update"];

fn served(verbs: &[String], complain: &mut impl FnMut(String)) {
    let known = |verb: &String| GUEST_VERBS.contains(&verb.as_str());
    for verb in verbs.iter().filter(|verb| !known(verb)) {
        complain(format!(
            "verb {verb:?} is none that a plugin answers: get, list, create, update and delete are; the host derives \
             watch, patch and deletecollection"
        ));
    }
    let has = |verb: &str| verbs.iter().any(|v| v == verb);
    // Everything else rests on it: etags, preconditions, what a delete shows.
    if !has("get") {
        complain("its verbs lack get, which every resource has".to_owned());
    }
}

/// The verbs that the guest answers, and those that follow from them.
fn with_derived(verbs: &[String]) -> Vec<&'static str> {
    let has = |verb: &str| verbs.iter().any(|v| v == verb);
    let own = GUEST_VERBS.into_iter().filter(|verb| has(verb));
    let derived = [
        ("watch", has("list")),
        ("patch", has("update")),
        ("deletecollection", has("list") && has("delete")),
    ];
    let derived = derived
        .into_iter()
        .filter_map(|(verb, so)| so.then_some(verb));
    let mut all: Vec<_> = own.chain(derived).collect();
    all.sort_unstable();
    all
}

fn definition(
    resource: &DeclaredResource,
    complain: &mut impl FnMut(String),
) -> Option<(Definition, StructuralSchema)> {
    names(resource, complain);
    for option in &resource.options {
        complain(format!("option {option:?} is not known to this host"));
    }
    if resource.scale {
        complain("subresource scale is not known to this host: status is".to_owned());
    }
    if resource.status && !matches!(resource.shape, DeclaredShape::Stored) {
        complain("only stored resources have a subresource status".to_owned());
    }
    let schema = StructuralSchema::parse(&resource.schema)
        .map_err(|error| complain(format!("schema: {error}")))
        .ok();
    if let Some(schema) = &schema
        && let Err(error) = SelectableFields::compile(&resource.selectable_fields, schema)
    {
        complain(error.to_string());
    }
    let columns: Result<Vec<Column>, _> = resource
        .columns
        .iter()
        .map(|column| {
            Ok(Column {
                name: column.name.clone(),
                column_type: ColumnType::from_str(&column.kind)?,
                format: column.format.clone(),
                description: column.description.clone(),
                json_path: column.json_path.clone(),
                priority: column.priority,
            })
        })
        .collect();
    let columns = columns
        .and_then(|columns| Columns::compile(&columns))
        .map_err(|error| complain(error.to_string()));
    let verbs = match &resource.shape {
        DeclaredShape::Stored => STORED_VERBS.to_vec(),
        DeclaredShape::View { .. } => VIEW_VERBS.to_vec(),
        DeclaredShape::Served(verbs) => with_derived(verbs),
    };
    let definition = Definition {
        gvr: GroupVersionResource::new(&resource.group, &resource.version, &resource.plural),
        kind: resource.kind.clone(),
        list_kind: resource
            .list_kind
            .clone()
            .unwrap_or_else(|| format!("{}List", resource.kind)),
        singular: resource
            .singular
            .clone()
            .unwrap_or_else(|| resource.kind.to_lowercase()),
        short_names: resource.short_names.clone(),
        categories: resource.categories.clone(),
        namespaced: resource.namespaced,
        verbs,
        status_subresource: resource.status,
        schema: resource.schema.as_str().into(),
        columns: columns.ok()?,
        selectable_fields: resource.selectable_fields.clone(),
    };
    Some((definition, schema?))
}

/// Why no plugin may claim this group, if so.
pub fn group_problem(group: &str) -> Option<String> {
    let within = |domain: &str| group == domain || group.ends_with(&format!(".{domain}"));
    let why = if !group.contains('.') {
        "has no dot: groups without one are built in; take a domain of your own"
    } else if within("k8s.io") || within("kubernetes.io") {
        "belongs to Kubernetes: take a domain of your own"
    } else if within("joinery.dev") {
        "belongs to Joinery itself: take a domain of your own"
    } else if !group.split('.').all(label) || group.len() > 253 {
        "is no DNS name in lower case"
    } else {
        return None;
    };
    Some(format!("group {group:?} {why}"))
}

/// What a resource may be called, and which groups are anybody's.
fn names(resource: &DeclaredResource, complain: &mut impl FnMut(String)) {
    let DeclaredResource {
        group,
        version,
        kind,
        plural,
        ..
    } = resource;
    if let Some(problem) = group_problem(group) {
        complain(problem);
    }
    if !is_version(version) {
        complain(format!(
            "version {version:?} must be like v1, v1beta2 or v2alpha1"
        ));
    }
    for (what, name) in [
        ("kind", Some(kind)),
        ("list kind", resource.list_kind.as_ref()),
    ] {
        let Some(name) = name else { continue };
        let word = name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !word || name.len() > 63 || !name.starts_with(|c: char| c.is_ascii_uppercase()) {
            complain(format!("{what} {name:?} must be like CombinedTask"));
        } else if KINDS_OF_KUBERNETES.contains(&name.as_str()) {
            complain(format!(
                "{what} {name:?} is one of Kubernetes' own in every group"
            ));
        }
    }
    if resource.list_kind.as_ref() == Some(kind) {
        complain(format!("list kind {kind:?} must be another than the kind"));
    }
    let others = resource.singular.iter().chain(&resource.short_names);
    for name in std::iter::once(plural)
        .chain(others)
        .chain(&resource.categories)
    {
        if !label(name) {
            complain(format!(
                "{name:?} must be letters in lower case, digits and '-', from 1 to 63"
            ));
        }
    }
    if resource.categories.iter().any(|category| category == "all") {
        complain("category all is for what users own and delete: take another".to_owned());
    }
}

/// What clients take for no resource of the group, whatever the group.
const KINDS_OF_KUBERNETES: [&str; 14] = [
    "APIGroup",
    "APIGroupList",
    "APIResourceList",
    "APIVersions",
    "DeleteOptions",
    "GetOptions",
    "List",
    "ListOptions",
    "PartialObjectMetadata",
    "PartialObjectMetadataList",
    "Scale",
    "Status",
    "Table",
    "WatchEvent",
];

/// A DNS label, as RFC 1035 and Kubernetes have it.
fn label(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&name.len())
        && name.chars().all(inner)
        && !name.starts_with(|c: char| c == '-' || c.is_ascii_digit())
        && !name.ends_with('-')
}

fn is_version(version: &str) -> bool {
    let number = |text: &str| {
        !text.is_empty() && !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit())
    };
    let Some(rest) = version.strip_prefix('v') else {
        return false;
    };
    match rest.split_once("alpha").or_else(|| rest.split_once("beta")) {
        Some((major, minor)) => number(major) && number(minor),
        None => number(rest),
    }
}

fn source(source: &DeclaredSource, complain: &mut impl FnMut(String)) -> SourceSpec {
    if !label(&source.resource) || !is_version(&source.version) {
        complain(format!(
            "reads {:?} {:?}, which is no resource",
            source.version, source.resource
        ));
    }
    if let Err(error) = source.label_selector.parse::<LabelSelector>() {
        complain(format!("label selector: {error}"));
    }
    if let Err(error) = source.field_selector.parse::<FieldSelector>() {
        complain(format!("field selector: {error}"));
    }
    for pointer in source.reads.iter().filter(|p| !p.starts_with('/')) {
        complain(format!(
            "reads {pointer:?}, which is no JSON pointer such as /spec/nodeName"
        ));
    }
    for option in &source.options {
        complain(format!("option {option:?} is not known to this host"));
    }
    SourceSpec {
        name: source.name.clone(),
        gvr: GroupVersionResource::new(&source.group, &source.version, &source.resource),
        label_selector: source.label_selector.clone(),
        field_selector: source.field_selector.clone(),
        reads: source.reads.clone(),
        optional: source.optional,
    }
}

fn view(
    resource: &DeclaredResource,
    primary: &str,
    relations: &[DeclaredRelation],
    declared: &[SourceSpec],
    any_namespace: &[String],
    complain: &mut impl FnMut(String),
) -> Option<ViewSpec> {
    let mut sources: Vec<SourceSpec> = Vec::new();
    let mut index = |name: &str| {
        if let Some(index) = sources.iter().position(|source| source.name == name) {
            return Some(index);
        }
        sources.push(declared.iter().find(|source| source.name == name)?.clone());
        Some(sources.len() - 1)
    };
    if index(primary).is_none() {
        complain(format!("its primary {primary:?} is no source"));
        return None;
    }
    let mut checked: Vec<Relation> = Vec::new();
    for relation in relations {
        let at = format!("relation {:?}", relation.name);
        let Some(source) = index(&relation.source) else {
            complain(format!("{at}: {:?} is no source", relation.source));
            return None;
        };
        let parent = match &relation.parent {
            None => None,
            Some(name) => match checked.iter().position(|relation| &relation.name == name) {
                Some(parent) => Some(parent),
                None => {
                    complain(format!(
                        "{at}: its parent {name:?} is no relation before it"
                    ));
                    return None;
                }
            },
        };
        if relation.limit == 0 {
            complain(format!("{at}: its limit must be at least 1"));
        }
        if relation.any_namespace && !any_namespace.contains(&relation.name) {
            complain(format!(
                "{at} reaches into any namespace: to allow that, the settings need anyNamespace: [{}]",
                relation.name
            ));
        }
        let reach = if relation.any_namespace {
            Reach::AnyNamespace
        } else {
            Reach::SameNamespace
        };
        checked.push(Relation {
            name: relation.name.clone(),
            source,
            parent,
            reach,
            limit: relation.limit,
        });
    }
    Some(ViewSpec {
        resource: GroupVersionResource::new(&resource.group, &resource.version, &resource.plural),
        kind: resource.kind.clone(),
        sources,
        relations: checked,
    })
}

#[cfg(test)]
mod tests;
