//! A host that begins anew knows of the time before only what upstream remembers.

use std::time::Duration;

use joinery_object::{Object, Scope};
use joinery_source::UpstreamError;
use joinery_source::testing::Verb;
use joinery_view::{Replayed, ResumeError, Resumed};
use serde_json::json;

use crate::client::Client;
use crate::joins::{NativeJoin, events, logs, shared, tasks};
use crate::world::{Host, event, key, log, run, task, uid, upstream};

async fn host(upstream: &joinery_source::testing::MemoryUpstream) -> Host {
    Host::start(upstream, shared(NativeJoin::task_events(1000))).await
}

#[test]
fn one_who_watches_through_a_restart_misses_nothing() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        for name in ["stays", "changes", "goes", "gets", "loses", "lost"] {
            upstream.put(&tasks(), task("a", name, json!({})));
        }
        upstream.put(&events(), event("a", "e1", &uid("a", "loses"), json!({})));
        upstream.put(&events(), event("a", "e2", &uid("a", "lost"), json!({})));
        let first = host(&upstream).await;
        let mut client = Client::list(&first.view);
        let mut watch = client.watch(&first.view).await.unwrap();
        upstream.put(&tasks(), task("a", "changes", json!({"n": 1})));
        first.settle().await;
        client.read(&mut watch, 99);
        drop(first);

        upstream.put(&tasks(), task("a", "changes", json!({"n": 2})));
        upstream.delete(&tasks(), &key("a", "goes"));
        upstream.put(&tasks(), task("a", "comes", json!({})));
        upstream.put(&events(), event("a", "e3", &uid("a", "gets"), json!({})));
        upstream.delete(&events(), &key("a", "e2"));
        let second = host(&upstream).await;
        client.told.clear();
        let mut watch = client.watch(&second.view).await.unwrap();
        client.read(&mut watch, 99);
        assert_eq!(client.known(), second.shown());
        client.told.sort();
        assert_eq!(
            client.told,
            [
                "ADDED a/comes",
                "DELETED a/goes",
                "MODIFIED a/changes",
                "MODIFIED a/gets",
                "MODIFIED a/lost"
            ]
        );
        // And on it goes.
        upstream.put(&events(), event("a", "e4", &uid("a", "stays"), json!({})));
        second.settle().await;
        client.read(&mut watch, 99);
        assert_eq!(client.known(), second.shown());
    });
}

#[test]
fn an_event_that_went_over_to_another_task_meanwhile_leaves_the_first() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        for name in ["one", "two"] {
            upstream.put(&tasks(), task("a", name, json!({})));
        }
        upstream.put(&tasks(), task("b", "far", json!({})));
        upstream.put(&events(), event("a", "e", &uid("a", "one"), json!({})));
        let first = host(&upstream).await;
        let mut client = Client::list(&first.view);
        drop(first);
        upstream.put(&events(), event("a", "e", &uid("a", "two"), json!({})));
        let second = host(&upstream).await;
        let mut watch = client.watch(&second.view).await.unwrap();
        client.read(&mut watch, 99);
        assert_eq!(client.known(), second.shown());
        // What it was related to is not known, but it cannot have been in another namespace.
        assert!(
            client.told.iter().all(|told| !told.contains("b/far")),
            "{:?}",
            client.told
        );
    });
}

#[test]
fn one_who_lists_from_an_older_host_watches_from_a_younger() {
    run(async {
        // Each resource has an etcd of its own.
        let upstream = upstream([0, 1, 2]);
        upstream.put(&tasks(), task("a", "one", json!({})));
        upstream.put(
            &events(),
            event("a", "of-one", &uid("a", "one"), json!({"words": ["red"]})),
        );
        let join = || shared(NativeJoin::task_event_logs());
        let older = Host::start(&upstream, join()).await;
        let mut client = Client::list(&older.view);
        upstream.put(&logs(), log("a", "l1", &["red"]));
        upstream.put(&logs(), log("a", "l1", &["green"]));
        upstream.put(
            &events(),
            event("a", "of-one", &uid("a", "one"), json!({"words": ["green"]})),
        );
        let younger = Host::start(&upstream, join()).await;
        let mut watch = client.watch(&younger.view).await.unwrap();
        client.read(&mut watch, 99);
        assert_eq!(client.known(), younger.shown());
        assert_eq!(client.told, ["MODIFIED a/one"]);
    });
}

#[test]
fn all_of_a_namespace_that_went_meanwhile_is_told_however_slow_upstream_is() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        for name in ["one", "two"] {
            upstream.put(&tasks(), task("a", name, json!({})));
            upstream.put(&events(), event("a", name, &uid("a", name), json!({})));
        }
        let first = host(&upstream).await;
        let mut client = Client::list(&first.view);
        drop(first);
        for name in ["one", "two"] {
            upstream.delete(&events(), &key("a", name));
            upstream.delete(&tasks(), &key("a", name));
        }
        let second = host(&upstream).await;
        second.upstream.slow_down(Duration::from_secs(9));
        let mut watch = client.watch(&second.view).await.unwrap();
        client.read(&mut watch, 99);
        assert_eq!(client.known(), []);
    });
}

#[test]
fn one_who_watches_a_name_is_told_of_no_other() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        for name in ["one", "two", "three"] {
            upstream.put(&tasks(), task("a", name, json!({"secret": name})));
        }
        let first = host(&upstream).await;
        let version = Client::list(&first.view).version.unwrap();
        drop(first);
        upstream.put(&tasks(), task("a", "one", json!({"secret": "one", "n": 1})));
        upstream.put(&tasks(), task("a", "two", json!({"secret": "two", "n": 1})));
        upstream.delete(&tasks(), &key("a", "three"));
        let second = host(&upstream).await;
        let told = |resumed: Resumed| -> Vec<String> {
            let events = resumed.events.into_iter();
            let text = events.map(|event| match event {
                Replayed::Event { kind, object, .. } => {
                    let text = String::from_utf8(object.bytes().to_vec()).unwrap();
                    let secret = if text.contains("secret") {
                        ", all of it"
                    } else {
                        ""
                    };
                    format!("{} {}{secret}", kind.as_str(), object.key().name)
                }
                Replayed::Failure(status) => format!("ERROR {}", status.code),
            });
            text.collect()
        };
        let is_one = |object: &Object| &*object.key().name == "one";
        let scope = Scope {
            namespace: Some("a".into()),
            name: Some("one".into()),
        };
        let resumed = second.view.resume(&version, &scope, is_one).await.unwrap();
        assert_eq!(told(resumed), ["MODIFIED one, all of it"]);
        // By a label or a field it may have been selected before: its name is told, and no more.
        let scope = Scope::default();
        let resumed = second.view.resume(&version, &scope, is_one).await.unwrap();
        let mut told = told(resumed);
        told.sort();
        assert_eq!(
            told,
            ["DELETED three", "DELETED two", "MODIFIED one, all of it"]
        );
    });
}

#[test]
fn of_many_who_come_back_together_few_have_upstream_asked() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        upstream.put(&tasks(), task("a", "one", json!({})));
        upstream.put(&events(), event("a", "e", &uid("a", "one"), json!({})));
        let first = host(&upstream).await;
        let client = Client::list(&first.view);
        drop(first);
        upstream.put(&tasks(), task("a", "one", json!({"n": 1})));
        let second = host(&upstream).await;
        second.upstream.forget_requests();
        let come_back = (0..50).map(|_| client.watch(&second.view));
        for watch in futures::future::join_all(come_back).await {
            let mut client = client.clone();
            client.read(&mut watch.unwrap(), 99);
            assert_eq!(client.known(), second.shown());
        }
        let asked = second.upstream.requests();
        let watches = asked.iter().filter(|request| request.verb == Verb::Watch);
        // Two at once, of each of the two sources at most.
        assert!(watches.count() <= 4, "{asked:?}");
    });
}

#[test]
fn what_upstream_has_forgotten_must_be_listed_again() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        upstream.put(&tasks(), task("a", "one", json!({})));
        let first = host(&upstream).await;
        let client = Client::list(&first.view);
        drop(first);
        upstream.put(&tasks(), task("a", "one", json!({"n": 1})));
        upstream.compact(&tasks());
        let second = host(&upstream).await;
        let answer = client.watch(&second.view).await;
        assert!(matches!(answer, Err(ResumeError::TooOld(_))));
    });
}

#[test]
fn while_upstream_gives_no_answer_one_may_come_again() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        upstream.put(&tasks(), task("a", "one", json!({})));
        let first = host(&upstream).await;
        let mut client = Client::list(&first.view);
        drop(first);
        upstream.put(&tasks(), task("a", "one", json!({"n": 1})));
        let second = host(&upstream).await;
        let broken = UpstreamError::Unreachable("connection refused".to_owned());
        second.upstream.fail(&tasks(), Some(broken));
        let answer = client.watch(&second.view).await;
        assert!(matches!(answer, Err(ResumeError::Upstream(_))));
        second.upstream.fail(&tasks(), None);
        let mut watch = client.watch(&second.view).await.unwrap();
        client.read(&mut watch, 99);
        assert_eq!(client.known(), second.shown());
    });
}

#[test]
fn a_position_that_no_change_of_the_source_brings_is_reached_all_the_same() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        upstream.put(&tasks(), task("a", "one", json!({})));
        let older = host(&upstream).await;
        // Others write; then a second host lists, and stands at a position that the first is never told.
        upstream.pass(&tasks(), 50);
        let younger = host(&upstream).await;
        let mut client = Client::list(&younger.view);
        let version = client.version.clone().unwrap();
        let patience = std::time::Duration::from_secs(10);
        assert!(older.view.wait_for(&version, patience).await);
        let mut watch = client.watch(&older.view).await.unwrap();
        upstream.put(&tasks(), task("a", "one", json!({"n": 1})));
        older.settle().await;
        client.read(&mut watch, 9);
        assert_eq!(client.known(), older.shown());
        // A version from the future is never reached, and costs no list.
        let future = joinery_object::ResourceVersion::of_positions(&[1 << 40, 1]);
        older.upstream.forget_requests();
        assert!(!older.view.wait_for(&future, patience).await);
        assert!(
            older
                .upstream
                .requests()
                .iter()
                .all(|request| request.query.limit == 1)
        );
    });
}
