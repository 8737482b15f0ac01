//! One bad object costs only itself.

use joinery_view::{Primaries, read_live};
use serde_json::json;

use crate::client::Client;
use crate::joins::{NativeJoin, events, shared, tasks};
use crate::world::{Host, event, key, run, task, uid, upstream};

#[test]
fn an_object_on_which_the_plugin_traps_is_left_out_and_heals() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        for n in 0..20 {
            upstream.put(
                &tasks(),
                task("a", &format!("t{n:02}"), json!({"trap": n == 7})),
            );
        }
        upstream.put(&tasks(), task("a", "refused", json!({"refuse": true})));
        let host = Host::start(&upstream, shared(NativeJoin::task_events(1000))).await;
        let snapshot = host.view.snapshot();
        assert_eq!(snapshot.objects.len(), 19);
        let failed: Vec<_> = snapshot
            .failures
            .iter()
            .map(|(k, s)| (k.to_string(), s.code))
            .collect();
        assert_eq!(
            failed,
            [("a/refused".to_owned(), 400), ("a/t07".to_owned(), 500)]
        );
        // Live too: a get of it is the failure.
        let primary = Primaries::Named(key("a", "t07"));
        let page = read_live(host.view.join(), &upstream, &primary, &[0, 0])
            .await
            .unwrap();
        assert_eq!(page.outcomes[0].1.as_ref().unwrap_err().code, 500);
        assert_eq!(host.truth().await, host.shown());

        let mut client = Client::list(&host.view);
        let mut watch = client.watch(&host.view).await.unwrap();
        upstream.put(&tasks(), task("a", "t07", json!({})));
        host.settle().await;
        assert!(client.read(&mut watch, 9));
        assert_eq!(client.told, ["ADDED a/t07"]);
        assert_eq!(host.view.snapshot().failures.len(), 1);
    });
}

#[test]
fn a_watch_that_had_the_object_ends_with_an_error_and_others_go_on() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        for name in ["good", "bad"] {
            upstream.put(&tasks(), task("a", name, json!({})));
        }
        let host = Host::start(&upstream, shared(NativeJoin::task_events(1000))).await;
        let mut client = Client::list(&host.view);
        let mut watch = client.watch(&host.view).await.unwrap();
        let (_, mut follower) = host.view.subscribe();
        // It is an Event that is bad; the Task that has it cannot be made.
        upstream.put(
            &events(),
            event("a", "e", &uid("a", "bad"), json!({"trap": true})),
        );
        host.settle().await;
        assert!(!client.read(&mut watch, 9));
        assert_eq!(client.told, ["ERROR"]);
        // A watch that selects only the other is told nothing.
        let (changes, _) = follower.take().unwrap();
        let selects = |object: &joinery_object::Object| &*object.key().name == "good";
        assert!(changes.iter().all(|change| change.event(selects).is_none()));
        // While it fails, nobody is told of it again.
        upstream.put(&tasks(), task("a", "bad", json!({"n": 1})));
        host.settle().await;
        let (changes, _) = follower.take().unwrap();
        assert!(
            changes
                .iter()
                .all(|change| change.event(|_| true).is_none())
        );
        upstream.delete(&events(), &key("a", "e"));
        host.settle().await;
        let (changes, _) = follower.take().unwrap();
        let told: Vec<_> = changes.iter().filter_map(|c| c.event(|_| true)).collect();
        assert_eq!(told.len(), 1);
    });
}

#[test]
fn an_object_without_keys_is_related_to_nothing() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        upstream.put(&tasks(), task("a", "one", json!({})));
        upstream.put(&events(), event("a", "good", &uid("a", "one"), json!({})));
        upstream.put(
            &events(),
            event("a", "bad", &uid("a", "one"), json!({"trapKeys": true})),
        );
        let host = Host::start(&upstream, shared(NativeJoin::task_events(1000))).await;
        let shown = host.shown();
        assert!(
            shown[0].1.contains("good") && !shown[0].1.contains("bad"),
            "{shown:?}"
        );
        assert_eq!(host.truth().await, shown);
    });
}
