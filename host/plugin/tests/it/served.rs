//! A plugin that answers the verbs itself, from a service that it may call.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use joinery_object::{GroupVersionResource, ObjectKey, Status};
use joinery_plugin::{Grants, MakeLookup, PluginFile, Policy, Runtime, RuntimeOptions, Shape};
use joinery_resource::{Lookup, LookupList, ServeRequest, User};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::guests::{compiler, guest, load, settings};

struct Nothing;

#[async_trait]
impl Lookup for Nothing {
    async fn get(&self, _: &GroupVersionResource, _: &ObjectKey) -> Result<Option<Bytes>, Status> {
        Ok(None)
    }

    async fn list(
        &self,
        _: &GroupVersionResource,
        _: &LookupList,
    ) -> Result<(Vec<Bytes>, bool), Status> {
        Ok((Vec::new(), false))
    }
}

fn lookup() -> MakeLookup {
    Arc::new(|| Arc::new(Nothing))
}

fn request() -> ServeRequest {
    ServeRequest {
        resource: GroupVersionResource::new("notes.example.com", "v1", "notes"),
        namespace: Some("ns".to_owned()),
        user: User::default(),
        dry_run: false,
        now: 0,
    }
}

/// Answers every request with this status and body.
async fn service(status: u16, body: Value) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let body = body.to_string();
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    url
}

fn document() -> Value {
    json!({"namespace": "ns", "name": "n", "id": "u", "created": "", "revision": "r7", "text": "t", "topic": "x"})
}

#[tokio::test]
async fn the_verbs_that_are_advertised_follow_from_those_that_it_answers() {
    let generation = load("notes", json!({"settings": {"url": "http://a.example"}}))
        .await
        .unwrap();
    let [resource] = generation.description().resources.as_slice() else {
        panic!("one resource")
    };
    assert!(matches!(resource.shape, Shape::Served));
    assert_eq!(
        resource.definition.verbs,
        [
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch"
        ]
    );
}

#[tokio::test]
async fn what_the_service_has_arrives_as_an_object_with_its_etag() {
    let url = service(200, document()).await;
    let generation = load("notes", json!({"settings": {"url": url}}))
        .await
        .unwrap();
    let serve = generation.serve(lookup());
    let entry = serve.get(request(), "n".to_owned()).await.unwrap();
    assert_eq!(entry.etag, "r7");
    let object: Value = serde_json::from_slice(&entry.object).unwrap();
    assert_eq!(object["spec"], json!({"text": "t", "topic": "x"}));
    assert_eq!(object["metadata"]["uid"], "u");
}

#[tokio::test]
async fn what_the_service_refuses_is_the_clients_answer() {
    for (status, code) in [(404, 404), (412, 409), (500, 503)] {
        let url = service(status, Value::Null).await;
        let generation = load("notes", json!({"settings": {"url": url}}))
            .await
            .unwrap();
        let serve = generation.serve(lookup());
        let object = json!({"metadata": {"name": "n"}, "spec": {"text": "t"}}).to_string();
        let etag = Some("r1".to_owned());
        let refused = serve
            .update(request(), "n".to_owned(), object.into(), etag)
            .await;
        assert_eq!(refused.unwrap_err().code, code);
    }
}

#[tokio::test]
async fn a_host_that_is_not_granted_is_not_called() {
    let url = service(200, document()).await;
    let grants = "plugins: {notes: {groups: [\"*\"], hosts: [other.example]}}";
    let runtime = Runtime::new(RuntimeOptions {
        max_memory: RuntimeOptions::MAX_MEMORY,
        cache_dir: None,
        compile: compiler(),
        workers: Some(1),
        policy: Policy {
            trusted_keys: None,
            grants: Grants::parse(grants).unwrap(),
        },
    })
    .unwrap();
    let settings = settings(json!({"settings": {"url": url}}));
    let plugin = PluginFile::new("notes", guest("notes"), settings);
    let generation = runtime.load(plugin).await.unwrap();
    let serve = generation.serve(lookup());
    let denied = serve.get(request(), "n".to_owned()).await.unwrap_err();
    assert_eq!(denied.code, 403);
    let wanted = url.strip_prefix("http://").unwrap();
    assert!(
        denied.message.contains(&format!(
            "the operator has not granted plugin notes the host {wanted}"
        )),
        "{denied}"
    );
}
