//! `openapi.v2`, field numbers as in gnostic-models' OpenAPIv2.proto.

use serde_json::Value;

use super::{Kind, Message, flag, integer, many, map, message, number, one, text, texts};

pub(super) static DOCUMENT: Message = message(
    &[
        text("swagger", 1),
        one("info", 2, Kind::Message(&INFO)),
        one("paths", 8, Kind::Message(&PATHS)),
        one("definitions", 9, Kind::Message(&SCHEMAS)),
    ],
    16,
);

static INFO: Message = message(
    &[text("title", 1), text("version", 2), text("description", 3)],
    7,
);

static PATHS: Message = Message {
    fields: &[],
    entries: Some((2, Kind::Message(&PATH_ITEM))),
    extensions: Some(1),
};

static PATH_ITEM: Message = message(
    &[
        one("get", 2, Kind::Message(&OPERATION)),
        one("put", 3, Kind::Message(&OPERATION)),
        one("post", 4, Kind::Message(&OPERATION)),
        one("delete", 5, Kind::Message(&OPERATION)),
        one("options", 6, Kind::Message(&OPERATION)),
        one("head", 7, Kind::Message(&OPERATION)),
        one("patch", 8, Kind::Message(&OPERATION)),
        many("parameters", 9, Kind::OneOf(parameters_item)),
    ],
    10,
);

static OPERATION: Message = message(
    &[
        texts("tags", 1),
        text("summary", 2),
        text("description", 3),
        text("operationId", 5),
        texts("produces", 6),
        texts("consumes", 7),
        many("parameters", 8, Kind::OneOf(parameters_item)),
        one("responses", 9, Kind::Message(&RESPONSES)),
        texts("schemes", 10),
        flag("deprecated", 11),
    ],
    13,
);

fn parameters_item(_: &Value) -> Option<(u32, Kind)> {
    Some((1, Kind::OneOf(parameter)))
}

fn parameter(value: &Value) -> Option<(u32, Kind)> {
    Some(match value["in"].as_str() {
        Some("body") => (1, Kind::Message(&BODY_PARAMETER)),
        _ => (2, Kind::OneOf(non_body_parameter)),
    })
}

fn non_body_parameter(value: &Value) -> Option<(u32, Kind)> {
    match value["in"].as_str()? {
        "header" => Some((1, Kind::Message(&UNNAMED_PARAMETER))),
        "query" => Some((3, Kind::Message(&QUERY_PARAMETER))),
        "path" => Some((4, Kind::Message(&UNNAMED_PARAMETER))),
        _ => None,
    }
}

static BODY_PARAMETER: Message = message(
    &[
        text("description", 1),
        text("name", 2),
        text("in", 3),
        flag("required", 4),
        one("schema", 5, Kind::Message(&SCHEMA)),
    ],
    6,
);

/// Of a query: it may be empty, so its later fields are counted one further.
static QUERY_PARAMETER: Message = message(
    &[
        flag("required", 1),
        text("in", 2),
        text("description", 3),
        text("name", 4),
        flag("allowEmptyValue", 5),
        text("type", 6),
        text("format", 7),
        text("pattern", 17),
        flag("uniqueItems", 20),
    ],
    23,
);

/// Of a header or a path.
static UNNAMED_PARAMETER: Message = message(
    &[
        flag("required", 1),
        text("in", 2),
        text("description", 3),
        text("name", 4),
        text("type", 5),
        text("format", 6),
        text("pattern", 16),
        flag("uniqueItems", 19),
    ],
    22,
);

static RESPONSES: Message = Message {
    fields: &[],
    entries: Some((1, Kind::OneOf(response_value))),
    extensions: Some(2),
};

fn response_value(_: &Value) -> Option<(u32, Kind)> {
    Some((1, Kind::Message(&RESPONSE)))
}

static RESPONSE: Message = message(
    &[
        text("description", 1),
        one("schema", 2, Kind::OneOf(schema_item)),
    ],
    5,
);

fn schema_item(_: &Value) -> Option<(u32, Kind)> {
    Some((1, Kind::Message(&SCHEMA)))
}

static SCHEMAS: Message = map(Kind::Message(&SCHEMA));

static SCHEMA: Message = message(
    &[
        text("$ref", 1),
        text("format", 2),
        text("title", 3),
        text("description", 4),
        one("default", 5, Kind::Any),
        number("multipleOf", 6),
        number("maximum", 7),
        flag("exclusiveMaximum", 8),
        number("minimum", 9),
        flag("exclusiveMinimum", 10),
        integer("maxLength", 11),
        integer("minLength", 12),
        text("pattern", 13),
        integer("maxItems", 14),
        integer("minItems", 15),
        flag("uniqueItems", 16),
        integer("maxProperties", 17),
        integer("minProperties", 18),
        texts("required", 19),
        many("enum", 20, Kind::Any),
        one(
            "additionalProperties",
            21,
            Kind::OneOf(additional_properties),
        ),
        one("type", 22, Kind::Wrapped(&Kind::Text)),
        one("items", 23, Kind::Wrapped(&Kind::Message(&SCHEMA))),
        many("allOf", 24, Kind::Message(&SCHEMA)),
        one("properties", 25, Kind::Message(&SCHEMAS)),
        text("discriminator", 26),
        flag("readOnly", 27),
        one("externalDocs", 29, Kind::Message(&EXTERNAL_DOCS)),
        one("example", 30, Kind::Any),
    ],
    31,
);

fn additional_properties(value: &Value) -> Option<(u32, Kind)> {
    Some(match value {
        Value::Bool(_) => (2, Kind::Flag),
        _ => (1, Kind::Message(&SCHEMA)),
    })
}

static EXTERNAL_DOCS: Message = message(&[text("description", 1), text("url", 2)], 3);
