//! Notes: a resource whose objects an HTTP service keeps, and which this plugin only translates.
//!
//! | asked of the service | answer |
//! | --- | --- |
//! | `GET {url}/notes` | all, as a JSON array of documents |
//! | `GET {url}/notes/{namespace}/{name}` | a document, or 404 |
//! | `PUT` there, with `if-none-match: *` | made, or 412 if it is there |
//! | `PUT` there, with `if-match: {revision}` or without | changed; 412 if it has another revision |
//! | `DELETE` there, with `if-match` or without | 204, 404 or 412 |
//!
//! A document has `namespace`, `name`, `id`, `created` (RFC 3339), `revision`, `text`, `topic`.

mod settings;
#[cfg(test)]
mod tests;

use joinery_sdk::{
    ApiResource, Column, Description, Entry, Failure, HttpRequest, HttpResponse, ListPage, Outside,
    Page, Plugin, Request, Shape, Verbs,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::settings::Settings;

/// The plugin.
pub struct Notes {
    settings: Settings,
}

/// A note as the service has it.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Document {
    namespace: String,
    name: String,
    id: String,
    created: String,
    revision: String,
    text: String,
    topic: String,
}

/// A note as a client sends it.
#[derive(Deserialize)]
struct Note {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Deserialize, Serialize)]
struct Spec {
    text: String,
    #[serde(default)]
    topic: String,
}

impl Plugin for Notes {
    fn configure(settings: &str) -> Result<Self, String> {
        Ok(Self {
            settings: Settings::parse(settings)?,
        })
    }

    fn describe(&self) -> Description {
        let verbs = ["get", "list", "create", "update", "delete"];
        let resource = ApiResource {
            group: self.settings.group.clone(),
            version: "v1".into(),
            kind: "Note".into(),
            plural: "notes".into(),
            namespaced: true,
            schema: include_str!("schema.json").into(),
            columns: vec![
                Column::new("Topic", "string", ".spec.topic", "What it is about."),
                Column::new("Text", "string", ".spec.text", "What is noted."),
                Column::new(
                    "Age",
                    "date",
                    ".metadata.creationTimestamp",
                    "Since when it is noted.",
                ),
            ],
            selectable_fields: vec![".spec.topic".into()],
            shape: Shape::Served(verbs.map(String::from).into()),
            ..ApiResource::default()
        };
        Description {
            resources: vec![resource],
            ..Description::default()
        }
    }
}

impl Verbs for Notes {
    fn get(&self, request: &Request, name: &str, outside: &Outside<'_>) -> Result<Entry, Failure> {
        let answer = outside
            .http
            .send(&HttpRequest::new("GET", self.url(request, name)))?;
        self.entry(&answer, request, name)
    }

    fn list(
        &self,
        request: &Request,
        _page: &ListPage,
        outside: &Outside<'_>,
    ) -> Result<Page, Failure> {
        let url = format!("{}/notes", self.settings.url);
        let answer = outside.http.send(&HttpRequest::new("GET", url))?;
        if answer.status != 200 {
            return Err(unexpected(&answer));
        }
        let mut documents: Vec<Document> = read(&answer)?;
        let namespace = request.namespace.as_deref();
        documents.retain(|document| namespace.is_none_or(|wanted| document.namespace == wanted));
        documents.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        Ok(Page {
            entries: documents.iter().map(|d| self.translated(d)).collect(),
            next: None,
        })
    }

    fn create(
        &self,
        request: &Request,
        object: &[u8],
        outside: &Outside<'_>,
    ) -> Result<Entry, Failure> {
        let note = note(object)?;
        let name = note.metadata.name.clone();
        if request.dry_run {
            return match self.get(request, &name, outside) {
                Ok(_) => Err(exists(&name)),
                Err(failure) if failure.reason == "NotFound" => Ok(self.imagined(request, note)),
                Err(failure) => Err(failure),
            };
        }
        let put = self.put(request, &note)?.header("if-none-match", "*");
        let answer = outside.http.send(&put)?;
        match answer.status {
            412 => Err(exists(&name)),
            _ => self.entry(&answer, request, &name),
        }
    }

    fn update(
        &self,
        request: &Request,
        name: &str,
        object: &[u8],
        etag: Option<&str>,
        outside: &Outside<'_>,
    ) -> Result<Entry, Failure> {
        let note = note(object)?;
        if request.dry_run {
            return Ok(self.imagined(request, note));
        }
        let put = if_match(self.put(request, &note)?, etag);
        self.entry(&outside.http.send(&put)?, request, name)
    }

    fn delete(
        &self,
        request: &Request,
        name: &str,
        etag: Option<&str>,
        outside: &Outside<'_>,
    ) -> Result<(), Failure> {
        if request.dry_run {
            return Ok(());
        }
        let delete = if_match(HttpRequest::new("DELETE", self.url(request, name)), etag);
        let answer = outside.http.send(&delete)?;
        match answer.status {
            200 | 204 => Ok(()),
            404 => Err(not_found(name)),
            412 => Err(changed(name)),
            _ => Err(unexpected(&answer)),
        }
    }
}

impl Notes {
    /// Names and namespaces are DNS labels and subdomains, which need no encoding in a path.
    fn url(&self, request: &Request, name: &str) -> String {
        let namespace = request.namespace.as_deref().unwrap_or_default();
        format!("{}/notes/{namespace}/{name}", self.settings.url)
    }

    fn put(&self, request: &Request, note: &Note) -> Result<HttpRequest, Failure> {
        let url = self.url(request, &note.metadata.name);
        let body = serde_json::to_vec(&note.spec);
        Ok(HttpRequest {
            body: body.map_err(|error| Failure::internal(error.to_string()))?,
            ..HttpRequest::new("PUT", url).header("content-type", "application/json")
        })
    }

    fn entry(
        &self,
        answer: &HttpResponse,
        _request: &Request,
        name: &str,
    ) -> Result<Entry, Failure> {
        match answer.status {
            200 | 201 => Ok(self.translated(&read(answer)?)),
            404 => Err(not_found(name)),
            412 => Err(changed(name)),
            _ => Err(unexpected(answer)),
        }
    }

    fn translated(&self, document: &Document) -> Entry {
        let mut object: Value = json!({
            "apiVersion": format!("{}/v1", self.settings.group),
            "kind": "Note",
            "metadata": {
                "namespace": document.namespace, "name": document.name, "uid": document.id,
            },
            "spec": {"text": document.text, "topic": document.topic},
        });
        if !document.created.is_empty() {
            object["metadata"]["creationTimestamp"] = document.created.as_str().into();
        }
        Entry {
            object: object.to_string().into_bytes(),
            etag: document.revision.clone(),
        }
    }

    /// What a write would lead to.
    fn imagined(&self, request: &Request, note: Note) -> Entry {
        self.translated(&Document {
            namespace: request.namespace.clone().unwrap_or_default(),
            name: note.metadata.name,
            id: "00000000-0000-0000-0000-000000000000".into(),
            text: note.spec.text,
            topic: note.spec.topic,
            ..Document::default()
        })
    }
}

fn if_match(request: HttpRequest, etag: Option<&str>) -> HttpRequest {
    match etag {
        Some(etag) => request.header("if-match", etag),
        None => request,
    }
}

fn note(object: &[u8]) -> Result<Note, Failure> {
    serde_json::from_slice(object).map_err(|error| Failure::internal(error.to_string()))
}

fn read<'a, T: Deserialize<'a>>(answer: &'a HttpResponse) -> Result<T, Failure> {
    serde_json::from_slice(&answer.body).map_err(|error| {
        let message = format!("the note service sent what cannot be read: {error}");
        Failure::new("ServiceUnavailable", message)
    })
}

fn unexpected(answer: &HttpResponse) -> Failure {
    let message = format!("the note service answered {}", answer.status);
    Failure::new("ServiceUnavailable", message)
}

fn not_found(name: &str) -> Failure {
    Failure::new("NotFound", format!("notes {name:?} not found"))
}

fn exists(name: &str) -> Failure {
    Failure::new("AlreadyExists", format!("notes {name:?} already exists"))
}

fn changed(name: &str) -> Failure {
    let message = format!("notes {name:?} has been changed: read it and try again");
    Failure::new("Conflict", message)
}

joinery_sdk::export_verbs!(Notes);
