//! The definitions that all Kubernetes APIs share.
//!
//! The aggregator keeps one definition when two documents have the same name and content, and renames the second when
//! only the name is the same. A renamed Status or DeleteOptions would claim the same kind twice, which clients refuse.
//! So these are taken as upstream publishes them, from k8s-openapi, and completed with the extensions that it lacks.

use std::sync::LazyLock;

use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    DeleteOptions, ListMeta, ObjectMeta, Patch, Status,
};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::resource::{ResourceDoc, ResourceSubresource, group_versions};
use super::{Version, convert};

pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
pub(super) const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub(super) const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// As in OpenAPI v2, without kinds.
static DEFINITIONS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let mut generator = SchemaSettings::draft07().into_generator();
    generator.subschema_for::<ObjectMeta>();
    generator.subschema_for::<ListMeta>();
    generator.subschema_for::<Status>();
    generator.subschema_for::<DeleteOptions>();
    generator.subschema_for::<Patch>();
    generator.subschema_for::<Scale>();
    let mut definitions: Map<String, Value> =
        generator.take_definitions(false).into_iter().collect();
    for (pointer, extensions) in EXTENSIONS {
        let extensions = serde_json::from_str::<Map<String, Value>>(extensions).unwrap_or_default();
        if let Some(Value::Object(schema)) = lookup(&mut definitions, pointer) {
            schema.extend(extensions);
        }
    }
    // Of its own, k8s-openapi requires metadata.
    for schema in definitions.values_mut().filter_map(Value::as_object_mut) {
        if schema.get("required") == Some(&json!(["metadata"])) {
            schema.remove("required");
        }
    }
    definitions
});

/// What k8s-openapi leaves out: how lists and maps merge.
pub(super) const EXTENSIONS: [(&[&str], &str); 6] = [
    (
        &[OBJECT_META, "properties", "finalizers"],
        r#"{"x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"}"#,
    ),
    (
        &[OBJECT_META, "properties", "managedFields"],
        r#"{"x-kubernetes-list-type": "atomic"}"#,
    ),
    (
        &[OBJECT_META, "properties", "ownerReferences"],
        r#"{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
            "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "uid"}"#,
    ),
    (
        &["io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference"],
        r#"{"x-kubernetes-map-type": "atomic"}"#,
    ),
    (
        &[
            "io.k8s.apimachinery.pkg.apis.meta.v1.StatusDetails",
            "properties",
            "causes",
        ],
        r#"{"x-kubernetes-list-type": "atomic"}"#,
    ),
    (
        &[DELETE_OPTIONS, "properties", "dryRun"],
        r#"{"x-kubernetes-list-type": "atomic"}"#,
    ),
];

fn lookup<'a>(definitions: &'a mut Map<String, Value>, path: &[&str]) -> Option<&'a mut Value> {
    let (first, rest) = path.split_first()?;
    rest.iter()
        .try_fold(definitions.get_mut(*first)?, |value, key| {
            value.get_mut(*key)
        })
}

/// What upstream says of a field of ObjectMeta.
pub(crate) fn description(field: &str) -> String {
    described(OBJECT_META, field)
}

/// What upstream says of a field of one of these definitions.
pub(super) fn described(definition: &str, field: &str) -> String {
    let text = DEFINITIONS
        .get(definition)
        .and_then(|definition| definition["properties"][field]["description"].as_str());
    text.unwrap_or_default().to_owned()
}

/// The shared definitions that the documents of these resources need.
pub(super) fn definitions(docs: &[ResourceDoc], version: Version) -> Map<String, Value> {
    let scales = docs
        .iter()
        .any(|doc| doc.subresources.contains(&ResourceSubresource::Scale));
    let mut definitions: Map<String, Value> = DEFINITIONS
        .iter()
        .filter(|(name, _)| scales || !name.starts_with(SCALE))
        .map(|(name, schema)| (name.clone(), schema.clone()))
        .collect();
    // Any group may be deleted from, so each has the kind; the aggregator adds them up.
    let delete_options: Vec<Value> = group_versions(docs)
        .into_iter()
        .map(
            |(group, version)| json!({"group": group, "version": version, "kind": "DeleteOptions"}),
        )
        .collect();
    for (name, kinds) in [
        (
            STATUS,
            json!([{"group": "", "version": "v1", "kind": "Status"}]),
        ),
        (DELETE_OPTIONS, Value::Array(delete_options)),
        (
            SCALE,
            json!([{"group": "autoscaling", "version": "v1", "kind": "Scale"}]),
        ),
    ] {
        if let Some(Value::Object(schema)) = definitions.get_mut(name) {
            schema.insert(convert::KINDS.to_owned(), kinds);
        }
    }
    if version == Version::V3 {
        definitions.values_mut().for_each(convert::references_to_v3);
    }
    definitions
}
