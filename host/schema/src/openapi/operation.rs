//! The operations on a resource.

use serde_json::{Map, Value, json};

use super::resource::{ResourceDoc, ResourceSubresource};
use super::{Version, meta};

/// One method of a path.
struct Operation {
    method: &'static str,
    /// `x-kubernetes-action`.
    action: Action,
    /// First word of the operation's id.
    id_verb: &'static str,
    /// Last word of it.
    suffix: &'static str,
    /// Response, by definition name.
    response: String,
    /// Further successes than 200.
    also: &'static [u16],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Get,
    List,
    Post,
    Put,
    Patch,
    Delete,
    DeleteCollection,
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Post => "post",
            Self::Put => "put",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    fn consumes(self) -> &'static [&'static str] {
        match self {
            // No strategic merge: its rules live in Go types.
            Self::Patch => &[
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/apply-patch+yaml",
            ],
            _ => &["application/json", "application/yaml"],
        }
    }
}

const PRODUCES: [&str; 2] = ["application/json", "application/yaml"];

/// Adds the paths of a resource.
pub(super) fn insert(doc: &ResourceDoc, version: Version, paths: &mut Map<String, Value>) {
    let base = format!("/{}", doc.root());
    let all = format!("{base}/{}", doc.plural);
    let (kind, list) = (doc.definition(), doc.list_definition());
    let operation = |method, action, id_verb, response: &str, also| Operation {
        method,
        action,
        id_verb,
        suffix: "",
        response: response.to_owned(),
        also,
    };
    let mut add = |path: String, operations: Vec<Operation>| {
        if !operations.is_empty() {
            let item = path_item(doc, version, &path, &operations);
            paths.insert(path, item);
        }
    };

    let root = if doc.namespaced {
        if doc.has("list") {
            let mut everywhere = operation("get", Action::List, "list", &list, &[]);
            everywhere.suffix = "ForAllNamespaces";
            add(all, vec![everywhere]);
        }
        format!("{base}/namespaces/{{namespace}}/{}", doc.plural)
    } else {
        all
    };
    let served = |operations: Vec<(&str, Operation)>| -> Vec<Operation> {
        operations
            .into_iter()
            .filter(|(verb, _)| doc.has(verb))
            .map(|(_, operation)| operation)
            .collect()
    };
    add(
        root.clone(),
        served(vec![
            ("list", operation("get", Action::List, "list", &list, &[])),
            (
                "create",
                operation("post", Action::Post, "create", &kind, &[201, 202]),
            ),
            (
                "deletecollection",
                operation(
                    "delete",
                    Action::DeleteCollection,
                    "deletecollection",
                    meta::STATUS,
                    &[],
                ),
            ),
        ]),
    );
    add(
        format!("{root}/{{name}}"),
        served(vec![
            ("get", operation("get", Action::Get, "read", &kind, &[])),
            (
                "update",
                operation("put", Action::Put, "replace", &kind, &[201]),
            ),
            (
                "patch",
                operation("patch", Action::Patch, "patch", &kind, &[201]),
            ),
            (
                "delete",
                operation("delete", Action::Delete, "delete", meta::STATUS, &[202]),
            ),
        ]),
    );
    for subresource in &doc.subresources {
        let (segment, suffix, response) = match subresource {
            ResourceSubresource::Status => ("status", "Status", kind.as_str()),
            ResourceSubresource::Scale => ("scale", "Scale", meta::SCALE),
        };
        let mut operations = vec![
            operation("get", Action::Get, "read", response, &[]),
            operation("put", Action::Put, "replace", response, &[201]),
            operation("patch", Action::Patch, "patch", response, &[201]),
        ];
        operations
            .iter_mut()
            .for_each(|operation| operation.suffix = suffix);
        add(format!("{root}/{{name}}/{segment}"), operations);
    }
}

fn path_item(doc: &ResourceDoc, version: Version, path: &str, operations: &[Operation]) -> Value {
    let mut item = Map::new();
    for operation in operations {
        item.insert(
            operation.method.to_owned(),
            describe(doc, version, path, operation),
        );
    }
    let mut parameters = Vec::new();
    if path.contains("{name}") {
        parameters.push(parameter(
            "path",
            "name",
            "string",
            &format!("name of the {}", doc.kind),
            version,
        ));
    }
    if path.contains("{namespace}") {
        let text = "namespace of the objects";
        parameters.push(parameter("path", "namespace", "string", text, version));
    }
    let text = "'true' for output that is indented for people";
    parameters.push(parameter("query", "pretty", "string", text, version));
    item.insert("parameters".to_owned(), Value::Array(parameters));
    Value::Object(item)
}

fn describe(doc: &ResourceDoc, version: Version, path: &str, operation: &Operation) -> Value {
    let scope = if path.contains("{namespace}") {
        "Namespaced"
    } else {
        ""
    };
    let id = format!(
        "{}{}{}{scope}{}{}",
        operation.id_verb,
        camel_case(&doc.group, true),
        camel_case(&doc.version, true),
        doc.kind,
        operation.suffix
    );
    let what = match operation.suffix {
        "Status" => format!("status of {}", doc.kind),
        "Scale" => format!("scale of {}", doc.kind),
        _ => doc.kind.clone(),
    };
    let sentence = match operation.action {
        Action::List => format!("list or watch objects of kind {what}"),
        Action::DeleteCollection => format!("delete all selected objects of kind {what}"),
        Action::Patch => format!("change parts of the {what}"),
        _ => format!("{} the {what}", operation.id_verb),
    };
    let mut parameters: Vec<Value> = query_parameters(operation.action, doc)
        .into_iter()
        .map(|(name, kind, text)| parameter("query", name, kind, text, version))
        .collect();
    let mut described = json!({
        "description": sentence,
        "operationId": id,
        "tags": [format!("{}_{}", camel_case(&doc.group, false), camel_case(&doc.version, false))],
        "x-kubernetes-action": operation.action.name(),
        "x-kubernetes-group-version-kind": {"group": doc.group, "version": doc.version, "kind": doc.kind},
    });

    // What is sent: the object itself, a patch of it, or options.
    let body = match operation.action {
        Action::Post | Action::Put => Some((operation.response.as_str(), true)),
        Action::Patch => Some((meta::PATCH, true)),
        Action::Delete | Action::DeleteCollection => Some((meta::DELETE_OPTIONS, false)),
        Action::Get | Action::List => None,
    };
    let consumes = operation.action.consumes();
    match version {
        Version::V2 => {
            if let Some((name, required)) = body {
                let mut body = json!({"name": "body", "in": "body", "schema": {"$ref": version.reference(name)}});
                if required {
                    body["required"] = true.into();
                }
                parameters.push(body);
            }
            described["consumes"] = json!(consumes);
            described["produces"] = json!(PRODUCES);
            described["schemes"] = json!(["https"]);
        }
        Version::V3 => {
            if let Some((name, required)) = body {
                let mut body = json!({"content": content(consumes, name)});
                if required {
                    body["required"] = true.into();
                }
                described["requestBody"] = body;
            }
        }
    }
    if !parameters.is_empty() {
        described["parameters"] = Value::Array(parameters);
    }

    let mut responses = Map::new();
    for code in std::iter::once(&200).chain(operation.also) {
        let meaning = match code {
            201 => "Created",
            202 => "Accepted",
            _ => "OK",
        };
        let response = match version {
            Version::V2 => {
                json!({"description": meaning, "schema": {"$ref": version.reference(&operation.response)}})
            }
            Version::V3 => {
                json!({"description": meaning, "content": content(&PRODUCES, &operation.response)})
            }
        };
        responses.insert(code.to_string(), response);
    }
    responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
    described["responses"] = Value::Object(responses);
    described
}

fn content(media_types: &[&str], definition: &str) -> Value {
    let schema = json!({"schema": {"$ref": Version::V3.reference(definition)}});
    media_types
        .iter()
        .map(|media_type| ((*media_type).to_owned(), schema.clone()))
        .collect::<Map<_, _>>()
        .into()
}

fn parameter(place: &str, name: &str, kind: &str, description: &str, version: Version) -> Value {
    let mut parameter = json!({"name": name, "in": place, "description": description});
    if place == "path" {
        parameter["required"] = true.into();
    }
    match version {
        Version::V2 => {
            parameter["type"] = kind.into();
            parameter["uniqueItems"] = true.into();
        }
        Version::V3 => parameter["schema"] = json!({"type": kind, "uniqueItems": true}),
    }
    parameter
}

type QueryParameter = (&'static str, &'static str, &'static str);

const DRY_RUN: QueryParameter = (
    "dryRun",
    "string",
    "'All' to do everything but persist the result",
);
const FIELD_MANAGER: QueryParameter = (
    "fieldManager",
    "string",
    "name of who or what makes the change, at most 128 printable characters",
);
const FIELD_VALIDATION: QueryParameter = (
    "fieldValidation",
    "string",
    "what becomes of unknown and duplicate fields: 'Ignore', 'Warn' (the default) or 'Strict'",
);
const RESOURCE_VERSION: QueryParameter = (
    "resourceVersion",
    "string",
    "which version of the data the answer may or must be based on",
);

/// kubectl looks here for what the server can do: dryRun, fieldValidation.
fn query_parameters(action: Action, doc: &ResourceDoc) -> Vec<QueryParameter> {
    const SELECTION: [QueryParameter; 7] = [
        (
            "continue",
            "string",
            "where a list in pages goes on, from the last page's metadata",
        ),
        (
            "fieldSelector",
            "string",
            "restricts the objects by their fields",
        ),
        (
            "labelSelector",
            "string",
            "restricts the objects by their labels",
        ),
        ("limit", "integer", "at most so many objects on a page"),
        RESOURCE_VERSION,
        (
            "resourceVersionMatch",
            "string",
            "how resourceVersion is meant: 'NotOlderThan' or 'Exact'",
        ),
        (
            "timeoutSeconds",
            "integer",
            "ends the call after so many seconds",
        ),
    ];
    const WATCHING: [QueryParameter; 3] = [
        (
            "allowWatchBookmarks",
            "boolean",
            "also send events of type BOOKMARK",
        ),
        (
            "sendInitialEvents",
            "boolean",
            "begin a watch with the objects that there are, then a BOOKMARK",
        ),
        (
            "watch",
            "boolean",
            "send the changes as they happen instead of a list",
        ),
    ];
    const DELETION: [QueryParameter; 4] = [
        DRY_RUN,
        (
            "gracePeriodSeconds",
            "integer",
            "time that an object is given to end by itself",
        ),
        (
            "orphanDependents",
            "boolean",
            "deprecated, see propagationPolicy",
        ),
        (
            "propagationPolicy",
            "string",
            "what becomes of dependents: 'Orphan', 'Background' or 'Foreground'",
        ),
    ];
    match action {
        Action::Get => vec![RESOURCE_VERSION],
        Action::List if doc.has("watch") => [&SELECTION[..], &WATCHING[..]].concat(),
        Action::List => SELECTION.to_vec(),
        Action::Post | Action::Put => vec![DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION],
        Action::Patch => {
            let force = (
                "force",
                "boolean",
                "take over the fields that conflict; for apply only",
            );
            vec![DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, force]
        }
        Action::Delete => DELETION.to_vec(),
        Action::DeleteCollection => [&SELECTION[..], &DELETION[..]].concat(),
    }
}

/// Drops what cannot stand in an operation's id; the letter after it becomes a capital.
fn camel_case(text: &str, capital: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut capital = capital;
    for (index, c) in text.char_indices() {
        if c.is_alphabetic() || c == '_' || (index != 0 && c.is_ascii_digit()) {
            if capital {
                out.extend(c.to_uppercase());
            } else {
                out.push(c);
            }
            capital = false;
        } else {
            capital = true;
        }
    }
    out
}
