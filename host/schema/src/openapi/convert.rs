//! From structural schemas to what OpenAPI publishes of them.

use serde_json::{Map, Value, json};

use super::resource::ResourceDoc;
use super::{Version, meta};

/// The extension that says which kinds a schema is of.
pub(super) const KINDS: &str = "x-kubernetes-group-version-kind";

const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// The schema of the kind, with the fields that each object has.
pub(super) fn object(doc: &ResourceDoc, version: Version) -> Value {
    let source = doc.schema.source();
    // kubectl would take any listed field for the only ones: where v2 clients must accept all, nothing is listed.
    let mut schema = if version == Version::V2 && is_true(source, PRESERVE) {
        json!({"type": "object"})
    } else {
        let mut schema = published(source, version);
        add_resource_fields(&mut schema, version);
        schema
    };
    schema[KINDS] = json!([{"group": doc.group, "version": doc.version, "kind": doc.kind}]);
    add_selectable_fields(&mut schema, doc, version);
    schema
}

/// The schema of the list kind.
pub(super) fn list(doc: &ResourceDoc, version: Version) -> Value {
    let mut schema = json!({
        "description": format!("{} is a list of {}", doc.list_kind, doc.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": type_field("apiVersion"),
            "kind": type_field("kind"),
            "metadata": reference(meta::LIST_META, "Standard list metadata.", version),
            "items": {
                "description": format!("List of {}.", doc.plural),
                "type": "array",
                "items": {"$ref": version.reference(&doc.definition())},
            },
        },
        KINDS: [{"group": doc.group, "version": doc.version, "kind": doc.list_kind}],
    });
    add_selectable_fields(&mut schema, doc, version);
    schema
}

fn add_selectable_fields(schema: &mut Value, doc: &ResourceDoc, version: Version) {
    if version == Version::V3 && !doc.selectable_fields.is_empty() {
        let fields: Vec<Value> = doc
            .selectable_fields
            .iter()
            .map(|field| json!({"fieldPath": field}))
            .collect();
        schema["x-kubernetes-selectable-fields"] = Value::Array(fields);
    }
}

fn type_field(name: &str) -> Value {
    json!({"type": "string", "description": meta::described(meta::STATUS, name)})
}

/// A reference with a description. OpenAPI v3 allows nothing beside a reference, v2 as Kubernetes reads it does.
fn reference(name: &str, description: &str, version: Version) -> Value {
    let target = version.reference(name);
    match version {
        Version::V2 => json!({"$ref": target, "description": description}),
        Version::V3 => json!({"allOf": [{"$ref": target}], "description": description}),
    }
}

/// Rewrites the references of a v2 schema, in place.
pub(super) fn references_to_v3(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let target = fields
                .get("$ref")
                .and_then(Value::as_str)
                .and_then(|target| target.strip_prefix("#/definitions/"));
            if let Some(target) = target.map(|name| Version::V3.reference(name)) {
                if fields.len() == 1 {
                    fields["$ref"] = target.into();
                } else {
                    fields.remove("$ref");
                    fields.insert("allOf".to_owned(), json!([{"$ref": target}]));
                }
                return;
            }
            fields.values_mut().for_each(references_to_v3);
        }
        Value::Array(items) => items.iter_mut().for_each(references_to_v3),
        _ => {}
    }
}

fn is_true(schema: &Value, key: &str) -> bool {
    schema.get(key) == Some(&Value::Bool(true))
}

fn published(source: &Value, version: Version) -> Value {
    let Value::Object(fields) = source else {
        return source.clone();
    };
    let mut schema = fields.clone();
    match version {
        Version::V2 => reduce_to_v2(&mut schema),
        Version::V3 => spell_out_int_or_string(&mut schema),
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut() {
            *property = published(property, version);
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = schema.get_mut(key) {
            *child = published(child, version);
        }
    }
    let embedded = is_true(source, EMBEDDED);
    let mut schema = Value::Object(schema);
    if embedded && !(version == Version::V2 && is_true(source, PRESERVE)) {
        add_resource_fields(&mut schema, version);
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let missing = ["kind", "apiVersion"]
            .map(Value::from)
            .into_iter()
            .filter(|name| !required.contains(name));
        schema["required"] = required.iter().cloned().chain(missing).collect();
    }
    schema
}

/// As kube-apiserver describes it for custom resources, whatever their schema says (apiextensions-apiserver,
/// pkg/controller/openapi/builder).
const METADATA: &str = "Standard object's metadata. More info: \
                        https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

fn add_resource_fields(schema: &mut Value, version: Version) {
    schema["properties"]["apiVersion"] = type_field("apiVersion");
    schema["properties"]["kind"] = type_field("kind");
    schema["properties"]["metadata"] = reference(meta::OBJECT_META, METADATA, version);
}

/// Drops what v2 cannot say (`allOf` and its like, `nullable`), and what kubectl would take too strictly: an untyped
/// value with listed fields, a list without items, a field that may be null among the required.
fn reduce_to_v2(schema: &mut Map<String, Value>) {
    for key in ["allOf", "anyOf", "oneOf", "not"] {
        schema.remove(key);
    }
    let is_set =
        |schema: &Map<String, Value>, key: &str| schema.get(key) == Some(&Value::Bool(true));
    let preserve = is_set(schema, PRESERVE);
    if is_set(schema, "nullable") {
        schema.remove("type");
        schema.remove("items");
        schema.remove("properties");
    }
    schema.remove("nullable");
    if preserve {
        schema.remove("items");
        schema.remove("properties");
    }
    let type_name = schema.get("type").and_then(Value::as_str);
    if (type_name == Some("array") && !schema.contains_key("items"))
        || (type_name == Some("object") && preserve)
    {
        schema.remove("type");
    }
    let nullable =
        |property: Option<&Value>| property.is_some_and(|property| is_true(property, "nullable"));
    let properties = schema.get("properties").cloned().unwrap_or_default();
    let all_nullable = nullable(schema.get("additionalProperties"));
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| {
            !all_nullable && !nullable(name.as_str().and_then(|name| properties.get(name)))
        });
        if required.is_empty() {
            schema.remove("required");
        }
    }
}

/// Says in plain OpenAPI what `x-kubernetes-int-or-string` means.
fn spell_out_int_or_string(schema: &mut Map<String, Value>) {
    if schema.get(INT_OR_STRING) != Some(&Value::Bool(true)) {
        return;
    }
    let both = json!([{"type": "integer"}, {"type": "string"}]);
    let said = |any: Option<&Value>| any == Some(&both);
    if said(schema.get("anyOf"))
        || said(
            schema
                .get("allOf")
                .and_then(|all| all.get(0))
                .and_then(|first| first.get("anyOf")),
        )
    {
        return;
    }
    if schema.contains_key("anyOf") {
        let mut all = vec![json!({"anyOf": both})];
        all.extend(
            schema
                .get("allOf")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default(),
        );
        schema.insert("allOf".to_owned(), Value::Array(all));
    } else {
        schema.insert("anyOf".to_owned(), both);
    }
}
