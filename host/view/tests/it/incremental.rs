//! A change recombines only what it touches.

use joinery_view::Reach;
use serde_json::json;

use crate::joins::{NativeJoin, events, logs, shared, tasks};
use crate::world::{Host, event, key, log, run, task, uid, upstream};

#[test]
fn an_event_recombines_its_task_and_no_other() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        for name in ["one", "two", "three"] {
            upstream.put(&tasks(), task("a", name, json!({})));
        }
        let join = shared(NativeJoin::task_events(1000));
        let host = Host::start(&upstream, join.clone()).await;
        assert_eq!(join.take_combined(), ["one", "three", "two"]);

        upstream.put(&events(), event("a", "e", &uid("a", "one"), json!({})));
        host.settle().await;
        assert_eq!(join.take_combined(), ["one"]);
        // It becomes another Task's: both have changed.
        upstream.put(&events(), event("a", "e", &uid("a", "two"), json!({})));
        host.settle().await;
        assert_eq!(join.take_combined(), ["one", "two"]);
        // Nobody's.
        upstream.put(&events(), event("a", "e", "unknown", json!({})));
        host.settle().await;
        assert_eq!(join.take_combined(), ["two"]);
        upstream.put(&events(), event("a", "e", &uid("a", "three"), json!({})));
        upstream.delete(&events(), &key("a", "e"));
        host.settle().await;
        let once_or_never = join.take_combined();
        assert!(
            once_or_never.iter().all(|name| name == "three"),
            "{once_or_never:?}"
        );
        upstream.put(&tasks(), task("a", "three", json!({"n": 1})));
        host.settle().await;
        assert_eq!(join.take_combined(), ["three"]);
    });
}

#[test]
fn many_changes_of_one_task_are_combined_together() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        upstream.put(&tasks(), task("a", "one", json!({})));
        let join = shared(NativeJoin::task_events(1000));
        let host = Host::start(&upstream, join.clone()).await;
        join.take_combined();
        for n in 0..50 {
            upstream.put(
                &events(),
                event("a", &format!("e{n}"), &uid("a", "one"), json!({})),
            );
        }
        host.settle().await;
        assert!(join.take_combined().len() <= 3);
    });
}

#[test]
fn at_every_level_only_the_tasks_above_are_recombined() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        for name in ["one", "two", "three"] {
            upstream.put(&tasks(), task("a", name, json!({})));
            let words = json!({"words": [name]});
            upstream.put(
                &events(),
                event("a", &format!("of-{name}"), &uid("a", name), words),
            );
        }
        let join = shared(NativeJoin::task_event_logs());
        let host = Host::start(&upstream, join.clone()).await;
        join.take_combined();

        upstream.put(&logs(), log("a", "l", &["one", "two"]));
        host.settle().await;
        assert_eq!(join.take_combined(), ["one", "two"]);
        upstream.put(&logs(), log("a", "l", &["two", "three"]));
        host.settle().await;
        assert_eq!(join.take_combined(), ["one", "three", "two"]);
        // The Event in between goes over to another word.
        let words = json!({"words": ["else"]});
        upstream.put(&events(), event("a", "of-two", &uid("a", "two"), words));
        host.settle().await;
        assert_eq!(join.take_combined(), ["two"]);
        upstream.put(&logs(), log("a", "l", &["three"]));
        host.settle().await;
        assert_eq!(join.take_combined(), ["three"]);
    });
}

#[test]
fn what_is_related_n_to_m_is_recombined_on_both_sides() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        upstream.put(
            &tasks(),
            task("a", "one", json!({"words": ["red", "blue"]})),
        );
        upstream.put(&tasks(), task("b", "two", json!({"words": ["blue"]})));
        upstream.put(&tasks(), task("b", "three", json!({"words": ["green"]})));
        let join = shared(NativeJoin::task_logs(Reach::AnyNamespace));
        let host = Host::start(&upstream, join.clone()).await;
        join.take_combined();
        upstream.put(&logs(), log("b", "l", &["blue"]));
        host.settle().await;
        assert_eq!(join.take_combined(), ["one", "two"]);
        upstream.put(&tasks(), task("b", "three", json!({"words": ["blue"]})));
        host.settle().await;
        assert_eq!(join.take_combined(), ["three"]);
        upstream.put(&logs(), log("b", "l", &["green", "red"]));
        host.settle().await;
        assert_eq!(join.take_combined(), ["one", "three", "two"]);
    });
}
