use super::*;
use crate::StructuralSchema;

pub(super) fn combined_task() -> ResourceDoc {
    ResourceDoc {
        group: "aggregated.tasks.example.com".to_owned(),
        version: "v1".to_owned(),
        kind: "CombinedTask".to_owned(),
        list_kind: "CombinedTaskList".to_owned(),
        plural: "combinedtasks".to_owned(),
        namespaced: true,
        verbs: ["get", "list", "watch"].map(str::to_owned).into(),
        schema: StructuralSchema::from_value(
            json!({"type": "object", "description": "A Task with its Events.",
            "properties": {"spec": {"type": "object", "required": ["note", "port"], "properties": {
                "note": {"type": "string", "nullable": true},
                "port": {"x-kubernetes-int-or-string": true},
                "kept": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"a": {"type": "string"}}},
                "either": {"type": "object", "properties": {"a": {"type": "string"}},
                    "oneOf": [{"required": ["a"]}, {"maxProperties": 0}]},
                "pod": {"type": "object", "x-kubernetes-embedded-resource": true,
                    "properties": {"spec": {"type": "object"}}},
            }}}}),
        )
        .unwrap(),
        subresources: Vec::new(),
        selectable_fields: vec!["spec.note".to_owned()],
    }
}

pub(super) fn custom_task() -> ResourceDoc {
    ResourceDoc {
        kind: "CustomTask".to_owned(),
        list_kind: "CustomTaskList".to_owned(),
        plural: "customtasks".to_owned(),
        verbs: [
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ]
        .map(str::to_owned)
        .into(),
        subresources: vec![ResourceSubresource::Status, ResourceSubresource::Scale],
        ..combined_task()
    }
}

fn v2(docs: &[ResourceDoc]) -> Value {
    serde_json::from_slice(&openapi_v2(docs).body).unwrap()
}

fn v3(docs: &[ResourceDoc]) -> Value {
    serde_json::from_slice(&openapi_v3_group_version(docs).body).unwrap()
}

const BASE: &str = "/apis/aggregated.tasks.example.com/v1";

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(target)) = fields.get("$ref") {
                found.push(target.clone());
            }
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn every_reference_is_literally_a_key_and_every_key_is_plain() {
    let docs = [combined_task(), custom_task()];
    for (document, prefix, pointer) in [
        (v2(&docs), "#/definitions/", "/definitions"),
        (v3(&docs), "#/components/schemas/", "/components/schemas"),
    ] {
        let definitions = document
            .pointer(pointer)
            .and_then(Value::as_object)
            .unwrap();
        for name in definitions.keys() {
            assert!(
                name.bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)),
                "{name}"
            );
        }
        assert!(definitions.contains_key("com.example.tasks.aggregated.v1.CombinedTask"));
        assert!(definitions.contains_key("com.example.tasks.aggregated.v1.CombinedTaskList"));
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 20, "{}", found.len());
        for target in found {
            let name = target
                .strip_prefix(prefix)
                .unwrap_or_else(|| panic!("{target}"));
            assert!(definitions.contains_key(name), "{target}");
        }
    }
}

#[test]
fn only_served_verbs_are_operations() {
    let paths = &v2(&[combined_task(), custom_task()])["paths"];
    let methods = |path: &str| -> Vec<&str> {
        let item = paths[format!("{BASE}{path}")].as_object();
        item.map(|item| {
            item.keys()
                .map(String::as_str)
                .filter(|key| *key != "parameters")
                .collect()
        })
        .unwrap_or_default()
    };
    assert_eq!(methods("/combinedtasks"), ["get"]);
    assert_eq!(methods("/namespaces/{namespace}/combinedtasks"), ["get"]);
    assert_eq!(
        methods("/namespaces/{namespace}/combinedtasks/{name}"),
        ["get"]
    );
    assert_eq!(
        methods("/namespaces/{namespace}/combinedtasks/{name}/status"),
        [""; 0]
    );
    assert_eq!(
        methods("/namespaces/{namespace}/customtasks"),
        ["delete", "get", "post"]
    );
    assert_eq!(
        methods("/namespaces/{namespace}/customtasks/{name}"),
        ["delete", "get", "patch", "put"]
    );
    assert_eq!(
        methods("/namespaces/{namespace}/customtasks/{name}/status"),
        ["get", "patch", "put"]
    );
}

#[test]
fn patch_says_what_kubectl_looks_for() {
    let docs = [custom_task()];
    let path = format!("{BASE}/namespaces/{{namespace}}/customtasks/{{name}}");
    let patch = &v2(&docs)["paths"][&path]["patch"];
    assert_eq!(
        patch["consumes"],
        json!([
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/apply-patch+yaml"
        ])
    );
    assert_eq!(patch["x-kubernetes-action"], "patch");
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "aggregated.tasks.example.com", "version": "v1", "kind": "CustomTask"})
    );
    assert_eq!(
        patch["operationId"],
        "patchAggregatedTasksExampleComV1NamespacedCustomTask"
    );
    assert_eq!(patch["tags"], json!(["aggregatedTasksExampleCom_v1"]));
    let names = |operation: &Value| -> Vec<String> {
        let parameters = operation["parameters"].as_array().unwrap();
        parameters
            .iter()
            .map(|p| p["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        names(patch),
        ["dryRun", "fieldManager", "fieldValidation", "force", "body"]
    );

    let patch = &v3(&docs)["paths"][&path]["patch"];
    assert_eq!(
        names(patch),
        ["dryRun", "fieldManager", "fieldValidation", "force"]
    );
    let body: Vec<&str> = patch["requestBody"]["content"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        body,
        [
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json"
        ]
    );
}

#[test]
fn v2_drops_what_it_cannot_say() {
    let spec = &v2(&[combined_task()])["definitions"]["com.example.tasks.aggregated.v1.CombinedTask"]
        ["properties"]["spec"];
    assert_eq!(
        spec["required"],
        json!(["port"]),
        "what may be null is not required"
    );
    assert_eq!(spec["properties"]["note"], json!({}));
    assert_eq!(
        spec["properties"]["port"],
        json!({"x-kubernetes-int-or-string": true})
    );
    assert_eq!(
        spec["properties"]["kept"],
        json!({"x-kubernetes-preserve-unknown-fields": true})
    );
    assert_eq!(
        spec["properties"]["either"],
        json!({"type": "object", "properties": {"a": {"type": "string"}}})
    );
    let pod = &spec["properties"]["pod"];
    assert_eq!(pod["required"], json!(["kind", "apiVersion"]));
    assert_eq!(
        pod["properties"]["metadata"]["$ref"],
        "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
}

#[test]
fn v3_keeps_all_that_the_schema_says() {
    let document = v3(&[combined_task()]);
    let schema = &document["components"]["schemas"]["com.example.tasks.aggregated.v1.CombinedTask"];
    assert_eq!(schema["description"], "A Task with its Events.");
    assert_eq!(
        schema["x-kubernetes-group-version-kind"],
        json!([{"group": "aggregated.tasks.example.com", "version": "v1", "kind": "CombinedTask"}])
    );
    assert_eq!(
        schema["x-kubernetes-selectable-fields"],
        json!([{"fieldPath": "spec.note"}])
    );
    assert_eq!(
        schema["properties"]["metadata"]["allOf"],
        json!([{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}])
    );
    let spec = &schema["properties"]["spec"];
    assert_eq!(
        spec["properties"]["note"],
        json!({"type": "string", "nullable": true})
    );
    assert_eq!(
        spec["properties"]["either"]["oneOf"],
        json!([{"required": ["a"]}, {"maxProperties": 0}])
    );
    assert_eq!(
        spec["properties"]["port"],
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]})
    );
}

#[test]
fn shared_definitions_have_the_extensions_of_upstream() {
    let definitions = &v2(&[combined_task()])["definitions"];
    let meta = "io.k8s.apimachinery.pkg.apis.meta.v1.";
    assert_eq!(
        definitions[format!("{meta}ObjectMeta")]["properties"]["ownerReferences"]["x-kubernetes-list-map-keys"],
        json!(["uid"])
    );
    assert_eq!(
        definitions[format!("{meta}Status")]["x-kubernetes-group-version-kind"],
        json!([{"group": "", "version": "v1", "kind": "Status"}])
    );
    for name in [
        "ListMeta",
        "DeleteOptions",
        "Patch",
        "Time",
        "FieldsV1",
        "Preconditions",
        "StatusCause",
    ] {
        assert!(
            definitions[format!("{meta}{name}")]["description"].is_string(),
            "{name}"
        );
    }
    assert!(
        definitions.get("io.k8s.api.autoscaling.v1.Scale").is_none(),
        "nothing scales here"
    );
    for (path, extensions) in super::meta::EXTENSIONS {
        let mut schema = definitions;
        for key in path {
            schema = schema
                .get(key)
                .unwrap_or_else(|| panic!("{path:?} is gone upstream"));
        }
        for (key, value) in serde_json::from_str::<Map<String, Value>>(extensions).unwrap() {
            assert_eq!(schema[&key], value, "{path:?}");
        }
    }
}

#[test]
fn the_root_names_each_document_by_its_hash() {
    let document = openapi_v3_group_version(&[combined_task()]);
    assert_eq!(document.etag.len(), 128);
    assert_eq!(document.etag, document.etag.to_uppercase());
    let documents = BTreeMap::from([(
        "apis/aggregated.tasks.example.com/v1".to_owned(),
        document.clone(),
    )]);
    let root: Value = serde_json::from_slice(&openapi_v3_root(&documents).body).unwrap();
    assert_eq!(
        root,
        json!({"paths": {"apis/aggregated.tasks.example.com/v1": {"serverRelativeURL":
            format!("/openapi/v3/apis/aggregated.tasks.example.com/v1?hash={}", document.etag)}}})
    );
    assert_ne!(
        document.etag,
        openapi_v3_group_version(&[custom_task()]).etag
    );
}

#[test]
fn the_core_group_has_no_name() {
    let core = ResourceDoc {
        group: String::new(),
        ..combined_task()
    };
    assert_eq!(core.check(), Ok(()));
    assert_eq!(core.root(), "api/v1");
    let document: Value = serde_json::from_slice(&openapi_v3_group_version(&[core]).body).unwrap();
    let schemas = &document["components"]["schemas"];
    assert!(schemas["io.k8s.api.core.v1.CombinedTask"].is_object());
    let path = "/api/v1/namespaces/{namespace}/combinedtasks";
    assert!(document["paths"][path].is_object(), "{}", document["paths"]);
}

#[test]
fn names_that_would_break_the_document_are_refused() {
    assert_eq!(combined_task().check(), Ok(()));
    let field = |doc: ResourceDoc| doc.check().unwrap_err().field;
    assert_eq!(
        field(ResourceDoc {
            kind: "a/B".to_owned(),
            ..combined_task()
        }),
        "kind"
    );
    assert_eq!(
        field(ResourceDoc {
            list_kind: "Combined~List".to_owned(),
            ..combined_task()
        }),
        "listKind"
    );
    assert_eq!(
        field(ResourceDoc {
            list_kind: "CombinedTask".to_owned(),
            ..combined_task()
        }),
        "listKind"
    );
    assert_eq!(
        field(ResourceDoc {
            group: "tasks".to_owned(),
            ..combined_task()
        }),
        "group"
    );
    assert_eq!(
        field(ResourceDoc {
            version: "V1".to_owned(),
            ..combined_task()
        }),
        "version"
    );
    assert_eq!(
        field(ResourceDoc {
            plural: "combinedTasks".to_owned(),
            ..combined_task()
        }),
        "plural"
    );
    assert_eq!(
        field(ResourceDoc {
            verbs: vec!["fetch".to_owned()],
            ..combined_task()
        }),
        "verbs"
    );
}
