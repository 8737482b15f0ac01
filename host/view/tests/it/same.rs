//! However it is read, an object has the same bytes but for metadata.resourceVersion.

use std::sync::Arc;

use joinery_view::{Join, Reach};
use proptest::prelude::*;
use serde_json::json;

use crate::client::Client;
use crate::joins::{NativeJoin, Shows, events, logs, shared, tasks};
use crate::world::{Host, event, key, log, run, task, uid, upstream};

/// Small numbers that say what to do; see [`change`].
type Step = (u8, u8, u8, u8);

const NAMESPACES: [&str; 2] = ["a", "b"];
const WORDS: [&str; 3] = ["red", "green", "blue"];

/// Creates, updates, deletes, moves to another namespace and makes anew.
pub(crate) fn change(
    upstream: &joinery_source::testing::MemoryUpstream,
    (what, which, to, mark): Step,
) {
    let namespace = NAMESPACES[usize::from(which) % 2];
    let name = format!("o{}", which / 2 % 4);
    let words: Vec<&str> = (0..3)
        .filter(|i| to >> i & 1 == 1)
        .map(|i| WORDS[i])
        .collect();
    match what % 12 {
        0..=2 => {
            let spec = json!({"words": words, "quiet": mark % 3 == 0, "hidden": mark % 7 == 0});
            upstream.put(&tasks(), task(namespace, &name, spec));
        }
        3..=6 => {
            // Often of a Task in its namespace, sometimes of one elsewhere.
            let of = uid(
                NAMESPACES[(usize::from(which) + usize::from(mark % 5 == 0)) % 2],
                &format!("o{}", to % 4),
            );
            let spec = json!({"words": words, "n": mark});
            upstream.put(&events(), event(namespace, &name, &of, spec));
        }
        7..=8 => {
            upstream.put(&logs(), log(namespace, &name, &words));
        }
        9 => {
            upstream.delete(&tasks(), &key(namespace, &name));
        }
        10 => {
            upstream.delete(&events(), &key(namespace, &name));
        }
        _ => {
            upstream.delete(&logs(), &key(namespace, &name));
            if mark % 4 == 0 {
                upstream.delete(&tasks(), &key(namespace, &name));
                upstream.put(&tasks(), task(namespace, &name, json!({"words": words})));
            }
        }
    }
}

fn joins() -> Vec<NativeJoin> {
    vec![
        NativeJoin::task_events(1000),
        NativeJoin::task_events(2),
        NativeJoin::task_logs(Reach::AnyNamespace),
        NativeJoin::task_logs(Reach::SameNamespace),
        NativeJoin::task_event_logs(),
        NativeJoin::task_event_logs().showing(Shows::Names),
    ]
}

async fn all_ways_agree(join: Arc<dyn Join>, steps: &[Step]) {
    let upstream = upstream([0, 1, 1]);
    let host = Host::start(&upstream, join.clone()).await;
    let (mut client, mut watch) = Client::subscribe(&host.view);
    for (index, step) in steps.iter().enumerate() {
        change(&upstream, *step);
        match step.3 % 8 {
            // Several changes are taken over at once, or each on its own.
            0..=3 => tokio::task::yield_now().await,
            4 => {
                host.settle().await;
                client.read(&mut watch, usize::MAX);
            }
            // The sources lose their streams, and sometimes what they missed.
            5 if index % 3 == 0 => {
                host.upstream.break_streams();
                if step.1 % 2 == 0 {
                    change(&upstream, (step.0 / 2, step.1, step.2, step.3));
                    upstream.compact(&tasks());
                    upstream.compact(&events());
                    upstream.compact(&logs());
                }
            }
            _ => {}
        }
    }
    host.settle().await;
    client.read(&mut watch, usize::MAX);
    let shown = host.shown();
    assert_eq!(
        client.known(),
        shown,
        "what a watch told is not what a list shows"
    );
    let fresh = Host::start(&upstream, join).await;
    assert_eq!(
        fresh.shown(),
        shown,
        "a view that is prepared anew shows something else"
    );
    assert_eq!(
        host.truth().await,
        shown,
        "live reading shows something else"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn list_watch_prepare_and_live_reading_agree(
        steps in prop::collection::vec(any::<Step>(), 1..60),
    ) {
        for join in joins() {
            run(all_ways_agree(shared(join), &steps));
        }
    }
}
