//! Watches: where they begin, what they tell, and that nothing is lost between two of them.

use std::sync::Arc;

use joinery_resource::Resource;
use joinery_store::{Embedded, Store};
use serde_json::json;

use crate::support::{Host, Speak, admin, list_options, version, widget};

#[tokio::test]
async fn a_watch_begins_with_the_state_or_after_a_version() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let first = version(&widgets.post(widget("a", json!({}))).await.unwrap().object);
    widgets.post(widget("b", json!({}))).await.unwrap();
    for query in ["", "resourceVersion=0"] {
        let mut watch = widgets.follow(query).await;
        assert_eq!(watch.take(2).await, ["ADDED a", "ADDED b"], "{query}");
        assert!(watch.is_silent().await);
    }
    let mut watch = widgets.follow(&format!("resourceVersion={first}")).await;
    assert_eq!(watch.next().await, "ADDED b");
    widgets
        .merge("a", json!({"spec": {"size": 2}}))
        .await
        .unwrap();
    widgets.remove("b").await.unwrap();
    assert_eq!(watch.take(2).await, ["MODIFIED a", "DELETED b"]);
    assert!(watch.is_silent().await);
}

#[tokio::test]
async fn a_streamed_list_ends_with_a_bookmark() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    widgets.post(widget("a", json!({}))).await.unwrap();
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = widgets.follow(query).await;
    assert_eq!(watch.take(2).await, ["ADDED a", "INITIAL-END"]);
    widgets.post(widget("b", json!({}))).await.unwrap();
    assert_eq!(watch.next().await, "ADDED b");
    let none = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let mut watch = widgets.follow(none).await;
    assert!(watch.is_silent().await);
}

#[tokio::test]
async fn entering_a_selection_is_added_and_leaving_it_deleted() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let mut red = widgets.follow("fieldSelector=spec.color=red").await;
    let mut named = widgets.follow("fieldSelector=metadata.name=a").await;
    let mut labelled = widgets.follow("labelSelector=color=red").await;
    widgets
        .post(widget("a", json!({"color": "blue"})))
        .await
        .unwrap();
    widgets
        .post(widget("b", json!({"color": "blue"})))
        .await
        .unwrap();
    let color =
        |color: &str| json!({"spec": {"color": color}, "metadata": {"labels": {"color": color}}});
    widgets.merge("a", color("red")).await.unwrap();
    widgets
        .merge("a", json!({"spec": {"size": 5}}))
        .await
        .unwrap();
    widgets.merge("a", color("green")).await.unwrap();
    widgets.remove("a").await.unwrap();
    let transitions = ["ADDED a", "MODIFIED a", "DELETED a"];
    assert_eq!(red.take(3).await, transitions);
    assert_eq!(labelled.take(3).await, transitions);
    assert!(red.is_silent().await);
    assert_eq!(
        named.take(5).await,
        [
            "ADDED a",
            "MODIFIED a",
            "MODIFIED a",
            "MODIFIED a",
            "DELETED a"
        ]
    );
}

#[tokio::test]
async fn a_watch_resumes_from_any_event_also_after_a_restart() {
    let store: Arc<dyn Store> = Arc::new(Embedded::temporary().unwrap());
    let seen = {
        let host = Host::on(store.clone(), Default::default()).await;
        let widgets = host.widgets().await;
        let seen = version(&widgets.post(widget("a", json!({}))).await.unwrap().object);
        widgets.post(widget("b", json!({}))).await.unwrap();
        widgets.remove("a").await.unwrap();
        seen
    };
    let host = Host::on(store.clone(), Default::default()).await;
    let widgets = host.widgets().await;
    widgets.post(widget("c", json!({}))).await.unwrap();
    for _ in 0..2 {
        let mut watch = widgets.follow(&format!("resourceVersion={seen}")).await;
        assert_eq!(watch.take(3).await, ["ADDED b", "DELETED a", "ADDED c"]);
        assert!(watch.is_silent().await);
    }
}

#[tokio::test]
async fn a_version_that_is_too_old_ends_the_watch_with_one_error() {
    let store: Arc<dyn Store> = Arc::new(Embedded::temporary().unwrap());
    let seen = {
        let host = Host::on(store.clone(), Default::default()).await;
        let widgets = host.widgets().await;
        let seen = version(&widgets.post(widget("a", json!({}))).await.unwrap().object);
        widgets.remove("a").await.unwrap();
        seen
    };
    store
        .compact(store.revision().await.unwrap())
        .await
        .unwrap();
    let host = Host::on(store, Default::default()).await;
    let widgets = host.widgets().await;
    let mut watch = widgets.follow(&format!("resourceVersion={seen}")).await;
    assert_eq!(watch.take(2).await, ["ERROR 410", "END"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_the_future_is_refused() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let options = list_options("watch=1&resourceVersion=100000");
    let status = widgets.watch(&admin(), None, &options).await.err().unwrap();
    assert_eq!(status.code, 504);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_and_a_watch_from_it_miss_nothing_while_others_write() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let writer = {
        let widgets = widgets.clone();
        tokio::spawn(async move {
            for i in 0..300 {
                let name = format!("w{i:03}");
                widgets.post(widget(&name, json!({}))).await.unwrap();
                if i % 3 == 0 {
                    widgets.remove(&name).await.unwrap();
                }
            }
        })
    };
    let mut readers = Vec::new();
    for _ in 0..8 {
        let widgets = widgets.clone();
        readers.push(tokio::spawn(async move {
            let list = widgets.all("").await.unwrap();
            let mut known: std::collections::BTreeSet<String> =
                crate::support::names(&list).into_iter().collect();
            let query = format!("resourceVersion={}", list.resource_version);
            let mut watch = widgets.follow(&query).await;
            while !known.contains("w299") {
                let told = watch.next().await;
                let (kind, name) = told.split_once(' ').unwrap();
                let fresh = match kind {
                    "ADDED" => known.insert(name.to_owned()),
                    "DELETED" => known.remove(name),
                    _ => panic!("{told}"),
                };
                assert!(fresh, "{told} was told twice");
            }
            known
        }));
    }
    writer.await.unwrap();
    for reader in readers {
        assert_eq!(reader.await.unwrap().len(), 200);
    }
}
