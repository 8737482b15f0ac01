//! `openapi.v3`, field numbers as in gnostic-models' OpenAPIv3.proto.

use serde_json::Value;

use super::{Kind, Message, flag, integer, many, map, message, number, one, text, texts};

pub(super) static DOCUMENT: Message = message(
    &[
        text("openapi", 1),
        one("info", 2, Kind::Message(&INFO)),
        one("paths", 4, Kind::Message(&PATHS)),
        one("components", 5, Kind::Message(&COMPONENTS)),
    ],
    9,
);

static INFO: Message = message(
    &[text("title", 1), text("description", 2), text("version", 6)],
    7,
);

static PATHS: Message = Message {
    fields: &[],
    entries: Some((1, Kind::Message(&PATH_ITEM))),
    extensions: Some(2),
};

static PATH_ITEM: Message = message(
    &[
        one("get", 4, Kind::Message(&OPERATION)),
        one("put", 5, Kind::Message(&OPERATION)),
        one("post", 6, Kind::Message(&OPERATION)),
        one("delete", 7, Kind::Message(&OPERATION)),
        one("options", 8, Kind::Message(&OPERATION)),
        one("head", 9, Kind::Message(&OPERATION)),
        one("patch", 10, Kind::Message(&OPERATION)),
        many("parameters", 13, Kind::OneOf(parameter)),
    ],
    14,
);

static OPERATION: Message = message(
    &[
        texts("tags", 1),
        text("summary", 2),
        text("description", 3),
        text("operationId", 5),
        many("parameters", 6, Kind::OneOf(parameter)),
        one("requestBody", 7, Kind::OneOf(request_body)),
        one("responses", 8, Kind::Message(&RESPONSES)),
        flag("deprecated", 10),
    ],
    13,
);

fn parameter(_: &Value) -> Option<(u32, Kind)> {
    Some((1, Kind::Message(&PARAMETER)))
}

static PARAMETER: Message = message(
    &[
        text("name", 1),
        text("in", 2),
        text("description", 3),
        flag("required", 4),
        one("schema", 10, Kind::OneOf(schema_or_reference)),
    ],
    14,
);

fn request_body(_: &Value) -> Option<(u32, Kind)> {
    Some((1, Kind::Message(&REQUEST_BODY)))
}

static REQUEST_BODY: Message = message(
    &[
        text("description", 1),
        one("content", 2, Kind::Message(&MEDIA_TYPES)),
        flag("required", 3),
    ],
    4,
);

static RESPONSES: Message = Message {
    fields: &[],
    entries: Some((2, Kind::OneOf(response))),
    extensions: Some(3),
};

fn response(_: &Value) -> Option<(u32, Kind)> {
    Some((1, Kind::Message(&RESPONSE)))
}

static RESPONSE: Message = message(
    &[
        text("description", 1),
        one("content", 3, Kind::Message(&MEDIA_TYPES)),
    ],
    5,
);

static MEDIA_TYPES: Message = map(Kind::Message(&MEDIA_TYPE));

static MEDIA_TYPE: Message = message(&[one("schema", 1, Kind::OneOf(schema_or_reference))], 5);

static COMPONENTS: Message = message(&[one("schemas", 1, Kind::Message(&SCHEMAS))], 10);

static SCHEMAS: Message = map(Kind::OneOf(schema_or_reference));

fn schema_or_reference(value: &Value) -> Option<(u32, Kind)> {
    Some(match value.get("$ref") {
        Some(_) => (2, Kind::Message(&REFERENCE)),
        None => (1, Kind::Message(&SCHEMA)),
    })
}

static REFERENCE: Message = Message {
    fields: &[text("$ref", 1), text("summary", 2), text("description", 3)],
    entries: None,
    extensions: None,
};

static SCHEMA: Message = message(
    &[
        flag("nullable", 1),
        flag("readOnly", 3),
        one("externalDocs", 6, Kind::Message(&EXTERNAL_DOCS)),
        one("example", 7, Kind::Any),
        flag("deprecated", 8),
        text("title", 9),
        number("multipleOf", 10),
        number("maximum", 11),
        flag("exclusiveMaximum", 12),
        number("minimum", 13),
        flag("exclusiveMinimum", 14),
        integer("maxLength", 15),
        integer("minLength", 16),
        text("pattern", 17),
        integer("maxItems", 18),
        integer("minItems", 19),
        flag("uniqueItems", 20),
        integer("maxProperties", 21),
        integer("minProperties", 22),
        texts("required", 23),
        many("enum", 24, Kind::Any),
        text("type", 25),
        many("allOf", 26, Kind::OneOf(schema_or_reference)),
        many("oneOf", 27, Kind::OneOf(schema_or_reference)),
        many("anyOf", 28, Kind::OneOf(schema_or_reference)),
        one("not", 29, Kind::Message(&SCHEMA)),
        one(
            "items",
            30,
            Kind::Wrapped(&Kind::OneOf(schema_or_reference)),
        ),
        one("properties", 31, Kind::Message(&SCHEMAS)),
        one(
            "additionalProperties",
            32,
            Kind::OneOf(additional_properties),
        ),
        one("default", 33, Kind::OneOf(default)),
        text("description", 34),
        text("format", 35),
    ],
    36,
);

fn additional_properties(value: &Value) -> Option<(u32, Kind)> {
    Some(match value {
        Value::Bool(_) => (2, Kind::Flag),
        _ => (1, Kind::OneOf(schema_or_reference)),
    })
}

/// The message has room for scalars only.
fn default(value: &Value) -> Option<(u32, Kind)> {
    match value {
        Value::Number(_) => Some((1, Kind::Number)),
        Value::Bool(_) => Some((2, Kind::Flag)),
        Value::String(_) => Some((3, Kind::Text)),
        _ => None,
    }
}

static EXTERNAL_DOCS: Message = message(&[text("description", 1), text("url", 2)], 3);
