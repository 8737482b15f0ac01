use serde_json::{Value, json};

use crate::StructuralSchema;

/// The causes for `value` in the field `spec.f` of the given schema, as `reason field message`.
fn causes(field: Value, value: Value) -> Vec<String> {
    let source = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"f": field}}}});
    let schema = StructuralSchema::from_value(source).unwrap();
    let causes = schema.validate(&json!({"spec": {"f": value}}));
    causes
        .iter()
        .map(|c| format!("{} {} {}", c.reason, c.field, c.message))
        .collect()
}

#[test]
fn a_valid_value_has_no_causes() {
    assert!(
        causes(
            json!({"type": "integer", "minimum": 0, "maximum": 10}),
            json!(10)
        )
        .is_empty()
    );
    assert!(causes(json!({"type": "integer"}), json!(3.0)).is_empty());
    assert!(causes(json!({"type": "number"}), json!(3)).is_empty());
    assert!(causes(json!({"type": "string", "nullable": true}), json!(null)).is_empty());
    assert!(causes(json!({"x-kubernetes-int-or-string": true}), json!("80%")).is_empty());
}

#[test]
fn wrong_types_are_named() {
    assert_eq!(
        causes(json!({"type": "integer"}), json!("x")),
        [
            r#"FieldValueTypeInvalid spec.f Invalid value: "string": spec.f in body must be of type integer: "string""#
        ]
    );
    assert_eq!(
        causes(json!({"type": "string"}), json!(null)),
        [
            r#"FieldValueTypeInvalid spec.f Invalid value: "null": spec.f in body must be of type string: "null""#
        ]
    );
    assert_eq!(
        causes(json!({"type": "string", "format": "date"}), json!(["x"])),
        [
            r#"FieldValueTypeInvalid spec.f Invalid value: "array": spec.f in body must be of type string: "array""#
        ]
    );
    assert_eq!(
        causes(json!({"type": "integer", "format": "int32"}), json!(true)),
        [
            r#"FieldValueTypeInvalid spec.f Invalid value: "": spec.f in body must be of type int32: """#
        ]
    );
    assert_eq!(
        causes(json!({"x-kubernetes-int-or-string": true}), json!(true)),
        [
            r#"FieldValueTypeInvalid spec.f Invalid value: "boolean": spec.f in body must be of type integer,string: "boolean""#
        ]
    );
}

#[test]
fn bounds_of_numbers() {
    let schema = json!({"type": "integer", "minimum": 0, "maximum": 10, "multipleOf": 2});
    assert_eq!(
        causes(schema.clone(), json!(11)),
        [
            "FieldValueInvalid spec.f Invalid value: 11: spec.f in body should be a multiple of 2",
            "FieldValueInvalid spec.f Invalid value: 11: spec.f in body should be less than or equal to 10",
        ]
    );
    assert_eq!(
        causes(schema, json!(-2)),
        [
            "FieldValueInvalid spec.f Invalid value: -2: spec.f in body should be greater than or equal to 0"
        ]
    );
    let open = json!({"type": "number", "minimum": 0.5, "exclusiveMinimum": true});
    assert_eq!(
        causes(open, json!(0.5)),
        ["FieldValueInvalid spec.f Invalid value: 0.5: spec.f in body should be greater than 0.5"]
    );
    assert_eq!(
        causes(
            json!({"type": "integer", "format": "int32"}),
            json!(3_000_000_000_i64)
        ),
        [
            r#"FieldValueInvalid <nil> Invalid value: "": Checked value must be of type integer with format int32 in spec.f"#
        ]
    );
}

#[test]
fn strings() {
    assert_eq!(
        causes(json!({"type": "string", "maxLength": 2}), json!("abc")),
        ["FieldValueTooLong spec.f Too long: may not be more than 2 bytes"]
    );
    assert_eq!(
        causes(json!({"type": "string", "minLength": 1}), json!("")),
        [
            r#"FieldValueInvalid spec.f Invalid value: "": spec.f in body should be at least 1 chars long"#
        ]
    );
    assert_eq!(
        causes(json!({"type": "string", "pattern": "^a+$"}), json!("b")),
        [r#"FieldValueInvalid spec.f Invalid value: "b": spec.f in body should match '^a+$'"#]
    );
    assert_eq!(
        causes(
            json!({"type": "string", "format": "date-time"}),
            json!("soon")
        ),
        [
            r#"FieldValueTypeInvalid spec.f Invalid value: "soon": spec.f in body must be of type date-time: "soon""#
        ]
    );
    assert_eq!(
        causes(
            json!({"type": "string", "enum": ["Pending", "Finished"]}),
            json!("X")
        ),
        [
            r#"FieldValueNotSupported spec.f Unsupported value: "X": supported values: "Pending", "Finished""#
        ]
    );
}

#[test]
fn lists_and_maps() {
    let list = json!({"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2, "uniqueItems": true});
    assert_eq!(
        causes(list.clone(), json!([])),
        ["FieldValueInvalid spec.f Invalid value: 0: spec.f in body should have at least 1 items"]
    );
    assert_eq!(
        causes(list, json!(["a", "a", 1])),
        [
            r#"FieldValueTypeInvalid spec.f[2] Invalid value: "integer": spec.f[2] in body must be of type string: "integer""#,
            "FieldValueTooMany spec.f Too many: 3: must have at most 2 items",
            r#"FieldValueInvalid spec.f Invalid value: "": spec.f in body shouldn't contain duplicates"#,
        ]
    );
    assert_eq!(
        causes(
            json!({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2}),
            json!({"a": "x"})
        ),
        [
            "FieldValueInvalid spec.f Invalid value: 1: spec.f in body should have at least 2 properties",
            r#"FieldValueTypeInvalid spec.f.a Invalid value: "string": spec.f.a in body must be of type integer: "string""#,
        ]
    );
}

#[test]
fn required_fields_are_named_where_they_are_missing() {
    let source = json!({"type": "object", "required": ["spec"], "properties": {"spec": {
        "type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}}});
    let schema = StructuralSchema::from_value(source).unwrap();
    let fields = |object: Value| {
        schema
            .validate(&object)
            .into_iter()
            .map(|c| (c.field, c.message))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        fields(json!({})),
        [("spec".to_owned(), "Required value".to_owned())]
    );
    assert_eq!(
        fields(json!({"spec": {}})),
        [("spec.a".to_owned(), "Required value".to_owned())]
    );
}

#[test]
fn alternatives() {
    let any = json!({"type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}]});
    assert_eq!(
        causes(any, json!({})),
        [
            r#"FieldValueInvalid <nil> Invalid value: "": "spec.f" must validate at least one schema (anyOf)"#,
            "FieldValueRequired spec.f.a Required value",
        ]
    );
    let one = json!({"type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    assert_eq!(
        causes(one, json!({"a": "", "b": ""})),
        [
            r#"FieldValueInvalid <nil> Invalid value: "": "spec.f" must validate one and only one schema (oneOf). Found 2 valid alternatives"#
        ]
    );
    assert_eq!(
        causes(
            json!({"type": "string", "allOf": [{"minLength": 1}, {"maxLength": 3}]}),
            json!("abcd")
        ),
        [
            "FieldValueTooLong spec.f Too long: may not be more than 3 bytes",
            r#"FieldValueInvalid <nil> Invalid value: "": "spec.f" must validate all the schemas (allOf)"#,
        ]
    );
    assert_eq!(
        causes(
            json!({"type": "string", "not": {"enum": ["x"]}}),
            json!("x")
        ),
        [
            r#"FieldValueInvalid <nil> Invalid value: "": "spec.f" must not validate the schema (not)"#
        ]
    );
}

#[test]
fn embedded_resources_must_say_what_they_are() {
    let schema = json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true});
    assert_eq!(
        causes(schema, json!({"kind": ""})),
        [
            "FieldValueRequired spec.f.apiVersion Required value",
            r#"FieldValueInvalid spec.f.kind Invalid value: "": must not be empty"#,
        ]
    );
}
