//! What a view may show.

use joinery_view::Reach;
use serde_json::json;

use crate::joins::{NativeJoin, events, logs, shared, tasks};
use crate::world::{Host, event, log, run, task, uid, upstream};

#[test]
fn an_event_of_another_namespace_is_not_a_tasks_whatever_it_is_labelled() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        upstream.put(&tasks(), task("a", "one", json!({})));
        upstream.put(&events(), event("a", "true", &uid("a", "one"), json!({})));
        upstream.put(&events(), event("b", "forged", &uid("a", "one"), json!({})));
        let host = Host::start(&upstream, shared(NativeJoin::task_events(1000))).await;
        let check = |shown: Vec<(String, String)>| {
            assert!(shown[0].1.contains("\"true\""), "{shown:?}");
            assert!(!shown[0].1.contains("forged"), "{shown:?}");
        };
        check(host.shown());
        check(host.truth().await);
        upstream.put(
            &events(),
            event("b", "forged-late", &uid("a", "one"), json!({})),
        );
        host.settle().await;
        check(host.shown());
        check(host.truth().await);
    });
}

#[test]
fn related_objects_come_from_any_namespace_only_where_that_is_granted() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        upstream.put(&tasks(), task("a", "one", json!({"words": ["red"]})));
        upstream.put(&logs(), log("b", "there", &["red"]));
        for (reach, is_shown) in [(Reach::AnyNamespace, true), (Reach::SameNamespace, false)] {
            let host = Host::start(&upstream, shared(NativeJoin::task_logs(reach))).await;
            assert_eq!(host.shown()[0].1.contains("there"), is_shown);
            assert_eq!(host.truth().await, host.shown());
        }
    });
}

#[test]
fn of_more_children_than_the_limit_the_youngest_are_shown() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        upstream.put(&tasks(), task("a", "one", json!({})));
        for name in ["e1", "e2", "e3", "e4"] {
            upstream.put(&events(), event("a", name, &uid("a", "one"), json!({})));
        }
        let host = Host::start(&upstream, shared(NativeJoin::task_events(2))).await;
        let shown = host.shown();
        assert!(shown[0].1.contains("\"omitted1\":2"), "{shown:?}");
        assert!(
            shown[0].1.contains("e4") && !shown[0].1.contains("\"e1\""),
            "{shown:?}"
        );
        assert_eq!(host.truth().await, shown);
    });
}
