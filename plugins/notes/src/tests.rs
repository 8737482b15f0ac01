//! The plugin with a service of the test's own, natively.

use std::cell::RefCell;
use std::collections::BTreeMap;

use joinery_sdk::{
    GroupVersionResource, Http, HttpError, Kubernetes, ListOptions, ObjectKey, ObjectList,
};

use super::*;

/// Keeps notes as the real service does.
#[derive(Default)]
struct Service {
    notes: RefCell<BTreeMap<String, Document>>,
    revision: RefCell<u32>,
}

impl Http for Service {
    fn send(&self, request: &HttpRequest) -> Result<HttpResponse, HttpError> {
        let path = request.url.strip_prefix("http://service").unwrap();
        let header = |name: &str| {
            let headers = request.headers.iter();
            headers
                .filter(|(n, _)| n == name)
                .map(|(_, value)| value.as_str())
                .next()
        };
        let mut notes = self.notes.borrow_mut();
        let answer = |status, body: Value| {
            Ok(HttpResponse {
                status,
                body: body.to_string().into_bytes(),
                ..HttpResponse::default()
            })
        };
        if path == "/notes" {
            return answer(200, json!(notes.values().collect::<Vec<_>>()));
        }
        let known = notes.get(path).map(|note| note.revision.clone());
        let fails = match (header("if-match"), header("if-none-match")) {
            (Some(wanted), _) => known.as_deref() != Some(wanted),
            (_, Some(_)) => known.is_some(),
            _ => false,
        };
        match request.method.as_str() {
            _ if fails => answer(412, Value::Null),
            "PUT" => {
                let spec: Spec = serde_json::from_slice(&request.body).unwrap();
                *self.revision.borrow_mut() += 1;
                let (namespace, name) = path["/notes/".len()..].split_once('/').unwrap();
                let note = Document {
                    namespace: namespace.into(),
                    name: name.into(),
                    id: "id".into(),
                    revision: self.revision.borrow().to_string(),
                    text: spec.text,
                    topic: spec.topic,
                    ..Document::default()
                };
                let body = json!(note);
                notes.insert(path.into(), note);
                answer(200, body)
            }
            "DELETE" => match notes.remove(path) {
                Some(_) => answer(204, Value::Null),
                None => answer(404, Value::Null),
            },
            _ => match notes.get(path) {
                Some(note) => answer(200, json!(note)),
                None => answer(404, Value::Null),
            },
        }
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

fn notes() -> Notes {
    Notes::configure(r#"{"url":"http://service/"}"#).unwrap()
}

fn request(namespace: &str) -> Request {
    Request {
        resource: "notes".into(),
        namespace: Some(namespace.into()),
        ..Request::default()
    }
}

fn object(name: &str, text: &str) -> Vec<u8> {
    json!({"metadata": {"name": name}, "spec": {"text": text, "topic": "t"}})
        .to_string()
        .into_bytes()
}

#[test]
fn a_note_is_made_once_changed_by_who_knows_it_and_deleted() {
    let (notes, service) = (notes(), Service::default());
    let outside = Outside {
        kubernetes: &service,
        http: &service,
    };
    let a = request("a");
    let made = notes.create(&a, &object("n", "one"), &outside).unwrap();
    let shown: Value = serde_json::from_slice(&made.object).unwrap();
    assert_eq!(shown["metadata"]["namespace"], "a");
    assert_eq!(shown["spec"], json!({"text": "one", "topic": "t"}));
    let again = notes.create(&a, &object("n", "two"), &outside).unwrap_err();
    assert_eq!(again.reason, "AlreadyExists");
    let changed = notes
        .update(&a, "n", &object("n", "two"), Some(&made.etag), &outside)
        .unwrap();
    assert_ne!(changed.etag, made.etag);
    let late = notes.update(&a, "n", &object("n", "three"), Some(&made.etag), &outside);
    assert_eq!(late.unwrap_err().reason, "Conflict");
    notes
        .create(&request("b"), &object("n", "other"), &outside)
        .unwrap();
    let page = ListPage::default();
    assert_eq!(notes.list(&a, &page, &outside).unwrap().entries, [changed]);
    notes.delete(&a, "n", None, &outside).unwrap();
    assert_eq!(notes.get(&a, "n", &outside).unwrap_err().reason, "NotFound");
}

#[test]
fn a_dry_run_changes_nothing() {
    let (notes, service) = (notes(), Service::default());
    let outside = Outside {
        kubernetes: &service,
        http: &service,
    };
    let dry = Request {
        dry_run: true,
        ..request("a")
    };
    notes.create(&dry, &object("n", "one"), &outside).unwrap();
    assert!(service.notes.borrow().is_empty());
    notes
        .create(&request("a"), &object("n", "one"), &outside)
        .unwrap();
    let again = notes
        .create(&dry, &object("n", "one"), &outside)
        .unwrap_err();
    assert_eq!(again.reason, "AlreadyExists");
    notes.delete(&dry, "n", None, &outside).unwrap();
    assert_eq!(service.notes.borrow().len(), 1);
}

#[test]
fn where_the_service_is_must_be_said() {
    assert!(Notes::configure("").is_err_and(|error| error.contains("url must be set")));
    assert!(Notes::configure(r#"{"url":"ftp://a"}"#).is_err());
}
