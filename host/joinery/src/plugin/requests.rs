//! Requests for served resources, and the answers of the services behind them, from files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use bytes::Bytes;
use joinery_object::Status;
use joinery_plugin::{Generation, RecordedAnswer, ResourceDescription, Shape};
use joinery_resource::{Entry, Serve, ServeRequest};
use serde::Deserialize;
use serde_json::{Value, json};

use super::inputs::{Asked, Inputs, UserFile, milliseconds, parse, resource};
use super::lookup::FileLookup;

/// A verb, and what it is told besides.
#[derive(Clone, Debug)]
pub(crate) enum Verb {
    Get(String),
    List {
        label_selector: String,
        field_selector: String,
        next: Option<String>,
    },
    Create(Bytes),
    Update(String, Bytes, Option<String>),
    Delete(String, Option<String>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RequestFile {
    verb: VerbName,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    object: Option<Value>,
    etag: Option<String>,
    label_selector: String,
    field_selector: String,
    next: Option<String>,
    user: UserFile,
    dry_run: bool,
    now: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum VerbName {
    #[default]
    Get,
    List,
    Create,
    Update,
    Delete,
}

impl VerbName {
    fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

impl RequestFile {
    pub(super) fn creating(object: Value) -> Self {
        Self {
            verb: VerbName::Create,
            object: Some(object),
            ..Self::default()
        }
    }
}

/// What a file asks of the plugin.
pub(super) fn request(generation: &Generation, file: RequestFile) -> Result<Asked> {
    let served = (
        "served",
        (|shape| matches!(shape, Shape::Served)) as fn(&_) -> _,
    );
    let object = file.object.as_ref();
    let resource = resource(generation, served, file.resource.as_deref(), object)?;
    let definition = &resource.definition;
    let verb = file.verb.name();
    if !definition.verbs.contains(&verb) {
        let verbs = definition.verbs.join(", ");
        bail!(
            "{} has no verb {verb}: it has {verbs}",
            definition.gvr.resource
        );
    }
    let metadata = |name: &str| {
        let object = file.object.as_ref()?;
        object["metadata"][name].as_str().map(str::to_owned)
    };
    let name = file.name.clone().or_else(|| metadata("name"));
    let named = || {
        name.clone()
            .ok_or_else(|| anyhow!("say which: there is no name"))
    };
    let written = || match &file.object {
        Some(object) => Ok(completed(resource, object.clone())),
        None => bail!("there is no object"),
    };
    let etag = file.etag.clone();
    let verb = match file.verb {
        VerbName::Get => Verb::Get(named()?),
        VerbName::List => Verb::List {
            label_selector: file.label_selector.clone(),
            field_selector: file.field_selector.clone(),
            next: file.next.clone(),
        },
        VerbName::Create => Verb::Create(written()?),
        VerbName::Update => Verb::Update(named()?, written()?, etag),
        VerbName::Delete => Verb::Delete(named()?, etag),
    };
    let request = ServeRequest {
        resource: definition.gvr.clone(),
        namespace: file.namespace.clone().or_else(|| metadata("namespace")),
        now: milliseconds(file.now.as_deref())?,
        dry_run: file.dry_run,
        user: file.user.into(),
    };
    Ok(Asked::Verb(Box::new(request), verb))
}

/// As the host does before it asks: what the schema does not know goes, its defaults come.
fn completed(resource: &ResourceDescription, object: Value) -> Bytes {
    let mut object = object;
    resource.schema.prune(&mut object);
    resource.schema.default(&mut object);
    object.to_string().into()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerFile {
    #[serde(default = "get")]
    method: String,
    url: String,
    #[serde(default = "ok")]
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: Value,
}

fn get() -> String {
    "GET".to_owned()
}

fn ok() -> u16 {
    200
}

/// The answers in a file.
pub(super) fn answers(path: &Path) -> Result<Vec<RecordedAnswer>> {
    let files: Vec<AnswerFile> = parse(path)?;
    let answer = |file: AnswerFile| RecordedAnswer {
        method: file.method,
        url: file.url,
        status: file.status,
        headers: file.headers.into_iter().collect(),
        body: match file.body {
            Value::Null => Bytes::new(),
            Value::String(text) => text.into(),
            other => other.to_string().into(),
        },
    };
    Ok(files.into_iter().map(answer).collect())
}

/// What answers the verbs, with what the files hold around it.
pub(crate) fn serve(generation: &Generation, inputs: &Inputs) -> Arc<dyn Serve> {
    let lookup = Arc::new(FileLookup(inputs.objects.clone()));
    let lookups = Arc::new(move || lookup.clone() as Arc<dyn joinery_resource::Lookup>);
    match inputs.http.clone() {
        Some(answers) => generation.serve_recorded(lookups, answers),
        None => generation.serve(lookups),
    }
}

impl Verb {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Get(_) => "get",
            Self::List { .. } => "list",
            Self::Create(_) => "create",
            Self::Update(..) => "update",
            Self::Delete(..) => "delete",
        }
    }

    /// Asks the plugin. Gives its answer as it is printed and recorded.
    pub(crate) async fn ask(
        &self,
        serve: &Arc<dyn Serve>,
        request: &ServeRequest,
    ) -> Result<Value, Status> {
        let request = request.clone();
        let entry = match self.clone() {
            Self::Get(name) => serve.get(request, name).await?,
            Self::Create(object) => serve.create(request, object).await?,
            Self::Update(name, object, etag) => serve.update(request, name, object, etag).await?,
            Self::Delete(name, etag) => {
                serve.delete(request, name.clone(), etag).await?;
                return Ok(json!({"deleted": name}));
            }
            Self::List {
                label_selector,
                field_selector,
                next,
            } => {
                let page = serve
                    .list(request, label_selector, field_selector, next)
                    .await?;
                let entries: Vec<Value> =
                    page.entries.iter().map(shown).collect::<Result<_, _>>()?;
                let mut value = json!({"entries": entries});
                if let Some(next) = page.next {
                    value["next"] = next.into();
                }
                return Ok(value);
            }
        };
        shown(&entry)
    }
}

fn shown(entry: &Entry) -> Result<Value, Status> {
    let object: Value = serde_json::from_slice(&entry.object)
        .map_err(|error| Status::internal(format!("the plugin's object is no JSON: {error}")))?;
    Ok(json!({"object": object, "etag": entry.etag}))
}

/// What the host would not take of an answer: it must fit the schema, and say what it is.
pub(crate) fn faults(resource: &ResourceDescription, answer: &Value) -> Vec<String> {
    let one = std::slice::from_ref(answer);
    let entries = answer["entries"].as_array().map_or(one, Vec::as_slice);
    let mut faults = Vec::new();
    for object in entries
        .iter()
        .map(|entry| &entry["object"])
        .filter(|o| !o.is_null())
    {
        let causes = resource.schema.validate(object);
        faults.extend(causes.iter().map(|c| format!("{}: {}", c.field, c.message)));
        let mut wanted = vec!["name", "uid"];
        wanted.extend(resource.definition.namespaced.then_some("namespace"));
        for field in wanted {
            if object["metadata"][field].as_str().is_none_or(str::is_empty) {
                faults.push(format!("metadata.{field}: Required value"));
            }
        }
    }
    faults
}
