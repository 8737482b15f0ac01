//! What admission read still holds when the write takes place.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use joinery_object::{GroupVersionResource, ObjectKey, Status, reason};
use joinery_resource::{Admit, Lookup, LookupList, Operation, Review, Verdict};
use serde_json::{Value, json};

use crate::support::{Host, Speak, widget};

fn gvr(plural: &str) -> GroupVersionResource {
    GroupVersionResource::new("example.com", "v1", plural)
}

/// Between what a rule reads and the commit others have time to write.
async fn think() {
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
}

/// A child needs its parent.
struct NeedsParent;

#[async_trait]
impl Admit for NeedsParent {
    async fn admit(
        &self,
        resource: &GroupVersionResource,
        review: Review,
        lookup: Arc<dyn Lookup>,
    ) -> Result<Verdict, Status> {
        if review.operation == Operation::Create {
            let child: Value = serde_json::from_slice(&review.object.unwrap()).unwrap();
            let parent = child["spec"]["parent"].as_str().unwrap();
            let key = ObjectKey::new(None, parent);
            if lookup.get(&gvr("parents"), &key).await?.is_none() {
                return Err(Status::forbidden(
                    resource,
                    &review.key.name,
                    "the parent is gone",
                ));
            }
            think().await;
        }
        Ok(Verdict::default())
    }
}

/// A parent with children stays.
struct KeepsParent;

#[async_trait]
impl Admit for KeepsParent {
    async fn admit(
        &self,
        resource: &GroupVersionResource,
        review: Review,
        lookup: Arc<dyn Lookup>,
    ) -> Result<Verdict, Status> {
        if review.operation == Operation::Delete {
            let options = LookupList {
                field_selector: format!("spec.color={}", review.key.name),
                limit: 1,
                ..LookupList::default()
            };
            let (children, _) = lookup.list(&gvr("children"), &options).await?;
            if !children.is_empty() {
                return Err(Status::forbidden(
                    resource,
                    &review.key.name,
                    "it has children",
                ));
            }
            think().await;
        }
        Ok(Verdict::default())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_child_is_ever_without_its_parent_however_they_race() {
    const CLIENTS: usize = 64;
    const ROUNDS: usize = 8;
    let host = Host::start().await;
    let parents = host
        .custom("parents", false, Some(Arc::new(KeepsParent)))
        .await;
    let children = host
        .custom("children", true, Some(Arc::new(NeedsParent)))
        .await;
    let (born, gone) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for round in 0..ROUNDS {
        let parent = format!("p{round}");
        parents.post(widget(&parent, json!({}))).await.unwrap();
        let mut clients = Vec::new();
        for client in 0..CLIENTS {
            let (parents, children) = (parents.clone(), children.clone());
            let (born, gone) = (born.clone(), gone.clone());
            let parent = parent.clone();
            clients.push(tokio::spawn(async move {
                if client % 2 == 0 {
                    let name = format!("{parent}-{client}");
                    let spec = json!({"parent": parent, "color": parent});
                    match children.post(widget(&name, spec)).await {
                        Ok(_) => born.fetch_add(1, Ordering::Relaxed),
                        Err(status) => {
                            let expected =
                                status.is(reason::FORBIDDEN) || status.is(reason::CONFLICT);
                            assert!(expected, "{status}");
                            0
                        }
                    };
                } else {
                    match parents.remove(&parent).await {
                        Ok(_) => {
                            gone.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(status) => assert!(matches!(status.code, 403 | 404 | 409), "{status}"),
                    }
                }
            }));
        }
        for client in clients {
            client.await.unwrap();
        }
        let there = parents.read(&parent).await.is_ok();
        let query = format!("fieldSelector=spec.color={parent}");
        let count = children.all(&query).await.unwrap().items.len();
        assert!(
            there || count == 0,
            "{count} children of {parent} have no parent"
        );
    }
    assert!(born.load(Ordering::Relaxed) + gone.load(Ordering::Relaxed) >= ROUNDS);
}

/// Changes what it has read, as others might between admission and commit, so often.
struct Disturbed {
    times: AtomicUsize,
    children: Arc<joinery_resource::StoredResource>,
    asked: AtomicUsize,
}

#[async_trait]
impl Admit for Disturbed {
    async fn admit(
        &self,
        _resource: &GroupVersionResource,
        _review: Review,
        lookup: Arc<dyn Lookup>,
    ) -> Result<Verdict, Status> {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        lookup
            .list(&gvr("children"), &LookupList::default())
            .await?;
        if asked < self.times.load(Ordering::SeqCst) {
            self.children
                .post(widget(&format!("c{asked}"), json!({})))
                .await
                .unwrap();
        }
        Ok(Verdict::default())
    }
}

#[tokio::test]
async fn admission_is_asked_again_five_times_and_then_it_is_a_conflict() {
    let host = Host::start().await;
    let children = host.custom("children", true, None).await;
    let rule = Arc::new(Disturbed {
        times: AtomicUsize::new(4),
        children,
        asked: AtomicUsize::new(0),
    });
    let widgets = host.custom("widgets", true, Some(rule.clone())).await;
    widgets.post(widget("a", json!({}))).await.unwrap();
    assert_eq!(rule.asked.load(Ordering::SeqCst), 5);
    rule.times.store(100, Ordering::SeqCst);
    let status = widgets.post(widget("b", json!({}))).await.unwrap_err();
    assert_eq!((status.code, &*status.reason), (409, reason::CONFLICT));
    assert_eq!(rule.asked.load(Ordering::SeqCst), 10);
    assert_eq!(widgets.read("b").await.unwrap_err().code, 404);
}

/// Asks for red children, while others make blue ones.
struct Narrow {
    children: Arc<joinery_resource::StoredResource>,
    asked: AtomicUsize,
}

#[async_trait]
impl Admit for Narrow {
    async fn admit(
        &self,
        _resource: &GroupVersionResource,
        _review: Review,
        lookup: Arc<dyn Lookup>,
    ) -> Result<Verdict, Status> {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        let options = LookupList {
            field_selector: "spec.color=red".to_owned(),
            ..LookupList::default()
        };
        lookup.list(&gvr("children"), &options).await?;
        let color = if asked == 1 { "red" } else { "blue" };
        let child = widget(&format!("c{asked}"), json!({"color": color}));
        self.children.post(child).await.unwrap();
        Ok(Verdict::default())
    }
}

#[tokio::test]
async fn changes_that_a_look_up_does_not_select_do_not_disturb_it() {
    let host = Host::start().await;
    let children = host.custom("children", true, None).await;
    let rule = Arc::new(Narrow {
        children,
        asked: AtomicUsize::new(0),
    });
    let widgets = host.custom("widgets", true, Some(rule.clone())).await;
    widgets.post(widget("a", json!({}))).await.unwrap();
    assert_eq!(rule.asked.load(Ordering::SeqCst), 1);
    // A red one is what it asked for.
    widgets.post(widget("b", json!({}))).await.unwrap();
    assert_eq!(rule.asked.load(Ordering::SeqCst), 3);
}

/// Asks for what nobody serves.
struct Lost;

#[async_trait]
impl Admit for Lost {
    async fn admit(
        &self,
        _resource: &GroupVersionResource,
        _review: Review,
        lookup: Arc<dyn Lookup>,
    ) -> Result<Verdict, Status> {
        lookup
            .get(&gvr("nothings"), &ObjectKey::new(None, "a"))
            .await?;
        Ok(Verdict::default())
    }
}

#[tokio::test]
async fn a_resource_that_is_not_there_is_not_found() {
    let host = Host::start().await;
    let widgets = host.custom("widgets", true, Some(Arc::new(Lost))).await;
    let status = widgets.post(widget("a", json!({}))).await.unwrap_err();
    assert_eq!(status.code, 404);
    assert_eq!(
        status.message,
        "the server has no resource example.com/v1, nothings"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_create_one_name_or_change_one_version_one_wins() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let race = async |object: fn() -> Value, put: bool| {
        let mut clients = Vec::new();
        let read = widgets.read("a").await.unwrap_or_default();
        for client in 0..64 {
            let widgets = widgets.clone();
            let mut object = object();
            if put {
                object = read.clone();
            }
            object["spec"]["color"] = format!("{put}-{client}").into();
            clients.push(tokio::spawn(async move {
                let outcome = if put {
                    widgets.put(object).await
                } else {
                    widgets.post(object).await
                };
                match outcome {
                    Ok(_) => 1,
                    Err(status) => {
                        assert_eq!(status.code, 409, "{status}");
                        0
                    }
                }
            }));
        }
        let mut won = 0;
        for client in clients {
            won += client.await.unwrap();
        }
        won
    };
    assert_eq!(race(|| widget("a", json!({})), false).await, 1);
    assert_eq!(race(|| widget("a", json!({})), true).await, 1);
}
