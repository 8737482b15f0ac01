//! How much is asked of upstream.

use joinery_object::Scope;
use joinery_source::testing::{MemoryUpstream, Verb};
use joinery_source::{Query, url_length};
use joinery_view::{Primaries, Reach, URL_BOUND, read_live};
use serde_json::json;

use crate::joins::{NativeJoin, UID_LABEL, events, shared, tasks};
use crate::world::{Host, event, key, run, task, upstream};

const TASKS: usize = 1000;

fn uuid(n: usize) -> String {
    format!("{n:08x}-1111-4222-8333-444444444444")
}

fn fill(upstream: &MemoryUpstream, tasks_of: usize) {
    for n in 0..tasks_of {
        let mut of = task("a", &format!("t{n:04}"), json!({}));
        of["metadata"]["uid"] = json!(uuid(n));
        upstream.put(&tasks(), of);
        upstream.put(
            &events(),
            event("a", &format!("e{n:04}"), &uuid(n), json!({})),
        );
    }
}

#[test]
fn a_list_of_some_hundred_tasks_is_one_query_for_them_and_few_for_their_events() {
    const SOME: usize = 500;
    run(async {
        let upstream = upstream([0, 0, 0]);
        fill(&upstream, SOME);
        let join = shared(NativeJoin::task_events(1000));
        let line = upstream.connect();
        let primaries = Primaries::Listed(Query::default());
        let page = read_live(join, &line, &primaries, &[0, 0]).await.unwrap();
        assert_eq!(page.outcomes.len(), SOME);

        let uids: Vec<String> = (0..SOME).map(uuid).collect();
        let total = url_length(
            &events(),
            &Query {
                label_selector: format!("{UID_LABEL},{UID_LABEL} in ({})", uids.join(",")),
                ..Query::default()
            },
        );
        let requests = line.requests();
        let count = |gvr| requests.iter().filter(|request| request.gvr == gvr).count();
        assert_eq!(count(tasks()), 1);
        assert!(
            count(events()) <= total.div_ceil(URL_BOUND),
            "{} for {total}",
            count(events())
        );
        assert!(count(events()) > 1, "the bound is not tested");
        for request in &requests {
            assert_eq!(request.verb, Verb::List);
            assert!(url_length(&request.gvr, &request.query) <= URL_BOUND);
        }
    });
}

#[test]
fn the_events_of_very_many_tasks_are_read_in_one_query() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        fill(&upstream, TASKS);
        let join = shared(NativeJoin::task_events(1000));
        let line = upstream.connect();
        let primaries = Primaries::Listed(Query::default());
        let page = read_live(join, &line, &primaries, &[0, 0]).await.unwrap();
        assert_eq!(page.outcomes.len(), TASKS);
        let requests = line.requests();
        let of_events: Vec<_> = requests.iter().filter(|r| r.gvr == events()).collect();
        assert_eq!(of_events.len(), 1);
        assert_eq!(of_events[0].query.label_selector, UID_LABEL);
    });
}

#[test]
fn what_is_cached_costs_upstream_nothing() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        fill(&upstream, 50);
        let host = Host::start(&upstream, shared(NativeJoin::task_events(1000))).await;
        host.upstream.forget_requests();
        assert_eq!(host.view.snapshot().objects.len(), 50);
        upstream.put(&events(), event("a", "late", &uuid(7), json!({})));
        host.settle().await;
        assert!(host.shown()[7].1.contains("late"));
        assert_eq!(host.upstream.requests(), []);
    });
}

#[test]
fn a_page_of_a_live_list_reads_the_events_of_that_page_only() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        fill(&upstream, 30);
        let join = shared(NativeJoin::task_events(1000));
        let line = upstream.connect();
        let mut query = Query {
            namespace: Some("a".to_owned()),
            limit: 10,
            ..Query::default()
        };
        let mut names = Vec::new();
        loop {
            let primaries = Primaries::Listed(query.clone());
            let page = read_live(join.clone(), &line, &primaries, &[0, 0])
                .await
                .unwrap();
            names.extend(page.outcomes.iter().map(|(key, _)| key.name.to_string()));
            match page.continue_token {
                None => break,
                token => query.continue_token = token,
            }
        }
        assert_eq!(names.len(), 30);
        let requests = line.requests();
        assert_eq!(requests.len(), 6);
        let of_events = requests.iter().filter(|request| request.gvr == events());
        for request in of_events {
            assert_eq!(request.query.label_selector.matches("-4222-").count(), 10);
            assert_eq!(request.query.namespace.as_deref(), Some("a"));
        }
    });
}

#[test]
fn one_object_is_two_requests() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        fill(&upstream, 3);
        let line = upstream.connect();
        let join = shared(NativeJoin::task_events(1000));
        let primary = Primaries::Named(key("a", "t0001"));
        let page = read_live(join, &line, &primary, &[0, 0]).await.unwrap();
        assert_eq!(page.outcomes.len(), 1);
        let verbs: Vec<_> = line.requests().iter().map(|request| request.verb).collect();
        assert_eq!(verbs, [Verb::Get, Verb::List]);
    });
}

#[test]
fn a_live_list_and_a_watch_of_the_caches_fit_together() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        fill(&upstream, 3);
        let host = Host::start(&upstream, shared(NativeJoin::task_events(1000))).await;
        // Others write, so that the position of a list is beyond all that the caches are told.
        upstream.pass(&tasks(), 50);
        let known = host.view.snapshot().version;
        let primaries = Primaries::Listed(Query::default());
        let page = read_live(host.view.join(), &upstream, &primaries, known.positions());
        let version = page.await.unwrap().version;
        assert!(
            host.view
                .resume(&version, &Scope::default(), |_| true)
                .await
                .unwrap()
                .events
                .is_empty()
        );
        let soon = std::time::Duration::from_millis(100);
        assert!(host.view.wait_for(&version, soon).await);
    });
}

#[test]
fn a_relation_that_selects_everything_is_asked_once() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        upstream.put(&tasks(), task("a", "one", json!({"words": ["x", "y"]})));
        let line = upstream.connect();
        let join = shared(NativeJoin::task_logs(Reach::AnyNamespace));
        let primaries = Primaries::Listed(Query::default());
        read_live(join, &line, &primaries, &[0, 0]).await.unwrap();
        assert_eq!(line.requests().len(), 2);
    });
}
