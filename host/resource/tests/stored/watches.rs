//! Watches: where they begin, what they tell, and that nothing is lost between two of them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use joinery_object::Change;
use joinery_resource::{Watch, WatchItem};
use joinery_store::{Embedded, Store};
use serde_json::json;

use crate::support::{Host, Speak, version, widget};

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
async fn a_watch_ends_when_its_resource_is_taken_away() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let mut watch = widgets.follow("").await;
    assert!(watch.is_silent().await);
    drop(widgets);
    assert_eq!(watch.next().await, "ERROR 410");
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

#[tokio::test]
async fn a_watch_from_the_future_tells_what_comes_after_it() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let made = widgets.post(widget("a", json!({}))).await.unwrap();
    let future = version(&made.object) + 2;
    let mut watch = widgets.follow(&format!("resourceVersion={future}")).await;
    widgets.post(widget("b", json!({}))).await.unwrap();
    widgets.post(widget("c", json!({}))).await.unwrap();
    widgets.remove("a").await.unwrap();
    assert_eq!(watch.take(1).await, ["DELETED a"]);
}

#[tokio::test(start_paused = true)]
async fn the_state_of_the_future_is_an_error_in_the_stream() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let query = "resourceVersion=100000&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut watch = widgets.follow(query).await;
    assert_eq!(watch.take(2).await, ["ERROR 504", "END"]);
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

/// The change and the frame of the next event.
async fn framed(watch: &mut Watch) -> (Arc<Change>, Bytes) {
    let item = tokio::time::timeout(Duration::from_secs(10), watch.next()).await;
    match item.unwrap().unwrap() {
        WatchItem::Event {
            kind,
            object,
            change: Some(change),
        } => {
            let frame = change.frame(kind, &object);
            (change, frame)
        }
        other => panic!("{other:?} was not made of a change"),
    }
}

#[tokio::test]
async fn an_event_is_made_and_encoded_once_for_all_watchers() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let mut watches = Vec::new();
    for query in ["", "labelSelector=color=red", "resourceVersion=0"] {
        watches.push(widgets.follow(query).await.0);
    }
    let mut object = widget("a", json!({}));
    object["metadata"]["labels"] = json!({"color": "red"});
    let before = version(&widgets.post(object).await.unwrap().object) - 1;
    // One that comes later and is told what it missed.
    let late = widgets.follow(&format!("resourceVersion={before}")).await.0;
    watches.push(late);
    let (change, frame) = framed(&mut watches[0]).await;
    for watch in &mut watches[1..] {
        let (same, shared) = framed(watch).await;
        assert!(Arc::ptr_eq(&change, &same));
        assert!(std::ptr::eq(frame.as_ptr(), shared.as_ptr()));
    }
}

/// What a watcher does not read is not kept for it: when the history has passed it by, it is told so, and nobody waited.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_that_does_not_read_is_ended_and_slows_nobody() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let mut slow = widgets.follow("").await;
    let mut quick = widgets.follow("").await;
    let reader = tokio::spawn(async move {
        let mut told = 0;
        while quick.next().await != "MODIFIED last" {
            told += 1;
        }
        told
    });
    widgets.post(widget("last", json!({}))).await.unwrap();
    // 80 MB, where the history of a resource holds 64.
    let color = "x".repeat(1 << 20);
    for n in 0..80 {
        let object = widget("large", json!({"color": format!("{n}{color}")}));
        let written = if n == 0 {
            widgets.post(object).await
        } else {
            widgets.merge("large", object).await
        };
        written.unwrap();
    }
    widgets
        .merge("last", json!({"spec": {"size": 2}}))
        .await
        .unwrap();
    let told = tokio::time::timeout(Duration::from_secs(20), reader).await;
    assert_eq!(told.unwrap().unwrap(), 81);
    assert_eq!(slow.take(2).await, ["ERROR 410", "END"]);
    // It lists, and goes on.
    let list = widgets.all("").await.unwrap();
    let mut again = widgets
        .follow(&format!("resourceVersion={}", list.resource_version))
        .await;
    widgets.remove("large").await.unwrap();
    assert_eq!(again.next().await, "DELETED large");
}
