use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use joinery_object::{EventType, GroupVersionResource, ResourceVersionMatch};
use joinery_schema::Columns;
use joinery_source::testing::MemoryUpstream;
use joinery_source::{ByteBudget, SourceCache, SourceSpec};
use joinery_view::{
    CombineResult, Composed, Group, Join, JoinError, Relation, Selection, Side, ViewSpec,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::access::{Authorizer, Decision, User};

const UID_LABEL: &str = "tasks.example.com/task-uid";

fn tasks() -> GroupVersionResource {
    GroupVersionResource::new("tasks.example.com", "v1", "tasks")
}

fn events() -> GroupVersionResource {
    GroupVersionResource::new("", "v1", "events")
}

/// Counts the Events of a Task, and shows its labels.
struct Counting(ViewSpec);

impl Counting {
    fn new() -> Self {
        let source = |name: &str, gvr, label_selector: &str| joinery_view::SourceSpec {
            name: name.to_owned(),
            gvr,
            label_selector: label_selector.to_owned(),
            field_selector: String::new(),
            reads: Vec::new(),
            optional: false,
        };
        Self(ViewSpec {
            resource: GroupVersionResource::new("g", "v1", "combinedtasks"),
            kind: "CombinedTask".to_owned(),
            sources: vec![
                source("tasks", tasks(), ""),
                source("events", events(), UID_LABEL),
            ],
            relations: vec![Relation {
                name: "events".to_owned(),
                source: 1,
                parent: None,
                reach: Reach::SameNamespace,
                limit: 100,
            }],
        })
    }
}

fn value(bytes: &Bytes) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[async_trait]
impl Join for Counting {
    fn spec(&self) -> &ViewSpec {
        &self.0
    }

    async fn keys(
        &self,
        _: usize,
        side: Side,
        objects: Vec<Bytes>,
    ) -> Result<Vec<Vec<String>>, JoinError> {
        let key = |object: &Bytes| {
            let metadata = &value(object)["metadata"];
            let key = match side {
                Side::Parent => &metadata["uid"],
                Side::Child => &metadata["labels"][UID_LABEL],
            };
            vec![key.as_str().unwrap().to_owned()]
        };
        Ok(objects.iter().map(key).collect())
    }

    async fn query(&self, _: usize, keys: Vec<String>) -> Result<Selection, JoinError> {
        Ok(Selection::Selector {
            label_selector: format!("{UID_LABEL} in ({})", keys.join(",")),
            field_selector: String::new(),
        })
    }

    async fn combine(&self, groups: Vec<Group>) -> Result<Vec<CombineResult>, JoinError> {
        let combine = |group: &Group| {
            let metadata = &value(&group.primary)["metadata"];
            let mut shown = json!({});
            for name in ["name", "namespace", "uid", "labels"] {
                shown[name] = metadata[name].clone();
            }
            let object = json!({
                "apiVersion": "g/v1", "kind": "CombinedTask", "metadata": shown,
                "events": group.branches[0].objects.len(),
            });
            Ok(Some(Composed {
                text: object.to_string().into(),
                inserts: Vec::new(),
            }))
        };
        Ok(groups.iter().map(combine).collect())
    }
}

/// Allows everything but one resource.
struct AllBut(&'static str);

#[async_trait]
impl Authorizer for AllBut {
    async fn authorize(&self, _: &User, attributes: &Attributes) -> Result<Decision, Status> {
        Ok(match attributes {
            Attributes::Resource { resource, .. } if resource == self.0 => {
                Decision::Denied(String::new())
            }
            _ => Decision::Allowed,
        })
    }
}

struct Host {
    upstream: MemoryUpstream,
    resource: ViewResource,
}

async fn start(upstream: &MemoryUpstream, mode: Mode, security: Security) -> Host {
    start_within(ByteBudget::unlimited(), upstream, mode, security).await
}

/// With sources that share a budget.
async fn start_within(
    budget: Arc<ByteBudget>,
    upstream: &MemoryUpstream,
    mode: Mode,
    security: Security,
) -> Host {
    let upstream = upstream.connect();
    let join = Arc::new(Counting::new());
    let cache = |source: &joinery_view::SourceSpec| {
        let spec = SourceSpec {
            gvr: source.gvr.clone(),
            label_selector: source.label_selector.clone(),
            field_selector: String::new(),
            optional: false,
        };
        Arc::new(SourceCache::start(
            Arc::new(upstream.clone()),
            spec,
            budget.clone(),
        ))
    };
    let sources = join.spec().sources.iter().map(cache).collect();
    let definition = Definition {
        gvr: join.spec().resource.clone(),
        kind: "CombinedTask".to_owned(),
        list_kind: "CombinedTaskList".to_owned(),
        singular: "combinedtask".to_owned(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: vec!["get", "list", "watch"],
        status_subresource: false,
        schema: "{}".into(),
        columns: Columns::compile(&[]).unwrap(),
        selectable_fields: Vec::new(),
    };
    let settings = ViewSettings {
        definition: Arc::new(definition),
        mode,
        security,
    };
    let prepared = Prepared::new(join, sources).await;
    let authorizer = match security {
        Security::Invoker => Arc::new(AllBut("nothing")),
        Security::Definer => Arc::new(AllBut("events")),
    };
    Host {
        resource: ViewResource::new(settings, prepared, Arc::new(upstream.clone()), authorizer),
        upstream,
    }
}

async fn cached(upstream: &MemoryUpstream) -> Host {
    start(upstream, Mode::Cached, Security::Invoker).await
}

fn upstream() -> MemoryUpstream {
    MemoryUpstream::new()
        .with(&tasks(), "Task", 0)
        .with(&events(), "Event", 0)
}

fn put_task(upstream: &MemoryUpstream, name: &str, label: &str) {
    let metadata = json!({
        "name": name, "namespace": "a", "uid": format!("uid-{name}"), "labels": {"l": label},
    });
    upstream.put(&tasks(), json!({"metadata": metadata}));
}

fn put_event(upstream: &MemoryUpstream, name: &str, of: &str) {
    let metadata = json!({
        "name": name, "namespace": "a", "labels": {UID_LABEL: format!("uid-{of}")},
    });
    upstream.put(&events(), json!({"metadata": metadata}));
}

fn caller() -> Caller {
    Caller {
        user: User::default(),
        now: 0,
    }
}

fn from(version: impl ToString) -> ListOptions {
    ListOptions {
        watch: true,
        resource_version: Some(version.to_string()),
        ..ListOptions::default()
    }
}

async fn list(host: &Host) -> List {
    let options = ListOptions::default();
    host.resource
        .list(&caller(), Some("a"), &options)
        .await
        .unwrap()
}

/// What a watch tells until it has been quiet for a while.
async fn told(watch: &mut Watch) -> Vec<String> {
    let mut told = Vec::new();
    while let Ok(Some(item)) = timeout(Duration::from_secs(5), watch.next()).await {
        told.push(match item {
            WatchItem::Event { kind, object, .. } => {
                let count = &value(&object.bytes())["events"];
                let deleted = kind == EventType::Deleted;
                let count = if deleted {
                    String::new()
                } else {
                    format!(" {count}")
                };
                format!("{} {}{count}", kind.as_str(), object.key().name)
            }
            WatchItem::Bookmark { .. } => continue,
            WatchItem::Error(status) => format!("ERROR {}", status.code),
        });
    }
    told
}

#[tokio::test(start_paused = true)]
async fn a_task_that_was_written_just_now_is_found() {
    let upstream = upstream();
    let host = cached(&upstream).await;
    host.upstream.hold(&tasks());
    put_task(&upstream, "new", "x");
    let key = ObjectKey::new(Some("a"), "new");
    let (asking, arriving) = (caller(), async {
        sleep(Duration::from_secs(1)).await;
        host.upstream.release(&tasks());
    });
    let (found, ()) = tokio::join!(host.resource.get(&asking, &key, None), arriving);
    assert_eq!(found.unwrap().key(), &key);
    let unknown = ObjectKey::new(Some("a"), "unknown");
    let missing = host.resource.get(&caller(), &unknown, None).await;
    assert_eq!(missing.unwrap_err().code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_list_and_a_watch_from_it_fit_together_also_when_read_live() {
    for mode in [Mode::Cached, Mode::Live] {
        let upstream = upstream();
        put_task(&upstream, "one", "x");
        let host = start(&upstream, mode, Security::Invoker).await;
        // Others write, so that what upstream lists is at a position that no change of a source brings.
        upstream.pass(&tasks(), 100);
        let version = list(&host).await.resource_version;
        let mut watch = host
            .resource
            .watch(&caller(), None, &from(&version))
            .await
            .unwrap();
        assert_eq!(told(&mut watch).await, Vec::<String>::new());
        put_event(&upstream, "e", "one");
        assert_eq!(told(&mut watch).await, ["MODIFIED one 1"]);
        assert!(list(&host).await.resource_version > version);
    }
}

#[tokio::test(start_paused = true)]
async fn pages_of_a_live_list_carry_one_version_that_no_item_is_beyond() {
    let upstream = upstream();
    for name in ["a1", "a2", "a3"] {
        put_task(&upstream, name, "x");
    }
    let host = start(&upstream, Mode::Live, Security::Invoker).await;
    let mut options = ListOptions {
        limit: 2,
        ..ListOptions::default()
    };
    let first = host
        .resource
        .list(&caller(), Some("a"), &options)
        .await
        .unwrap();
    put_event(&upstream, "e", "a3");
    sleep(Duration::from_secs(1)).await;
    options.continue_token = first.continue_token;
    let second = host
        .resource
        .list(&caller(), Some("a"), &options)
        .await
        .unwrap();
    assert_eq!((first.items.len(), second.items.len()), (2, 1));
    assert_eq!(second.resource_version, first.resource_version);
    assert!(
        second
            .resource_version
            .covers(second.items[0].resource_version())
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_across_a_restart() {
    let upstream = upstream();
    for (name, label) in [("one", "x"), ("two", "x"), ("three", "y")] {
        put_task(&upstream, name, label);
    }
    let before = cached(&upstream).await;
    let version = list(&before).await.resource_version;
    drop(before);
    put_event(&upstream, "e", "one");
    put_task(&upstream, "four", "x");
    put_task(&upstream, "two", "y");
    upstream.delete(&tasks(), &ObjectKey::new(Some("a"), "three"));
    let after = cached(&upstream).await;
    let mut watch = after
        .resource
        .watch(&caller(), None, &from(&version))
        .await
        .unwrap();
    let mut events = told(&mut watch).await;
    events.sort();
    assert_eq!(
        events,
        [
            "ADDED four 0",
            "DELETED three",
            "MODIFIED one 1",
            "MODIFIED two 0"
        ]
    );
    // One who selects is told what has left his selection.
    let selecting = ListOptions {
        label_selector: "l=x".parse().unwrap(),
        ..from(&version)
    };
    let mut watch = after
        .resource
        .watch(&caller(), None, &selecting)
        .await
        .unwrap();
    let mut events = told(&mut watch).await;
    events.sort();
    assert_eq!(
        events,
        [
            "ADDED four 0",
            "DELETED three",
            "DELETED two",
            "MODIFIED one 1"
        ]
    );
    // One of another namespace is told nothing, whatever may have been there in between.
    let mut elsewhere = after
        .resource
        .watch(&caller(), Some("b"), &from(&version))
        .await
        .unwrap();
    put_task(&upstream, "brief", "x");
    upstream.delete(&tasks(), &ObjectKey::new(Some("a"), "brief"));
    assert!(told(&mut elsewhere).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_version_that_cannot_be_served_gets_the_answer_after_which_clients_list_again() {
    let upstream = upstream();
    put_task(&upstream, "one", "x");
    let before = cached(&upstream).await;
    let version = list(&before).await.resource_version;
    drop(before);
    put_task(&upstream, "one", "y");
    upstream.compact(&tasks());
    let host = cached(&upstream).await;
    let mut watch = host
        .resource
        .watch(&caller(), None, &from(&version))
        .await
        .unwrap();
    assert_eq!(told(&mut watch).await, ["ERROR 410"]);
    let code = async |version: &str| {
        let answer = host.resource.watch(&caller(), None, &from(version)).await;
        answer.err().map(|status| status.code)
    };
    // None of this view, but one of a view of three sources: it may have read one more once.
    let of_three = ResourceVersion::of_positions(&[5, 6, 7]).to_string();
    assert_eq!(code(&of_three).await, Some(410));
    // Numbers that no view hands out.
    assert_eq!(code("99999999999999999999").await, Some(400));
    assert_eq!(code(&"1234567890".repeat(4)).await, Some(400));
    assert_eq!(code("yesterday").await, Some(400));
    let future = ResourceVersion::of_positions(&[1 << 50, 1 << 50]).to_string();
    let options = ListOptions {
        watch: false,
        ..from(&future)
    };
    let list = host.resource.list(&caller(), None, &options).await;
    assert_eq!(list.err().map(|status| status.code), Some(504));
    let exact = ListOptions {
        resource_version_match: Some(ResourceVersionMatch::Exact),
        resource_version: Some("1".to_owned()),
        ..options
    };
    let status = host
        .resource
        .list(&caller(), None, &exact)
        .await
        .err()
        .unwrap();
    assert_eq!(
        (status.code, &*status.message),
        (410, "The resourceVersion for the provided list is too old.")
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_version_that_has_not_come_yet_is_silent_until_then() {
    let upstream = upstream();
    put_task(&upstream, "one", "x");
    let host = cached(&upstream).await;
    let now = list(&host).await.resource_version;
    let next = ResourceVersion::of_positions(&[now.position(0) + 1, now.position(1)]);
    let began = Instant::now();
    let mut watch = host
        .resource
        .watch(&caller(), None, &from(next))
        .await
        .unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert!(told(&mut watch).await.is_empty());
    put_task(&upstream, "two", "x");
    sleep(Duration::from_secs(10)).await;
    put_task(&upstream, "three", "x");
    assert_eq!(told(&mut watch).await, ["ADDED three 0"]);
    // Nobody waits for a view that is gone.
    let far = ResourceVersion::of_positions(&[1 << 50, 1 << 50]);
    let mut watch = host
        .resource
        .watch(&caller(), None, &from(far))
        .await
        .unwrap();
    assert!(told(&mut watch).await.is_empty());
    drop(host);
    assert_eq!(told(&mut watch).await, ["ERROR 410"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_upstream_has_been_silent_for_too_long() {
    let upstream = upstream();
    put_task(&upstream, "one", "x");
    let host = cached(&upstream).await;
    let version = list(&host).await.resource_version;
    let mut watch = host
        .resource
        .watch(&caller(), None, &from(version))
        .await
        .unwrap();
    sleep(Duration::from_secs(100)).await;
    host.upstream.freeze();
    let frozen = Instant::now();
    let item = watch.next().await;
    assert!(matches!(item, Some(WatchItem::Error(status)) if status.code == 503));
    assert!(frozen.elapsed() <= Duration::from_secs(60));
    assert!(watch.next().await.is_none());
    // What is cached can still be read.
    assert_eq!(list(&host).await.items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_its_view() {
    let upstream = upstream();
    let host = cached(&upstream).await;
    let version = list(&host).await.resource_version;
    let mut watch = host
        .resource
        .watch(&caller(), None, &from(version))
        .await
        .unwrap();
    drop(host);
    assert!(matches!(watch.next().await, Some(WatchItem::Error(status)) if status.code == 410));
}

#[tokio::test(start_paused = true)]
async fn the_callers_rights_on_the_sources_count_unless_the_view_lends_its_own() {
    let upstream = upstream();
    put_task(&upstream, "one", "x");
    let mut host = cached(&upstream).await;
    host.resource.authorizer = Arc::new(AllBut("events"));
    let options = ListOptions::default();
    let refused = host
        .resource
        .list(&caller(), Some("a"), &options)
        .await
        .unwrap_err();
    assert_eq!(refused.code, 403);
    assert!(refused.message.contains("events"), "{}", refused.message);
    let host = start(&upstream, Mode::Cached, Security::Definer).await;
    assert_eq!(list(&host).await.items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_too_large_to_be_held_is_read_live_and_not_watched_until_it_fits() {
    let upstream = upstream();
    put_task(&upstream, "one", "x");
    put_event(&upstream, "first", "one");
    let budget = ByteBudget::new(2_000);
    let (mode, security) = (Mode::Cached, Security::Invoker);
    let host = start_within(budget.clone(), &upstream, mode, security).await;
    let events_of_one = |list: &List| value(&list.items[0].bytes())["events"].clone();
    let before = list(&host).await;
    let watch = async |version: String| {
        let resource = &host.resource;
        resource.watch(&caller(), Some("a"), &from(version)).await
    };
    let mut open = watch(before.resource_version.to_string()).await.unwrap();
    assert!(!host.resource.suspended() && budget.used() > 0);

    let more = |number: usize| format!("more-{number}");
    for number in 0..40 {
        put_event(&upstream, &more(number), "one");
    }
    assert_eq!(told(&mut open).await.last().unwrap(), "ERROR 503");
    assert!(host.resource.suspended());
    assert!(budget.used() <= budget.limit());
    let now = list(&host).await;
    assert_eq!(events_of_one(&now), 41, "read live, so nothing is missing");
    let refused = watch(now.resource_version.to_string()).await;
    assert_eq!(refused.err().unwrap().code, 503);

    for number in 0..40 {
        let key = ObjectKey::new(Some("a"), &more(number));
        upstream.delete(&events(), &key);
    }
    let deadline = Instant::now() + Duration::from_secs(1_200);
    while host.resource.suspended() {
        assert!(Instant::now() < deadline, "it fits again");
        sleep(Duration::from_secs(1)).await;
    }
    let after = list(&host).await;
    assert_eq!(events_of_one(&after), 1);
    let mut open = watch(after.resource_version.to_string()).await.unwrap();
    put_event(&upstream, "second", "one");
    assert_eq!(told(&mut open).await, ["MODIFIED one 2"]);
}
