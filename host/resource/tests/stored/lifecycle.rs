//! The life of a namespace, and of what is in it.

use std::sync::Arc;

use async_trait::async_trait;
use joinery_object::{
    DeleteOptions, GroupVersionResource, ObjectKey, Status, WriteOptions, reason,
};
use joinery_resource::{Admit, Lookup, Resource, Review, StoredResource, Verdict};
use joinery_store::{Embedded, Store};
use serde_json::{Value, json};

use crate::support::{Host, Speak, admin, bytes, eventually, json as value, list_options, widget};

async fn post(resource: &dyn Resource, namespace: &str, object: Value) -> Result<Value, Status> {
    let body = bytes(&object);
    let written = resource
        .create(
            &admin(),
            Some(namespace),
            None,
            body,
            &WriteOptions::default(),
        )
        .await;
    written.map(|written| value(&written.object))
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

#[tokio::test]
async fn some_namespaces_are_always_there() {
    let host = Host::start().await;
    let namespaces = host.namespaces();
    for name in ["default", "kube-system", "joinery-system"] {
        let found = namespaces.read(name).await.unwrap();
        assert_eq!(found["status"]["phase"], "Active");
        assert_eq!(
            found["metadata"]["labels"]["kubernetes.io/metadata.name"],
            name
        );
        let status = namespaces.remove(name).await.unwrap_err();
        assert_eq!(status.code, 403);
        assert_eq!(
            status.message,
            format!("namespaces {name:?} is forbidden: this namespace may not be deleted")
        );
    }
}

#[tokio::test]
async fn nothing_is_created_in_a_namespace_that_is_not_there() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let status = post(&*widgets, "none", widget("a", json!({})))
        .await
        .unwrap_err();
    assert_eq!(
        (status.code, status.message.as_str()),
        (404, "namespaces \"none\" not found")
    );
}

#[tokio::test]
async fn a_deleted_namespace_is_emptied_and_goes() {
    let host = Host::start().await;
    let (namespaces, widgets) = (host.namespaces(), host.widgets().await);
    let config_maps = host.resource("", "configmaps");
    namespaces.post(namespace("team")).await.unwrap();
    for i in 0..20 {
        post(&*widgets, "team", widget(&format!("w{i}"), json!({})))
            .await
            .unwrap();
    }
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"x": "y"}});
    post(&*config_maps, "team", config.clone()).await.unwrap();
    post(&*config_maps, "default", config).await.unwrap();
    let marked = namespaces.remove("team").await.unwrap();
    assert!(!marked.removed);
    assert_eq!(value(&marked.object)["status"]["phase"], "Terminating");
    eventually("the namespace going", || async {
        namespaces.read("team").await.is_err()
    })
    .await;
    assert_eq!(widgets.count(), 0);
    assert_eq!(config_maps.count(), 1);
    // A namesake has nothing of it.
    namespaces.post(namespace("team")).await.unwrap();
    let list = widgets
        .list(&admin(), Some("team"), &list_options(""))
        .await
        .unwrap();
    assert!(list.items.is_empty());
}

#[tokio::test]
async fn finalizers_hold_a_namespace_and_nothing_new_comes_meanwhile() {
    let host = Host::start().await;
    let (namespaces, widgets) = (host.namespaces(), host.widgets().await);
    namespaces.post(namespace("team")).await.unwrap();
    let mut object = widget("a", json!({}));
    object["metadata"]["finalizers"] = json!(["example.com/a"]);
    post(&*widgets, "team", object).await.unwrap();
    namespaces.remove("team").await.unwrap();
    let key = ObjectKey::new(Some("team"), "a");
    eventually("the object being deleted", || async {
        let object = widgets.get(&admin(), &key, None).await.unwrap();
        !value(&object)["metadata"]["deletionTimestamp"].is_null()
    })
    .await;
    let status = post(&*widgets, "team", widget("b", json!({})))
        .await
        .unwrap_err();
    assert_eq!((status.code, &*status.reason), (403, reason::FORBIDDEN));
    assert_eq!(
        status.message,
        "widgets.example.com \"b\" is forbidden: unable to create new content in namespace team because it is being \
         terminated"
    );
    assert_eq!(
        &*status.details.unwrap().causes[0].reason,
        "NamespaceTerminating"
    );
    assert_eq!(
        namespaces.read("team").await.unwrap()["status"]["phase"],
        "Terminating"
    );
    let patch = bytes(&json!({"metadata": {"finalizers": []}}));
    let options = joinery_object::PatchOptions::default();
    widgets
        .patch(
            &admin(),
            &key,
            None,
            joinery_resource::PatchType::Merge,
            patch,
            &options,
        )
        .await
        .unwrap();
    eventually("the namespace going", || async {
        namespaces.read("team").await.is_err()
    })
    .await;
}

#[tokio::test]
async fn a_namespace_goes_also_while_the_plugin_of_its_objects_is_away() {
    let store: Arc<dyn Store> = Arc::new(Embedded::temporary().unwrap());
    {
        let host = Host::on(store.clone(), Default::default()).await;
        let widgets = host.widgets().await;
        host.namespaces().post(namespace("team")).await.unwrap();
        post(&*widgets, "team", widget("a", json!({})))
            .await
            .unwrap();
    }
    let host = Host::on(store.clone(), Default::default()).await;
    let namespaces = host.namespaces();
    namespaces.remove("team").await.unwrap();
    eventually("the namespace going", || async {
        namespaces.read("team").await.is_err()
    })
    .await;
    namespaces.post(namespace("team")).await.unwrap();
    let widgets = host.widgets().await;
    assert_eq!(widgets.count(), 0);
}

#[tokio::test]
async fn what_belongs_to_a_namespace_that_is_gone_is_removed() {
    let store: Arc<dyn Store> = Arc::new(Embedded::temporary().unwrap());
    let host = Host::on(store.clone(), Default::default()).await;
    let (namespaces, widgets) = (host.namespaces(), host.widgets().await);
    namespaces.post(namespace("team")).await.unwrap();
    post(&*widgets, "team", widget("a", json!({})))
        .await
        .unwrap();
    widgets.post(widget("b", json!({}))).await.unwrap();
    assert_eq!(host.storage.remove_orphans().await.unwrap(), 0);
    // As if it had gone, and come again, while this host was away.
    let key = joinery_store::Key::new("", "namespaces", "", "team").unwrap();
    let delete = vec![joinery_store::Op::Delete { key }];
    store.txn(delete, Vec::new()).await.unwrap();
    namespaces.post(namespace("team")).await.unwrap();
    assert_eq!(host.storage.remove_orphans().await.unwrap(), 1);
    assert_eq!(widgets.all("").await.unwrap().items.len(), 1);
}

/// Ends the namespace of the object that it is asked about.
struct EndsNamespace(Arc<StoredResource>);

#[async_trait]
impl Admit for EndsNamespace {
    async fn admit(
        &self,
        _resource: &GroupVersionResource,
        review: Review,
        _lookup: Arc<dyn Lookup>,
    ) -> Result<Verdict, Status> {
        let namespace = review.key.namespace.unwrap();
        self.0.remove(&namespace).await.unwrap();
        eventually("the namespace going", || async {
            self.0.read(&namespace).await.is_err()
        })
        .await;
        Ok(Verdict::default())
    }
}

#[tokio::test]
async fn a_namespace_that_goes_during_a_create_takes_the_object_with_it() {
    let host = Host::start().await;
    let namespaces = host.namespaces();
    namespaces.post(namespace("team")).await.unwrap();
    let rule = Arc::new(EndsNamespace(namespaces));
    let widgets = host.custom("widgets", true, Some(rule)).await;
    let status = post(&*widgets, "team", widget("a", json!({})))
        .await
        .unwrap_err();
    assert_eq!(status.code, 404);
    assert!(widgets.all("").await.unwrap().items.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creates_that_race_the_end_of_a_namespace_leave_nothing_behind() {
    let host = Host::start().await;
    let (namespaces, widgets) = (host.namespaces(), host.widgets().await);
    namespaces.post(namespace("team")).await.unwrap();
    let mut clients = Vec::new();
    for client in 0..32 {
        let widgets = widgets.clone();
        clients.push(tokio::spawn(async move {
            for i in 0..50 {
                let object = widget(&format!("w{client}-{i}"), json!({}));
                if let Err(status) = post(&*widgets, "team", object).await {
                    assert!(matches!(status.code, 403 | 404), "{status}");
                    return;
                }
            }
        }));
    }
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    let key = ObjectKey::new(None, "team");
    namespaces
        .delete(&admin(), &key, &DeleteOptions::default())
        .await
        .unwrap();
    for client in clients {
        client.await.unwrap();
    }
    eventually("the namespace going", || async {
        namespaces.read("team").await.is_err()
    })
    .await;
    assert_eq!(widgets.all("").await.unwrap().items.len(), 0);
}
