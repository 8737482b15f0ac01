//! A sanity check of cost; the figures are printed, not judged.

use std::time::Instant;

use bytes::BytesMut;
use serde_json::json;

use crate::joins::{NativeJoin, events, shared, tasks};
use crate::world::{Host, event, run, task, uid, upstream};

#[test]
fn ten_thousand_tasks_of_ten_events_each_are_prepared_and_listed() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        let message = "x".repeat(700);
        for n in 0..10_000 {
            let name = format!("t{n:05}");
            upstream.put(&tasks(), task("a", &name, json!({})));
            for e in 0..10 {
                let of = event(
                    "a",
                    &format!("{name}.{e}"),
                    &uid("a", &name),
                    json!({"message": message}),
                );
                upstream.put(&events(), of);
            }
        }
        let started = Instant::now();
        let host = Host::start(&upstream, shared(NativeJoin::task_events(1000))).await;
        let prepared = started.elapsed();
        let started = Instant::now();
        let snapshot = host.view.snapshot();
        let mut text = BytesMut::new();
        snapshot
            .objects
            .values()
            .for_each(|object| object.write_to(&mut text));
        let listed = started.elapsed();
        let started = Instant::now();
        upstream.put(
            &events(),
            event("a", "one-more", &uid("a", "t05000"), json!({})),
        );
        host.settle().await;
        let changed = started.elapsed();
        println!(
            "prepared in {prepared:?}, listed {} MB in {listed:?}, one change in {changed:?}",
            text.len() >> 20
        );
        assert_eq!(snapshot.objects.len(), 10_000);
    });
}
