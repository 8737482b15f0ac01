//! With a plugin of the test's own, natively.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use joinery_object::{FieldValidation, GroupVersionResource};
use joinery_schema::Columns;
use serde_json::{Value, json};

use super::*;
use crate::serve::EntryPage;
use crate::stored::Namespace;

/// Keeps texts by name, in the namespace `ns`.
#[derive(Default)]
struct Texts {
    texts: Mutex<BTreeMap<String, (String, u64)>>,
    lists: AtomicUsize,
    fails: AtomicBool,
    /// A write has ended this long after it was asked for.
    takes: Mutex<Duration>,
    kind: Option<&'static str>,
}

impl Texts {
    fn put(&self, name: &str, text: &str) -> Entry {
        let mut texts = self.texts.lock();
        let revision = texts.get(name).map_or(0, |(_, revision)| *revision) + 1;
        texts.insert(name.to_owned(), (text.to_owned(), revision));
        self.entry(name, text, revision)
    }

    fn entry(&self, name: &str, text: &str, revision: u64) -> Entry {
        let object = json!({
            "apiVersion": "t.example.com/v1", "kind": self.kind.unwrap_or("Text"),
            "metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": {"text": text},
        });
        Entry {
            object: object.to_string().into(),
            etag: revision.to_string(),
        }
    }
}

fn gvr() -> GroupVersionResource {
    GroupVersionResource::new("t.example.com", "v1", "texts")
}

#[async_trait]
impl Serve for Texts {
    async fn get(&self, _: ServeRequest, name: String) -> Result<Entry, Status> {
        let found = self.texts.lock().get(&name).cloned();
        let (text, revision) = found.ok_or_else(|| Status::not_found(&gvr(), &name))?;
        Ok(self.entry(&name, &text, revision))
    }

    async fn list(
        &self,
        _: ServeRequest,
        _: String,
        _: String,
        next: Option<String>,
    ) -> Result<EntryPage, Status> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        if self.fails.load(Ordering::Relaxed) {
            return Err(Status::service_unavailable("down"));
        }
        // One a page.
        let texts = self.texts.lock();
        let after = next.unwrap_or_default();
        let mut rest = texts.iter().filter(|(name, _)| **name > after);
        let entry = rest.next();
        Ok(EntryPage {
            entries: entry
                .map(|(name, (text, revision))| self.entry(name, text, *revision))
                .into_iter()
                .collect(),
            next: rest.next().and(entry).map(|(name, _)| name.clone()),
        })
    }

    async fn create(&self, _: ServeRequest, object: Bytes) -> Result<Entry, Status> {
        let object: Value = serde_json::from_slice(&object).unwrap();
        let name = object["metadata"]["name"].as_str().unwrap();
        if self.texts.lock().contains_key(name) {
            return Err(Status::already_exists(&gvr(), name));
        }
        let takes = *self.takes.lock();
        tokio::time::sleep(takes).await;
        Ok(self.put(name, object["spec"]["text"].as_str().unwrap()))
    }

    async fn update(
        &self,
        _: ServeRequest,
        name: String,
        object: Bytes,
        etag: Option<String>,
    ) -> Result<Entry, Status> {
        let revision = self.texts.lock()[&name].1.to_string();
        if etag.is_some_and(|etag| etag != revision) {
            return Err(Status::modified(&gvr(), &name));
        }
        let takes = *self.takes.lock();
        tokio::time::sleep(takes).await;
        let object: Value = serde_json::from_slice(&object).unwrap();
        Ok(self.put(&name, object["spec"]["text"].as_str().unwrap()))
    }

    async fn delete(&self, _: ServeRequest, name: String, _: Option<String>) -> Result<(), Status> {
        self.texts.lock().remove(&name);
        Ok(())
    }
}

/// Only `ns` is there.
struct One;

#[async_trait]
impl Namespaces for One {
    async fn get(&self, name: &str) -> Result<Option<Namespace>, Status> {
        Ok((name == "ns").then(Namespace::default))
    }
}

fn served(texts: Texts) -> (Arc<Texts>, ServedResource) {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "text": {"type": "string", "maxLength": 9}}}}});
    let definition = Definition {
        gvr: gvr(),
        kind: "Text".to_owned(),
        list_kind: "TextList".to_owned(),
        singular: "text".to_owned(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: vec![
            "create", "delete", "get", "list", "patch", "update", "watch",
        ],
        status_subresource: false,
        schema: schema.to_string().into(),
        columns: Columns::compile(&[]).unwrap(),
        selectable_fields: Vec::new(),
    };
    let texts = Arc::new(texts);
    let settings = ServedSettings {
        schema: StructuralSchema::parse(&definition.schema).unwrap(),
        definition: Arc::new(definition),
        serve: texts.clone(),
        interval: Duration::from_secs(10),
    };
    (texts, ServedResource::new(settings, Arc::new(One)))
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(Some("ns"), name)
}

fn body(name: &str, text: &str) -> Bytes {
    let object = json!({"metadata": {"name": name}, "spec": {"text": text}});
    object.to_string().into()
}

async fn create(resource: &ServedResource, name: &str, text: &str) -> Result<Written, Status> {
    let options = WriteOptions::default();
    let body = body(name, text);
    resource
        .create(&host(), Some("ns"), None, body, &options)
        .await
}

async fn list(resource: &ServedResource) -> Vec<String> {
    let options = ListOptions::default();
    let list = resource.list(&host(), None, &options).await.unwrap();
    list.items.iter().map(|o| o.key().to_string()).collect()
}

async fn next(watch: &mut Watch) -> String {
    match watch.next().await {
        Some(WatchItem::Event { kind, object, .. }) => {
            format!("{} {}", kind.as_str(), object.key())
        }
        Some(WatchItem::Error(status)) => format!("ERROR {}", status.code),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn lists_are_compared_for_as_long_as_somebody_watches() {
    let (texts, resource) = served(Texts::default());
    texts.put("a", "1");
    texts.put("b", "1");
    assert_eq!(list(&resource).await, ["ns/a", "ns/b"]);
    let options = ListOptions::default();
    let mut watch = resource.watch(&host(), None, &options).await.unwrap();
    assert_eq!(next(&mut watch).await, "ADDED ns/a");
    assert_eq!(next(&mut watch).await, "ADDED ns/b");
    texts.put("a", "2");
    assert_eq!(next(&mut watch).await, "MODIFIED ns/a");
    // Another etag with the same bytes is no change.
    texts.put("a", "2");
    texts.texts.lock().remove("b");
    assert_eq!(next(&mut watch).await, "DELETED ns/b");
    drop(watch);
    let asked = texts.lists.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(texts.lists.load(Ordering::Relaxed), asked);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_list_tells_what_came_while_nobody_watched() {
    let (texts, resource) = served(Texts::default());
    texts.put("a", "1");
    let options = ListOptions::default();
    let version = resource.list(&host(), None, &options).await.unwrap();
    texts.put("a", "2");
    let options = ListOptions {
        resource_version: Some(version.resource_version.to_string()),
        ..options
    };
    let mut watch = resource.watch(&host(), None, &options).await.unwrap();
    assert_eq!(next(&mut watch).await, "MODIFIED ns/a");
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_the_lists_have_failed_for_some_time() {
    let (texts, resource) = served(Texts::default());
    let options = ListOptions::default();
    let mut watch = resource.watch(&host(), None, &options).await.unwrap();
    texts.fails.store(true, Ordering::Relaxed);
    assert_eq!(next(&mut watch).await, "ERROR 503");
    assert!(watch.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_is_read_while_the_plugin_writes_is_older_than_what_it_wrote() {
    let (texts, resource) = served(Texts::default());
    *texts.takes.lock() = Duration::from_secs(2);
    let reads = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        _ = resource.get(&host(), &key("a"), None).await;
        list(&resource).await
    };
    let (created, listed) = tokio::join!(create(&resource, "a", "1"), reads);
    assert_eq!(listed, [""; 0]);
    let created = created.unwrap().object;
    assert!(
        created.bytes().ends_with(br#""spec":{"text":"1"}}"#),
        "{created:?}"
    );

    let body = json!({"apiVersion": "t.example.com/v1", "kind": "Text", "metadata": {"name": "a"}, "spec": {"text": "2"}});
    let (key, caller, options) = (key("a"), host(), WriteOptions::default());
    let update = resource.update(&caller, &key, None, body.to_string().into(), &options);
    let reads = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        list(&resource).await
    };
    let (updated, _) = tokio::join!(update, reads);
    let updated = updated.unwrap().object;
    assert!(
        updated.bytes().ends_with(br#""spec":{"text":"2"}}"#),
        "{updated:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_its_resource_and_the_plugin_is_asked_no_more() {
    let (texts, resource) = served(Texts::default());
    let options = ListOptions::default();
    let mut watch = resource.watch(&host(), None, &options).await.unwrap();
    drop(resource);
    assert_eq!(next(&mut watch).await, "ERROR 410");
    assert!(watch.next().await.is_none());
    drop(watch);
    let asked = texts.lists.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(texts.lists.load(Ordering::Relaxed), asked);
}

#[tokio::test]
async fn writes_are_checked_before_the_plugin_sees_them() {
    let (texts, resource) = served(Texts::default());
    assert_eq!(
        create(&resource, "a", "far too long")
            .await
            .unwrap_err()
            .code,
        422
    );
    assert_eq!(create(&resource, "A", "x").await.unwrap_err().code, 422);
    let elsewhere = resource
        .create(
            &host(),
            Some("gone"),
            None,
            body("a", "x"),
            &WriteOptions::default(),
        )
        .await;
    assert_eq!(elsewhere.unwrap_err().code, 404);
    assert!(texts.texts.lock().is_empty());
    assert!(create(&resource, "a", "x").await.unwrap().created);
    assert_eq!(create(&resource, "a", "x").await.unwrap_err().code, 409);
}

#[tokio::test]
async fn who_read_another_version_is_refused_and_a_patch_is_made_again() {
    let (texts, resource) = served(Texts::default());
    let made = create(&resource, "a", "1").await.unwrap().object;
    texts.put("a", "2");
    let options = WriteOptions::default();
    let late = resource
        .update(&host(), &key("a"), None, made.bytes(), &options)
        .await;
    assert_eq!(late.unwrap_err().code, 409);
    let patch = Bytes::from_static(br#"{"spec":{"text":"3"}}"#);
    let patched = resource
        .patch(
            &host(),
            &key("a"),
            None,
            PatchType::Merge,
            patch,
            &PatchOptions::default(),
        )
        .await
        .unwrap();
    assert!(patched.object.resource_version() > made.resource_version());
    assert_eq!(texts.texts.lock()["a"].0, "3");
    let apply = resource
        .patch(
            &host(),
            &key("a"),
            None,
            PatchType::Apply,
            body("a", "4"),
            &PatchOptions::default(),
        )
        .await;
    assert_eq!(apply.unwrap_err().code, 415);
}

#[tokio::test]
async fn what_is_no_object_of_the_resource_is_the_plugins_fault() {
    let (texts, resource) = served(Texts {
        kind: Some("Other"),
        ..Texts::default()
    });
    texts.put("a", "1");
    let status = resource.get(&host(), &key("a"), None).await.unwrap_err();
    assert_eq!(status.code, 500);
    assert!(status.message.contains("gave no object of it"), "{status}");
}

#[tokio::test]
async fn a_delete_keeps_to_its_preconditions() {
    let (_, resource) = served(Texts::default());
    let made = create(&resource, "a", "1").await.unwrap().object;
    let mut options = DeleteOptions::default();
    options.preconditions.uid = Some("other".to_owned());
    let refused = resource.delete(&host(), &key("a"), &options).await;
    assert_eq!(refused.unwrap_err().code, 409);
    options.preconditions.uid = Some(made.uid().to_owned());
    assert!(
        resource
            .delete(&host(), &key("a"), &options)
            .await
            .unwrap()
            .removed
    );
    assert!(list(&resource).await.is_empty());
}

#[tokio::test]
async fn what_comes_twice_is_told_as_of_stored_objects() {
    let (_, resource) = served(Texts::default());
    let owner = r#"{"apiVersion":"v1","kind":"K","name":"n","uid":"u","controller":true}"#;
    let twice = |name: &str| {
        let object = format!(
            r#"{{"metadata":{{"name":"{name}","ownerReferences":[{owner},{owner}]}},"spec":{{"text":"1","text":"2"}}}}"#
        );
        Bytes::from(object)
    };
    let strictly = |field_validation| WriteOptions {
        field_validation,
        ..WriteOptions::default()
    };
    let (warn, strict) = (
        strictly(FieldValidation::Warn),
        strictly(FieldValidation::Strict),
    );
    let create = |name: &str, options| {
        let (resource, body) = (&resource, twice(name));
        async move {
            resource
                .create(&host(), Some("ns"), None, body, options)
                .await
        }
    };
    let refused = create("a", &strict).await.unwrap_err();
    assert_eq!(refused.code, 400);
    assert!(
        refused.message.ends_with("duplicate field \"spec.text\""),
        "{refused}"
    );
    let made = create("a", &warn).await.unwrap();
    assert_eq!(made.warnings.len(), 2, "{:?}", made.warnings);
    assert_eq!(made.warnings[0], "duplicate field \"spec.text\"");

    let update = |options| {
        let (resource, body) = (&resource, twice("a"));
        async move {
            let key = key("a");
            resource.update(&host(), &key, None, body, options).await
        }
    };
    assert_eq!(update(&strict).await.unwrap_err().code, 400);
    assert_eq!(update(&warn).await.unwrap().warnings.len(), 2);

    let patch = |patch, body: &'static str, write: &WriteOptions| {
        let (resource, write) = (&resource, write.clone());
        async move {
            let options = PatchOptions {
                write,
                ..PatchOptions::default()
            };
            let (caller, key) = (host(), key("a"));
            let body = Bytes::from_static(body.as_bytes());
            resource
                .patch(&caller, &key, None, patch, body, &options)
                .await
        }
    };
    let merge = r#"{"spec":{"text":"3","text":"4"}}"#;
    let refused = patch(PatchType::Merge, merge, &strict).await;
    assert_eq!(refused.unwrap_err().code, 422);
    let patched = patch(PatchType::Merge, merge, &warn).await.unwrap();
    assert_eq!(patched.warnings, ["duplicate field \"spec.text\""]);
    let operations = r#"[{"op":"replace","path":"/spec/text","value":"5","more":1}]"#;
    let patched = patch(PatchType::Json, operations, &warn).await.unwrap();
    assert_eq!(patched.warnings, ["json patch unknown field \"[0].more\""]);
}
