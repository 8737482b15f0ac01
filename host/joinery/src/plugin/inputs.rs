//! Objects and reviews from files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use bytes::Bytes;
use clap::Args;
use joinery_object::{GroupVersionResource, ObjectKey};
use joinery_plugin::{Generation, RecordedAnswer, ResourceDescription, Shape};
use joinery_resource::{Operation, Review, ServeRequest, User};
use serde::Deserialize;
use serde_json::Value;

use super::requests::{self, RequestFile, Verb};

/// What a plugin is called with.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Files {
    /// Objects, YAML or JSON, several a file: what a view's sources hold, or what the rules of a stored resource find
    /// when they look something up. May be repeated.
    #[arg(short = 'f', long = "objects", value_name = "OBJECTS")]
    pub(crate) objects: Vec<PathBuf>,
    /// A write of a stored resource, YAML: operation (create, update, delete), resource, subresource, object, oldObject,
    /// user (name, uid, groups), dryRun, now (a time). Only what is not obvious needs to stand there.
    #[arg(long, value_name = "REVIEW", conflicts_with = "create")]
    pub(crate) review: Option<PathBuf>,
    /// The creation of the object in this file.
    #[arg(long, value_name = "OBJECT")]
    pub(crate) create: Option<PathBuf>,
    /// A request for a served resource, YAML: verb (get, list, create, update, delete), resource, namespace, name, object,
    /// etag, labelSelector, fieldSelector, next, user, dryRun, now. Only what is not obvious needs to stand there.
    #[arg(long, value_name = "REQUEST", conflicts_with_all = ["create", "review"])]
    pub(crate) request: Option<PathBuf>,
    /// Answers to the calls over HTTP that a served resource makes, YAML: a list of url, method (GET), status (200),
    /// headers, and body (a text, or what becomes JSON). Nothing is called then; without it, calls are made.
    #[arg(long, value_name = "ANSWERS")]
    pub(crate) http: Option<PathBuf>,
}

/// What the files say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inputs {
    pub(crate) objects: Vec<Value>,
    /// Files of objects were named, though there may be none in them.
    pub(crate) has_objects: bool,
    pub(crate) asked: Option<Asked>,
    /// None: calls over HTTP are made.
    pub(crate) http: Option<Vec<RecordedAnswer>>,
}

/// What is asked of a resource that is no view.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    /// Of a stored one: whether it may be written.
    Review(GroupVersionResource, Box<Review>),
    /// Of a served one: to answer a verb.
    Verb(Box<ServeRequest>, Verb),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct ReviewFile {
    operation: OperationName,
    resource: Option<String>,
    subresource: Option<String>,
    object: Option<Value>,
    old_object: Option<Value>,
    user: UserFile,
    dry_run: bool,
    now: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OperationName {
    #[default]
    Create,
    Update,
    Delete,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct UserFile {
    name: String,
    uid: String,
    groups: Vec<String>,
}

impl Default for UserFile {
    fn default() -> Self {
        Self {
            name: "admin".to_owned(),
            uid: String::new(),
            groups: vec!["system:authenticated".to_owned()],
        }
    }
}

impl From<UserFile> for User {
    fn from(file: UserFile) -> Self {
        Self {
            name: file.name,
            uid: file.uid,
            groups: file.groups,
            ..Self::default()
        }
    }
}

/// The time of a request that names none: always the same, so that answers can be compared.
const NOW: &str = "2026-01-01T00:00:00Z";

impl Files {
    /// Reads them for this plugin.
    pub(crate) fn read(&self, generation: &Generation) -> Result<Inputs> {
        let mut objects = Vec::new();
        for path in &self.objects {
            objects.extend(documents(path)?);
        }
        let about = |path: &Path| format!("{}", path.display());
        let asked = match (&self.review, &self.create, &self.request) {
            (Some(path), ..) => {
                Some(review(generation, parse(path)?).with_context(|| about(path))?)
            }
            (None, Some(path), _) => {
                Some(creation(generation, parse(path)?).with_context(|| about(path))?)
            }
            (None, None, Some(path)) => {
                Some(requests::request(generation, parse(path)?).with_context(|| about(path))?)
            }
            (None, None, None) => None,
        };
        let http = self.http.as_deref().map(requests::answers).transpose()?;
        Ok(Inputs {
            objects,
            has_objects: !self.objects.is_empty(),
            asked,
            http,
        })
    }
}

/// The creation of an object: a stored one is admitted, a served one is made by the plugin.
fn creation(generation: &Generation, object: Value) -> Result<Asked> {
    let resources = &generation.description().resources;
    let kind = object["kind"].as_str().unwrap_or_default();
    let served = |r: &&ResourceDescription| matches!(r.shape, Shape::Served);
    let stored = |r: &&ResourceDescription| matches!(r.shape, Shape::Stored);
    let is_served = resources
        .iter()
        .filter(served)
        .any(|r| r.definition.kind == kind)
        || !resources.iter().any(|r| stored(&r));
    if is_served {
        return requests::request(generation, RequestFile::creating(object));
    }
    let file = ReviewFile {
        object: Some(object),
        ..ReviewFile::default()
    };
    review(generation, file)
}

fn text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

pub(super) fn parse<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T> {
    serde_saphyr::from_str(&text(path)?)
        .with_context(|| format!("{} cannot be understood", path.display()))
}

/// All objects in a file; those of a List, one by one.
fn documents(path: &Path) -> Result<Vec<Value>> {
    let text = text(path)?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text)
        .with_context(|| format!("{} is no YAML", path.display()))?;
    let mut objects = Vec::new();
    for document in documents {
        match document {
            Value::Null => {}
            Value::Object(mut list) if list.get("items").is_some_and(Value::is_array) => {
                if let Some(Value::Array(items)) = list.remove("items") {
                    objects.extend(items);
                }
            }
            object @ Value::Object(_) => objects.push(object),
            other => bail!("{}: {other} is no object", path.display()),
        }
    }
    Ok(objects)
}

/// Which of the plugin's resources of a shape is meant: the one of this name, the only one, or that of the object's kind.
pub(super) fn resource<'a>(
    generation: &'a Generation,
    shape: (&str, fn(&Shape) -> bool),
    name: Option<&str>,
    object: Option<&Value>,
) -> Result<&'a ResourceDescription> {
    let (shape, is_of_shape) = shape;
    let resources = generation.description().resources.iter();
    let found: Vec<_> = resources.filter(|r| is_of_shape(&r.shape)).collect();
    let names: Vec<&str> = found.iter().map(|r| &*r.definition.gvr.resource).collect();
    if names.is_empty() {
        bail!("the plugin has no {shape} resource");
    }
    let of_kind = || {
        let kind = object?["kind"].as_str()?;
        found.iter().find(|r| r.definition.kind == kind)
    };
    match name {
        Some(name) => found.iter().find(|r| *r.definition.gvr.resource == *name),
        None if found.len() == 1 => found.first(),
        None => of_kind(),
    }
    .copied()
    .ok_or_else(|| anyhow!("say which resource: it may be {}", names.join(" or ")))
}

/// A time, in milliseconds since 1970.
pub(super) fn milliseconds(now: Option<&str>) -> Result<u64> {
    let now = now.unwrap_or(NOW);
    let now: jiff::Timestamp = now
        .parse()
        .with_context(|| format!("now: {now:?} is no time such as {NOW}"))?;
    Ok(u64::try_from(now.as_millisecond()).unwrap_or_default())
}

fn review(generation: &Generation, file: ReviewFile) -> Result<Asked> {
    let object = file.object.as_ref().or(file.old_object.as_ref());
    let stored = (
        "stored",
        (|shape| matches!(shape, Shape::Stored)) as fn(&_) -> _,
    );
    let resource = resource(generation, stored, file.resource.as_deref(), object)?;
    let about = match file.operation {
        OperationName::Delete => file.old_object.as_ref().or(file.object.as_ref()),
        _ => file.object.as_ref(),
    };
    let metadata = &about.ok_or_else(|| anyhow!("there is no object"))?["metadata"];
    let name = metadata["name"]
        .as_str()
        .ok_or_else(|| anyhow!("the object has no metadata.name"))?;
    let key = ObjectKey::new(metadata["namespace"].as_str(), name);
    let now = milliseconds(file.now.as_deref())?;
    let schema = &resource.schema;
    let complete = |object: Value| {
        let mut object = object;
        // As the host does before it asks: what the schema does not know goes, its defaults come.
        schema.prune(&mut object);
        schema.default(&mut object);
        Bytes::from(object.to_string())
    };
    let deleting = file.operation == OperationName::Delete;
    let (object, old) = match (file.object, file.old_object) {
        (object, None) if deleting => (None, object),
        (_, old) if deleting => (None, old),
        both => both,
    };
    let review = Review {
        operation: match file.operation {
            OperationName::Create => Operation::Create,
            OperationName::Update => Operation::Update,
            OperationName::Delete => Operation::Delete,
        },
        subresource: file.subresource,
        key,
        object: object.map(complete),
        old_object: old.map(|old| Bytes::from(old.to_string())),
        user: file.user.into(),
        dry_run: file.dry_run,
        now,
    };
    Ok(Asked::Review(
        resource.definition.gvr.clone(),
        Box::new(review),
    ))
}

/// Whether an object is of this resource. A file says kinds, a source resources; as long as no server is asked, the plural
/// is guessed as `meta.UnsafeGuessKindToResource` in apimachinery does.
pub(crate) fn is_of(gvr: &GroupVersionResource, object: &Value) -> bool {
    let kind = object["kind"].as_str().unwrap_or_default();
    object["apiVersion"].as_str() == Some(&gvr.api_version()) && plural(kind) == *gvr.resource
}

/// The plural of a kind.
pub(crate) fn plural(kind: &str) -> String {
    let singular = kind.to_lowercase();
    if singular.ends_with("endpoints") {
        return singular;
    }
    match singular.chars().last() {
        Some('s' | 'x') => format!("{singular}es"),
        Some('y') => format!("{}ies", &singular[..singular.len() - 1]),
        _ => format!("{singular}s"),
    }
}

/// What stands at the dotted path of a field selector, as selectors see it.
pub(crate) fn field(object: &Value, path: &str) -> Option<String> {
    let mut at = object;
    for name in path.split('.') {
        at = at.get(name)?;
    }
    match at {
        Value::String(text) => Some(text.clone()),
        Value::Null | Value::Object(_) | Value::Array(_) => None,
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_are_matched_to_resources_by_kind() {
        let gvr = |group: &str, resource: &str| GroupVersionResource::new(group, "v1", resource);
        let object = |api: &str, kind: &str| json!({"apiVersion": api, "kind": kind});
        for (gvr, api, kind) in [
            (gvr("", "pods"), "v1", "Pod"),
            (gvr("", "endpoints"), "v1", "Endpoints"),
            (
                gvr("networking.k8s.io", "networkpolicies"),
                "networking.k8s.io/v1",
                "NetworkPolicy",
            ),
            (
                gvr("networking.k8s.io", "ingresses"),
                "networking.k8s.io/v1",
                "Ingress",
            ),
        ] {
            assert!(is_of(&gvr, &object(api, kind)), "{kind}");
            assert!(!is_of(&gvr, &object("v2", kind)), "{kind}");
        }
    }

    #[test]
    fn fields_are_text() {
        let object = json!({"a": {"b": "x", "n": 1, "t": true}});
        assert_eq!(field(&object, "a.b").as_deref(), Some("x"));
        assert_eq!(field(&object, "a.n").as_deref(), Some("1"));
        assert_eq!(field(&object, "a.t").as_deref(), Some("true"));
        assert_eq!(field(&object, "a"), None);
        assert_eq!(field(&object, "a.c"), None);
    }
}
