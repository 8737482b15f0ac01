use serde_json::{Value, json};

use super::parse::KEYS;
use crate::StructuralSchema;

fn problems(source: Value) -> Vec<String> {
    match StructuralSchema::from_value(source) {
        Ok(_) => Vec::new(),
        Err(error) => error
            .problems
            .iter()
            .map(|p| format!("{}: {}", p.field, p.detail))
            .collect(),
    }
}

#[test]
fn each_problem_names_its_field_and_what_is_allowed() {
    assert_eq!(
        problems(json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "a": {},
            "b": {"type": "float"},
            "c": {"$ref": "#/definitions/x"},
            "d": {"type": "array"},
            "e": {"type": "array", "items": {}},
            "f": {"type": "string", "pattern": "["},
            "g": {"type": "string", "colour": "red"},
        }}}})),
        [
            "openAPIV3Schema.properties[spec].properties[a].type: must not be empty for specified object fields, \
             allowed: array, boolean, integer, number, object, string",
            "openAPIV3Schema.properties[spec].properties[b].type: \"float\" is not supported, allowed: array, \
             boolean, integer, number, object, string",
            "openAPIV3Schema.properties[spec].properties[b].type: must not be empty for specified object fields, \
             allowed: array, boolean, integer, number, object, string",
            "openAPIV3Schema.properties[spec].properties[c].$ref: is not supported: a structural schema has all \
             its parts inline",
            "openAPIV3Schema.properties[spec].properties[c].type: must not be empty for specified object fields, \
             allowed: array, boolean, integer, number, object, string",
            "openAPIV3Schema.properties[spec].properties[d].items: must be specified",
            "openAPIV3Schema.properties[spec].properties[e].items.type: must not be empty for specified array \
             items, allowed: array, boolean, integer, number, object, string",
        ]
        .into_iter()
        .map(str::to_owned)
        .chain(problems(json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "f": {"type": "string", "pattern": "["}}}}})))
        .chain([format!(
            "openAPIV3Schema.properties[spec].properties[g].colour: is not supported, allowed: {}",
            KEYS.join(", ")
        )])
        .collect::<Vec<_>>()
    );
}

#[test]
fn structure_is_not_allowed_inside_clauses() {
    assert_eq!(
        problems(
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [
            {"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"minLength": 1}}}]})
        ),
        [
            "openAPIV3Schema.anyOf[0].properties[a].type: must be absent inside allOf, anyOf, oneOf and not: specify \
          it outside"
        ]
    );
    assert_eq!(
        problems(json!({"type": "object", "anyOf": [{"properties": {"b": {"minLength": 1}}}]})),
        [
            "openAPIV3Schema.properties[b]: must be specified because it is defined in \
          openAPIV3Schema.anyOf[0].properties[b]"
        ]
    );
}

#[test]
fn int_or_string_may_name_its_two_types() {
    let with = |extra: Value| {
        let mut port = json!({"x-kubernetes-int-or-string": true});
        port.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        problems(json!({"type": "object", "properties": {"port": port}}))
    };
    assert!(with(json!({})).is_empty());
    assert!(with(json!({"anyOf": [{"type": "integer"}, {"type": "string"}]})).is_empty());
    let all =
        json!({"allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "^a"}]});
    assert!(with(all).is_empty());
    assert_eq!(
        with(json!({"anyOf": [{"type": "integer"}, {"type": "boolean"}]})).len(),
        2
    );
}

#[test]
fn metadata_is_implicit() {
    assert!(
        problems(json!({"type": "object", "properties": {"metadata": {"type": "object"}}}))
            .is_empty()
    );
    assert_eq!(
        problems(
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {
            "labels": {"type": "object", "additionalProperties": {"type": "string"}}}}}})
        ),
        [
            "openAPIV3Schema.properties[metadata]: must not specify anything other than name and generateName, but \
          metadata is implicitly specified"
        ]
    );
}

#[test]
fn defaults_must_be_valid_and_known() {
    assert_eq!(
        problems(
            json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
                "a": {"type": "integer", "default": "x"},
                "b": {"type": "object", "default": {"z": 1}, "properties": {"y": {"type": "string"}}},
            }}}})
        ),
        [
            "openAPIV3Schema.properties[spec].properties[a].default: Invalid value: \"string\": \
             must be of type integer: \"string\"",
            "openAPIV3Schema.properties[spec].properties[b].default: must not have unknown field \"z\"",
        ]
    );
}

#[test]
fn a_text_that_is_no_schema_is_refused() {
    let error = StructuralSchema::parse("{").unwrap_err().to_string();
    assert!(
        error.starts_with("openAPIV3Schema: must be the JSON of a structural schema: "),
        "{error}"
    );
    assert_eq!(
        problems(json!([])),
        ["openAPIV3Schema: must be a schema, a JSON object"]
    );
    assert_eq!(
        problems(json!({"type": "string"})),
        ["openAPIV3Schema.type: must be object at the root"]
    );
}
