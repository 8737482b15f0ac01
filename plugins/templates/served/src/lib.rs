//! @KIND@: what an HTTP service keeps, as a resource. Nothing is stored in the cluster: each verb is a call of the service.
//!
//! | asked of the service | answer |
//! | --- | --- |
//! | `GET {url}/items` | all, as a JSON array of items |
//! | `GET {url}/items/{namespace}/{name}` | an item, or 404 |
//! | `PUT` there, with `if-none-match: *` | made, or 412 if it is there |
//! | `DELETE` there | 204, or 404 |
//!
//! An item has `namespace`, `name`, `id`, `revision` and `text`.

use joinery_sdk::{
    ApiResource, Column, Description, Entry, Failure, HttpRequest, HttpResponse, ListPage, Outside,
    Page, Plugin, Request, Shape, Verbs, parse_settings,
};
use serde::Deserialize;
use serde_json::json;

/// What the operator may set.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    group: String,
    /// Where the service is. The operator must also grant the plugin this host.
    url: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            group: "@GROUP@".into(),
            url: "http://127.0.0.1:8080".into(),
        }
    }
}

/// The plugin: its settings, and nothing else.
pub struct Logic {
    settings: Settings,
}

impl Plugin for Logic {
    fn configure(settings: &str) -> Result<Self, String> {
        let settings = parse_settings(settings)?;
        Ok(Self { settings })
    }

    fn describe(&self) -> Description {
        // Watch, and deletion of many, follow from these; `update` would bring patches.
        let verbs = ["get", "list", "create", "delete"];
        let resource = ApiResource {
            group: self.settings.group.clone(),
            version: "v1".into(),
            kind: "@KIND@".into(),
            plural: "@PLURAL@".into(),
            namespaced: true,
            schema: include_str!("schema.json").into(),
            columns: vec![Column::new("Text", "string", ".spec.text", "What the service keeps.")],
            shape: Shape::Served(verbs.map(String::from).into()),
            ..ApiResource::default()
        };
        Description {
            resources: vec![resource],
            ..Description::default()
        }
    }
}

/// As the service has it.
#[derive(Deserialize)]
struct Item {
    namespace: String,
    name: String,
    id: String,
    revision: String,
    text: String,
}

/// As a client sends it. It has passed the schema.
#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Deserialize)]
struct Spec {
    text: String,
}

impl Verbs for Logic {
    fn get(&self, request: &Request, name: &str, outside: &Outside<'_>) -> Result<Entry, Failure> {
        let call = HttpRequest::new("GET", self.url(request, name));
        let item = read(&outside.http.send(&call)?, name)?;
        Ok(self.entry(&item))
    }

    fn list(
        &self,
        request: &Request,
        _page: &ListPage,
        outside: &Outside<'_>,
    ) -> Result<Page, Failure> {
        let call = HttpRequest::new("GET", format!("{}/items", self.settings.url));
        let mut items: Vec<Item> = read(&outside.http.send(&call)?, "")?;
        items.retain(|item| request.namespace.as_ref().is_none_or(|wanted| item.namespace == *wanted));
        items.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        Ok(Page {
            entries: items.iter().map(|item| self.entry(item)).collect(),
            next: None,
        })
    }

    fn create(
        &self,
        request: &Request,
        object: &[u8],
        outside: &Outside<'_>,
    ) -> Result<Entry, Failure> {
        let object: Object = serde_json::from_slice(object)
            .map_err(|error| Failure::new("BadRequest", error.to_string()))?;
        let name = &object.metadata.name;
        let call = HttpRequest::new("PUT", self.url(request, name)).header("if-none-match", "*");
        if request.dry_run {
            // Nothing may be changed: tell what would be.
            return Ok(self.entry(&Item {
                namespace: request.namespace.clone().unwrap_or_default(),
                name: name.clone(),
                id: "00000000-0000-4000-8000-000000000000".into(),
                revision: String::new(),
                text: object.spec.text,
            }));
        }
        let answer = outside.http.send(&HttpRequest {
            body: json!({"text": object.spec.text}).to_string().into_bytes(),
            ..call.header("content-type", "application/json")
        })?;
        let item = read(&answer, name)?;
        Ok(self.entry(&item))
    }

    fn delete(
        &self,
        request: &Request,
        name: &str,
        _etag: Option<&str>,
        outside: &Outside<'_>,
    ) -> Result<(), Failure> {
        if request.dry_run {
            return self.get(request, name, outside).map(|_| ());
        }
        let answer = outside.http.send(&HttpRequest::new("DELETE", self.url(request, name)))?;
        match answer.status {
            204 => Ok(()),
            _ => Err(refusal(&answer, name)),
        }
    }
}

impl Logic {
    /// Names and namespaces of Kubernetes need no encoding in a path.
    fn url(&self, request: &Request, name: &str) -> String {
        let namespace = request.namespace.as_deref().unwrap_or_default();
        format!("{}/items/{namespace}/{name}", self.settings.url)
    }

    fn entry(&self, item: &Item) -> Entry {
        let object = json!({
            "apiVersion": format!("{}/v1", self.settings.group),
            "kind": "@KIND@",
            "metadata": {"namespace": item.namespace, "name": item.name, "uid": item.id},
            "spec": {"text": item.text},
        });
        Entry {
            object: object.to_string().into_bytes(),
            // It changes when the object does: the host tells by it what those who watch must hear.
            etag: item.revision.clone(),
        }
    }
}

fn read<'a, T: Deserialize<'a>>(answer: &'a HttpResponse, name: &str) -> Result<T, Failure> {
    match answer.status {
        200 | 201 => serde_json::from_slice(&answer.body).map_err(|error| {
            let message = format!("the service sent what cannot be read: {error}");
            Failure::new("ServiceUnavailable", message)
        }),
        _ => Err(refusal(answer, name)),
    }
}

fn refusal(answer: &HttpResponse, name: &str) -> Failure {
    match answer.status {
        404 => Failure::new("NotFound", format!("@PLURAL@ {name:?} not found")),
        412 => Failure::new("AlreadyExists", format!("@PLURAL@ {name:?} already exists")),
        status => Failure::new("ServiceUnavailable", format!("the service answered {status}")),
    }
}

joinery_sdk::export_verbs!(Logic);

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use joinery_sdk::{
        GroupVersionResource, Http, HttpError, Kubernetes, ListOptions, ObjectKey, ObjectList,
    };
    use serde_json::Value;

    use super::*;

    /// A service that answers one thing, and a cluster in which there is nothing.
    struct Service {
        status: u16,
        body: Value,
        asked: RefCell<Vec<String>>,
    }

    impl Service {
        fn new(status: u16, body: Value) -> Self {
            let asked = RefCell::default();
            Self { status, body, asked }
        }

        fn outside(&self) -> Outside<'_> {
            Outside {
                kubernetes: self,
                http: self,
            }
        }
    }

    impl Http for Service {
        fn send(&self, request: &HttpRequest) -> Result<HttpResponse, HttpError> {
            let call = format!("{} {}", request.method, request.url);
            self.asked.borrow_mut().push(call);
            Ok(HttpResponse {
                status: self.status,
                body: self.body.to_string().into_bytes(),
                ..HttpResponse::default()
            })
        }
    }

    impl Kubernetes for Service {
        fn get(&self, _: &GroupVersionResource, _: &ObjectKey) -> Result<Option<Vec<u8>>, Failure> {
            Ok(None)
        }

        fn list(&self, _: &GroupVersionResource, _: &ListOptions) -> Result<ObjectList, Failure> {
            Ok(ObjectList::default())
        }
    }

    fn logic() -> Logic {
        Logic::configure("").expect("no settings are good settings")
    }

    fn request() -> Request {
        Request {
            namespace: Some("default".into()),
            ..Request::default()
        }
    }

    fn item(namespace: &str, name: &str) -> Value {
        json!({"namespace": namespace, "name": name, "id": "u", "revision": "r", "text": "t"})
    }

    #[test]
    fn a_list_has_what_is_in_the_namespace_by_name() {
        let items = json!([item("default", "b"), item("other", "c"), item("default", "a")]);
        let service = Service::new(200, items);
        let page = logic()
            .list(&request(), &ListPage::default(), &service.outside())
            .expect("listed");
        let names = page.entries.iter().map(|entry| {
            let object: Value = serde_json::from_slice(&entry.object).expect("JSON");
            object["metadata"]["name"].clone()
        });
        assert_eq!(names.collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn what_is_there_already_is_not_made() {
        let service = Service::new(412, Value::Null);
        let object = json!({"metadata": {"name": "a"}, "spec": {"text": "t"}}).to_string();
        let failure = logic()
            .create(&request(), object.as_bytes(), &service.outside())
            .expect_err("refused");
        assert_eq!(failure.reason, "AlreadyExists");
        assert_eq!(*service.asked.borrow(), ["PUT http://127.0.0.1:8080/items/default/a"]);
    }

    #[test]
    fn a_dry_run_changes_nothing() {
        let service = Service::new(200, item("default", "a"));
        let dry = Request {
            dry_run: true,
            ..request()
        };
        let object = json!({"metadata": {"name": "a"}, "spec": {"text": "t"}}).to_string();
        let logic = logic();
        logic.create(&dry, object.as_bytes(), &service.outside()).expect("imagined");
        logic.delete(&dry, "a", None, &service.outside()).expect("imagined");
        assert_eq!(*service.asked.borrow(), ["GET http://127.0.0.1:8080/items/default/a"]);
    }

    #[test]
    fn a_setting_that_nobody_knows_is_refused() {
        assert!(Logic::configure(r#"{"ulr":"http://a.example"}"#).is_err());
    }
}
