//! Caches of an upstream in memory, on a clock that stands still while there is something to do.
#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::sync::Arc;
use std::time::Duration;

use joinery_object::{Change, EventType, GroupVersionResource, ObjectKey};
use joinery_source::testing::{MemoryUpstream, Verb};
use joinery_source::{ByteBudget, CacheState, SourceCache, SourceSpec, UpstreamError};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

fn gvr() -> GroupVersionResource {
    GroupVersionResource::new("", "v1", "events")
}

fn spec(label_selector: &str, optional: bool) -> SourceSpec {
    SourceSpec {
        gvr: gvr(),
        label_selector: label_selector.to_owned(),
        field_selector: String::new(),
        optional,
    }
}

fn event(name: &str, label: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "a", "labels": {"of": label}}})
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(Some("a"), name)
}

fn upstream() -> MemoryUpstream {
    MemoryUpstream::new().with(&gvr(), "Event", 0)
}

async fn start(upstream: &MemoryUpstream, spec: SourceSpec) -> SourceCache {
    let cache = SourceCache::start(Arc::new(upstream.clone()), spec, ByteBudget::unlimited());
    cache.synced().await;
    cache
}

async fn reached(cache: &SourceCache, upstream: &MemoryUpstream) {
    let wanted = upstream.revision(&gvr());
    let deadline = Instant::now() + Duration::from_secs(30);
    while cache.position() < wanted {
        assert!(
            Instant::now() < deadline,
            "{} of {wanted}",
            cache.position()
        );
        sleep(Duration::from_millis(10)).await;
    }
}

fn names(cache: &SourceCache) -> Vec<String> {
    let (objects, ..) = cache.subscribe().unwrap();
    objects.keys().map(|key| key.name.to_string()).collect()
}

fn words(changes: &[Arc<Change>]) -> Vec<String> {
    let told = changes.iter().filter_map(|change| change.event(|_| true));
    told.map(|(kind, object)| format!("{} {}", kind.as_str(), object.key().name))
        .collect()
}

fn count(upstream: &MemoryUpstream, verb: Verb) -> usize {
    upstream
        .requests()
        .iter()
        .filter(|request| request.verb == verb)
        .count()
}

#[tokio::test(start_paused = true)]
async fn what_enters_changes_and_leaves_the_selection_is_followed() {
    let upstream = upstream();
    upstream.put(&gvr(), event("one", "x"));
    upstream.put(&gvr(), event("other", "y"));
    let cache = start(&upstream, spec("of=x", false)).await;
    assert_eq!(names(&cache), ["one"]);
    let (_, _, mut follower) = cache.subscribe().unwrap();
    upstream.put(&gvr(), event("other", "x"));
    upstream.put(&gvr(), event("one", "y"));
    upstream.put(&gvr(), event("other", "x"));
    upstream.delete(&gvr(), &key("other"));
    reached(&cache, &upstream).await;
    let (changes, position) = follower.take().unwrap();
    assert_eq!(
        words(&changes),
        [
            "ADDED other",
            "DELETED one",
            "MODIFIED other",
            "DELETED other"
        ]
    );
    assert_eq!(position.position(0), upstream.revision(&gvr()));
    assert_eq!((names(&cache), cache.bytes()), (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn a_long_list_is_read_in_pages() {
    let upstream = upstream();
    for n in 0..1200 {
        upstream.put(&gvr(), event(&format!("e{n}"), "x"));
    }
    let cache = start(&upstream, spec("", false)).await;
    assert_eq!(names(&cache).len(), 1200);
    assert_eq!(count(&upstream, Verb::List), 3);
}

#[tokio::test(start_paused = true)]
async fn a_broken_stream_is_taken_up_where_it_broke() {
    let upstream = upstream();
    let cache = start(&upstream, spec("", false)).await;
    upstream.put(&gvr(), event("one", "x"));
    reached(&cache, &upstream).await;
    upstream.break_streams();
    upstream.put(&gvr(), event("two", "x"));
    reached(&cache, &upstream).await;
    assert_eq!(names(&cache), ["one", "two"]);
    assert_eq!(
        (count(&upstream, Verb::List), count(&upstream, Verb::Watch)),
        (1, 2)
    );
    assert_eq!(
        cache.state(),
        CacheState {
            synced: true,
            ..CacheState::default()
        }
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_forgotten_is_listed_again_and_told_as_changes() {
    let upstream = upstream();
    for name in ["goes", "stays", "changes"] {
        upstream.put(&gvr(), event(name, "x"));
    }
    let cache = start(&upstream, spec("", false)).await;
    let (_, _, mut follower) = cache.subscribe().unwrap();
    upstream.freeze();
    upstream.break_streams();
    upstream.delete(&gvr(), &key("goes"));
    upstream.put(&gvr(), event("changes", "x"));
    upstream.put(&gvr(), event("comes", "x"));
    upstream.compact(&gvr());
    upstream.thaw();
    reached(&cache, &upstream).await;
    let (changes, _) = follower.take().unwrap();
    assert_eq!(
        words(&changes),
        ["DELETED goes", "MODIFIED changes", "ADDED comes"]
    );
    assert_eq!(names(&cache), ["changes", "comes", "stays"]);
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_hangs_is_noticed_within_a_minute_and_taken_up_again() {
    let upstream = upstream();
    let cache = start(&upstream, spec("", false)).await;
    sleep(Duration::from_secs(100)).await;
    assert!(!cache.state().stale, "silence alone is no fault");
    upstream.freeze();
    let frozen = Instant::now();
    let mut state = cache.watch_state();
    let noticed = state.wait_for(|state| state.stale).await.unwrap().clone();
    assert!(
        frozen.elapsed() <= Duration::from_secs(60),
        "{:?}",
        frozen.elapsed()
    );
    assert!(noticed.synced && noticed.error.is_some());
    upstream.put(&gvr(), event("meanwhile", "x"));
    upstream.thaw();
    reached(&cache, &upstream).await;
    assert_eq!(names(&cache), ["meanwhile"]);
    assert_eq!(
        cache.state(),
        CacheState {
            synced: true,
            ..CacheState::default()
        }
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_upstream_is_asked_small_questions_only() {
    let upstream = upstream();
    for n in 0..10 {
        upstream.put(&gvr(), event(&format!("e{n}"), "x"));
    }
    let cache = start(&upstream, spec("", false)).await;
    upstream.forget_requests();
    sleep(Duration::from_secs(290)).await;
    let requests = upstream.requests();
    assert!((4..=8).contains(&requests.len()), "{requests:?}");
    assert!(
        requests
            .iter()
            .all(|r| r.verb == Verb::List && r.query.limit == 1)
    );
    // A stream is renewed before long, whatever its connection says.
    sleep(Duration::from_secs(20)).await;
    assert_eq!(count(&upstream, Verb::Watch), 1);
    drop(cache);
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_refuses_is_tried_again_and_not_flooded() {
    let upstream = upstream();
    let refused = UpstreamError::Unreachable("connection refused".to_owned());
    upstream.fail(&gvr(), Some(refused));
    let cache = SourceCache::start(
        Arc::new(upstream.clone()),
        spec("", false),
        ByteBudget::unlimited(),
    );
    sleep(Duration::from_secs(60)).await;
    let tries = upstream.requests().len();
    assert!((5..20).contains(&tries), "{tries}");
    assert!(cache.state().stale && !cache.state().synced);
    upstream.fail(&gvr(), None);
    cache.synced().await;
}

#[tokio::test(start_paused = true)]
async fn an_optional_resource_may_come_and_go() {
    let upstream = MemoryUpstream::new();
    let cache = start(&upstream, spec("", true)).await;
    assert_eq!(names(&cache), Vec::<String>::new());
    let (_, _, mut follower) = cache.subscribe().unwrap();
    let upstream = upstream.with(&gvr(), "Event", 0);
    upstream.put(&gvr(), event("one", "x"));
    reached(&cache, &upstream).await;
    assert_eq!(words(&follower.take().unwrap().0), ["ADDED one"]);
    let before = cache.position();
    upstream.uninstall(&gvr());
    upstream.break_streams();
    sleep(Duration::from_secs(11)).await;
    let (changes, position) = follower.take().unwrap();
    assert_eq!(words(&changes), ["DELETED one"]);
    assert!(position.position(0) > before, "a loss is a change");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(cache.position(), position.position(0), "but only one");
}

#[tokio::test(start_paused = true)]
async fn a_position_that_nothing_brings_is_reached_when_it_is_wanted() {
    let upstream = upstream();
    let cache = start(&upstream, spec("", false)).await;
    let (_, _, mut follower) = cache.subscribe().unwrap();
    upstream.pass(&gvr(), 100);
    sleep(Duration::from_secs(10)).await;
    let wanted = upstream.revision(&gvr());
    assert!(cache.position() < wanted);
    cache.catch_up(wanted).await;
    reached(&cache, &upstream).await;
    let (changes, position) = follower.take().unwrap();
    assert!(
        changes.is_empty(),
        "nothing can have come and gone while the stream lived"
    );
    assert_eq!(position.position(0), wanted);
    upstream.put(&gvr(), event("late", "x"));
    reached(&cache, &upstream).await;
    assert_eq!(names(&cache), ["late"]);
}

#[tokio::test(start_paused = true)]
async fn the_past_is_read_from_upstream_while_it_remembers() {
    let upstream = upstream();
    let before = upstream.revision(&gvr());
    upstream.put(&gvr(), event("one", "x"));
    upstream.delete(&gvr(), &key("one"));
    upstream.put(&gvr(), event("two", "x"));
    upstream.put(&gvr(), event("other", "y"));
    let cache = start(&upstream, spec("of=x", false)).await;
    let floor = cache.position();
    upstream.put(&gvr(), event("later", "x"));
    let past = cache.past(before, floor).await.unwrap();
    let told: Vec<_> = past
        .iter()
        .map(|(kind, object)| format!("{} {}", kind.as_str(), object.key().name))
        .collect();
    assert_eq!(told, ["ADDED one", "DELETED one", "ADDED two"]);
    upstream.compact(&gvr());
    let gone = cache.past(before, floor).await;
    assert!(matches!(gone, Err(UpstreamError::Expired(_))));
}

#[tokio::test(start_paused = true)]
async fn a_past_of_which_nothing_is_left_is_waited_for_where_upstream_is_slow() {
    let upstream = upstream();
    upstream.put(&gvr(), event("one", "x"));
    upstream.put(&gvr(), event("two", "x"));
    let before = upstream.revision(&gvr());
    upstream.delete(&gvr(), &key("one"));
    upstream.delete(&gvr(), &key("two"));
    upstream.pass(&gvr(), 1);
    let cache = start(&upstream, spec("of=x", false)).await;
    let floor = cache.position();

    upstream.slow_down(Duration::from_secs(9));
    let past = cache.past(before, floor).await.unwrap();
    let told: Vec<_> = past
        .iter()
        .map(|(kind, object)| (*kind, &*object.key().name))
        .collect();
    assert_eq!(
        told,
        [(EventType::Deleted, "one"), (EventType::Deleted, "two")]
    );

    // Too slow is an error, and never less than what there was.
    upstream.slow_down(Duration::from_secs(60));
    let late = cache.past(before, floor).await;
    assert!(
        matches!(late, Err(UpstreamError::Unreachable(_))),
        "{late:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_changed_in_the_past_and_again_since_is_waited_for_too() {
    let upstream = upstream();
    upstream.put(&gvr(), event("one", "x"));
    upstream.put(&gvr(), event("two", "x"));
    let before = upstream.revision(&gvr());
    upstream.put(&gvr(), event("one", "x"));
    upstream.delete(&gvr(), &key("two"));
    upstream.pass(&gvr(), 1);
    let cache = start(&upstream, spec("of=x", false)).await;
    let floor = cache.position();
    upstream.put(&gvr(), event("one", "x"));
    upstream.put(&gvr(), event("two", "x"));
    reached(&cache, &upstream).await;
    upstream.slow_down(Duration::from_secs(9));
    let past = cache.past(before, floor).await.unwrap();
    let told = past
        .iter()
        .map(|(kind, object)| (*kind, &*object.key().name));
    assert_eq!(
        told.collect::<Vec<_>>(),
        [(EventType::Modified, "one"), (EventType::Deleted, "two")]
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_wanted_while_the_stream_trails_leaves_a_hole() {
    let upstream = upstream();
    let cache = start(&upstream, spec("", false)).await;
    let (_, _, mut follower) = cache.subscribe().unwrap();
    upstream.hold(&gvr());
    upstream.put(&gvr(), event("brief", "x"));
    upstream.delete(&gvr(), &key("brief"));
    sleep(Duration::from_secs(10)).await;
    let wanted = upstream.revision(&gvr());
    assert!(cache.position() < wanted);
    cache.catch_up(wanted).await;
    reached(&cache, &upstream).await;
    let (changes, _) = follower.take().unwrap();
    assert!(
        changes.iter().any(|change| change.is_hole()),
        "it came and went, and nobody here was told"
    );
}

#[tokio::test(start_paused = true)]
async fn the_largest_cache_lets_go_when_the_bound_is_passed_and_comes_back_when_it_fits() {
    let upstream = upstream();
    for number in 0..10 {
        upstream.put(&gvr(), event(&format!("small-{number}"), "x"));
    }
    let budget = ByteBudget::new(20_000);
    let begin = |selector: &str| {
        let upstream = Arc::new(upstream.clone());
        SourceCache::start(upstream, spec(selector, false), budget.clone())
    };
    let small = begin("of=x");
    let large = begin("of in (x,y)");
    for cache in [&small, &large] {
        timeout(Duration::from_secs(9), cache.synced())
            .await
            .unwrap();
    }
    assert_eq!(budget.used(), small.bytes() + large.bytes());
    let (_, _, mut follower) = large.subscribe().unwrap();

    for number in 0..100 {
        upstream.put(&gvr(), event(&format!("large-{number}"), "y"));
    }
    timeout(Duration::from_secs(9), large.lost()).await.unwrap();
    assert!(large.state().too_large && !large.state().synced);
    assert_eq!((large.bytes(), large.subscribe().is_some()), (0, false));
    assert!(follower.take().is_err(), "who follows must look again");
    assert_eq!(budget.used(), small.bytes());
    assert_eq!(names(&small).len(), 10);

    // It tries again, and does not grow past the bound.
    sleep(Duration::from_secs(300)).await;
    assert!(large.state().too_large && budget.used() <= budget.limit());
    for number in 0..100 {
        upstream.delete(&gvr(), &key(&format!("large-{number}")));
    }
    timeout(Duration::from_secs(700), large.synced())
        .await
        .unwrap();
    assert_eq!(names(&large).len(), 10);
    drop(large);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(
        budget.used(),
        small.bytes(),
        "what is dropped counts no more"
    );
}

#[tokio::test(start_paused = true)]
async fn a_first_list_that_is_too_large_is_given_up_page_by_page() {
    let upstream = upstream();
    for number in 0..2_000 {
        upstream.put(&gvr(), event(&format!("many-{number}"), "x"));
    }
    let budget = ByteBudget::new(20_000);
    let cache = SourceCache::start(Arc::new(upstream.clone()), spec("", false), budget.clone());
    timeout(Duration::from_secs(9), cache.settled())
        .await
        .unwrap();
    assert!(cache.state().too_large);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(upstream.requests().len(), 1, "{:?}", upstream.requests());
    assert_eq!(budget.used(), 0);
}
