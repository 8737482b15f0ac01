//! What resourceVersion, match, limit and continue mean in a list.

use std::time::Duration;

use joinery_object::reason;
use joinery_resource::Resource;
use serde_json::json;

use crate::support::{Host, Speak, admin, list_options, names, version, widget};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_show_what_was_written_before() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    for i in 0..200 {
        let name = format!("w{i:03}");
        let written = widgets.post(widget(&name, json!({}))).await.unwrap();
        // Also a read that need not be of the latest.
        let any = widgets.all("resourceVersion=0").await.unwrap();
        assert_eq!(any.items.len(), i + 1);
        assert!(any.resource_version.position(0) >= version(&written.object));
        widgets.read(&name).await.unwrap();
        // A write of somebody else, past this resource.
        let key = joinery_store::Key::new("example.com", "others", "", &name).unwrap();
        let put = joinery_store::Op::Put {
            key,
            value: bytes::Bytes::from_static(b"x"),
        };
        let other = host.store.txn(vec![put], Vec::new()).await.unwrap();
        let latest = widgets.all("").await.unwrap();
        assert!(latest.resource_version.position(0) >= other.revision);
    }
}

#[tokio::test]
async fn an_exact_list_is_as_it_was_and_others_are_not_older() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let first = version(&widgets.post(widget("a", json!({}))).await.unwrap().object);
    widgets.post(widget("b", json!({}))).await.unwrap();
    widgets.remove("a").await.unwrap();
    for (query, expected) in [
        (String::new(), vec!["b"]),
        ("resourceVersion=0".to_owned(), vec!["b"]),
        (format!("resourceVersion={first}"), vec!["b"]),
        (
            format!("resourceVersion={first}&resourceVersionMatch=NotOlderThan"),
            vec!["b"],
        ),
        (
            format!("resourceVersion={first}&resourceVersionMatch=NotOlderThan&limit=5"),
            vec!["b"],
        ),
        (
            format!("resourceVersion={first}&resourceVersionMatch=Exact"),
            vec!["a"],
        ),
        (format!("resourceVersion={first}&limit=5"), vec!["a"]),
        (
            format!("resourceVersion={}&limit=5", first + 1),
            vec!["a", "b"],
        ),
    ] {
        let list = widgets.all(&query).await.unwrap();
        assert_eq!(names(&list), expected, "{query}");
        if query.contains("Exact") {
            assert_eq!(list.resource_version.position(0), first);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_of_the_future_is_awaited_for_three_seconds() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let now = tokio::time::Instant::now();
    for query in [
        "resourceVersion=100000",
        "resourceVersion=100000&resourceVersionMatch=Exact",
    ] {
        let status = widgets.all(query).await.unwrap_err();
        assert_eq!((status.code, &*status.reason), (504, reason::TIMEOUT));
        assert_eq!(
            &*status.details.unwrap().causes[0].reason,
            "ResourceVersionTooLarge"
        );
    }
    assert!(now.elapsed() >= Duration::from_secs(6));
    let get = widgets
        .get(&admin(), &crate::support::key("a"), Some("100000"))
        .await;
    assert_eq!(get.unwrap_err().code, 504);
}

#[tokio::test]
async fn a_version_that_is_no_number_or_compacted_is_refused() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let first = version(&widgets.post(widget("a", json!({}))).await.unwrap().object);
    let second = version(&widgets.post(widget("b", json!({}))).await.unwrap().object);
    host.store.compact(second).await.unwrap();
    let status = widgets
        .all(&format!(
            "resourceVersion={first}&resourceVersionMatch=Exact"
        ))
        .await
        .unwrap_err();
    assert_eq!((status.code, &*status.reason), (410, reason::EXPIRED));
    let huge = format!("resourceVersion={}0", u64::MAX);
    assert_eq!(widgets.all(&huge).await.unwrap_err().code, 400);
}

#[tokio::test]
async fn pages_show_one_moment() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    for i in 0..7 {
        widgets
            .post(widget(&format!("w{i}"), json!({})))
            .await
            .unwrap();
    }
    let mut told = Vec::new();
    let mut query = "limit=3".to_owned();
    let mut versions = Vec::new();
    let mut remaining = Vec::new();
    loop {
        let page = widgets.all(&query).await.unwrap();
        told.extend(names(&page));
        versions.push(page.resource_version.clone());
        remaining.push(page.remaining);
        let Some(token) = page.continue_token else {
            break;
        };
        query = format!("limit=3&continue={token}");
        // What happens meanwhile is not seen.
        let _ = widgets.remove("w6").await;
        let _ = widgets.post(widget("w5a", json!({}))).await;
    }
    assert_eq!(told, ["w0", "w1", "w2", "w3", "w4", "w5", "w6"]);
    assert!(versions.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(remaining, [Some(4), Some(1), None]);
}

#[tokio::test]
async fn selectors_narrow_pages_and_hide_how_many_remain() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    for i in 0..6 {
        let color = if i % 2 == 0 { "red" } else { "blue" };
        let mut object = widget(&format!("w{i}"), json!({"color": color}));
        object["metadata"]["labels"] = json!({"color": color});
        widgets.post(object).await.unwrap();
    }
    for selector in ["labelSelector=color=red", "fieldSelector=spec.color=red"] {
        let page = widgets.all(&format!("{selector}&limit=2")).await.unwrap();
        assert_eq!(names(&page), ["w0", "w2"]);
        assert_eq!(page.remaining, None);
        let token = page.continue_token.unwrap();
        let rest = widgets
            .all(&format!("{selector}&limit=2&continue={token}"))
            .await
            .unwrap();
        assert_eq!(names(&rest), ["w4"]);
        assert!(rest.continue_token.is_none());
    }
    let status = widgets.all("fieldSelector=spec.size=1").await.unwrap_err();
    assert_eq!(status.code, 400);
    assert!(
        status.message.contains("is not a known field selector"),
        "{status}"
    );
}

#[tokio::test]
async fn a_continue_token_that_has_expired_comes_with_one_for_the_remainder() {
    let store: std::sync::Arc<dyn joinery_store::Store> =
        std::sync::Arc::new(joinery_store::Embedded::temporary().unwrap());
    let token = {
        let host = Host::on(store.clone(), Default::default()).await;
        let widgets = host.widgets().await;
        for name in ["a", "b", "c"] {
            widgets.post(widget(name, json!({}))).await.unwrap();
        }
        widgets
            .all("limit=1")
            .await
            .unwrap()
            .continue_token
            .unwrap()
    };
    // Another replica, or the same after a restart, goes on from the store's history.
    let host = Host::on(store.clone(), Default::default()).await;
    let widgets = host.widgets().await;
    widgets.remove("b").await.unwrap();
    let page = widgets
        .all(&format!("limit=5&continue={token}"))
        .await
        .unwrap();
    assert_eq!(names(&page), ["b", "c"]);
    widgets.post(widget("d", json!({}))).await.unwrap();
    store
        .compact(store.revision().await.unwrap())
        .await
        .unwrap();
    let status = widgets
        .all(&format!("limit=5&continue={token}"))
        .await
        .unwrap_err();
    assert_eq!((status.code, &*status.reason), (410, reason::EXPIRED));
    let remainder = status.continue_token.unwrap();
    let page = widgets
        .all(&format!("limit=5&continue={remainder}"))
        .await
        .unwrap();
    assert_eq!(names(&page), ["c", "d"]);
    let status = widgets.all("continue=nonsense").await.unwrap_err();
    assert_eq!(status.code, 400);
}

#[tokio::test]
async fn a_list_of_a_namespace_shows_that_namespace() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    widgets.post(widget("a", json!({}))).await.unwrap();
    let options = list_options("");
    let list = async |namespace| widgets.list(&admin(), Some(namespace), &options).await;
    assert_eq!(list("default").await.unwrap().items.len(), 1);
    assert!(list("kube-system").await.unwrap().items.is_empty());
}
