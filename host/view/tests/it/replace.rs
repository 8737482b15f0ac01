//! The exchange of a view's logic.

use joinery_view::{Prepared, Reach};
use serde_json::json;

use crate::client::Client;
use crate::joins::{NativeJoin, Shows, events, shared, tasks};
use crate::world::{Host, caches, event, run, task, uid, upstream};

#[test]
fn watchers_live_on_and_are_told_only_what_is_different() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        for n in 0..5 {
            upstream.put(
                &tasks(),
                task("a", &format!("t{n}"), json!({"quiet": n != 2})),
            );
        }
        let host = Host::start(
            &upstream,
            shared(NativeJoin::task_events(1000).showing(Shows::Names)),
        )
        .await;
        let mut client = Client::list(&host.view);
        let mut watch = client.watch(&host.view).await.unwrap();

        // The same logic: nothing to tell.
        let same = shared(NativeJoin::task_events(1000).showing(Shows::Names));
        host.view
            .replace(Prepared::new(same, host.view.sources()).await)
            .await;
        assert!(client.read(&mut watch, 99) && client.told.is_empty());

        let new = shared(
            NativeJoin::task_events(1000)
                .showing(Shows::Names)
                .generation(2),
        );
        host.view
            .replace(Prepared::new(new.clone(), host.view.sources()).await)
            .await;
        assert!(client.read(&mut watch, 99));
        assert_eq!(client.told.len(), 5);
        assert_eq!(client.known(), host.shown());
        assert!(client.known()[0].1.contains("\"generation\":2"));

        client.told.clear();
        upstream.put(&events(), event("a", "e", &uid("a", "t2"), json!({})));
        host.settle().await;
        assert!(client.read(&mut watch, 99));
        assert_eq!(client.told, ["MODIFIED a/t2"]);
        assert_eq!(client.known(), host.shown());
    });
}

#[test]
fn one_who_comes_back_after_an_exchange_is_told_of_it() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        upstream.put(&tasks(), task("a", "one", json!({})));
        let host = Host::start(&upstream, shared(NativeJoin::task_events(1000))).await;
        let mut client = Client::list(&host.view);
        let new = shared(NativeJoin::task_events(1000).generation(2));
        host.view
            .replace(Prepared::new(new, host.view.sources()).await)
            .await;
        let mut watch = client.watch(&host.view).await.unwrap();
        assert!(client.read(&mut watch, 99));
        assert_eq!(client.told, ["MODIFIED a/one"]);
        assert_eq!(client.known(), host.shown());
    });
}

#[test]
fn nothing_that_was_shown_is_taken_back_by_an_exchange() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        upstream.put(&tasks(), task("a", "one", json!({})));
        let host = Host::start(&upstream, shared(NativeJoin::task_events(1000))).await;
        let new = shared(NativeJoin::task_events(1000).generation(2));
        let prepared = Prepared::new(new, host.view.sources()).await;
        // The serving logic goes on while the new one waits.
        upstream.put(&events(), event("a", "e", &uid("a", "one"), json!({})));
        host.settle().await;
        host.view.replace(prepared).await;
        assert!(host.shown()[0].1.contains("\"e\""));
        assert_eq!(host.truth().await, host.shown());
    });
}

#[test]
fn with_other_sources_watchers_must_list_again() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        upstream.put(&tasks(), task("a", "one", json!({})));
        let host = Host::start(&upstream, shared(NativeJoin::task_events(1000))).await;
        let (_, mut follower) = host.view.subscribe();
        let other = shared(NativeJoin::task_logs(Reach::AnyNamespace));
        let sources = caches(&upstream, &*other);
        host.view.replace(Prepared::new(other, sources).await).await;
        assert!(follower.next().await.is_err());
    });
}
