//! More is related to a primary than a guest can be given.

use serde_json::{Value, json};

use crate::joins::{NativeJoin, events, shared, tasks};
use crate::world::{Host, event, key, run, task, uid, upstream};

/// The names of the Events in the one object there is, and how many are said to be left out.
fn shown(host: &Host) -> (Vec<String>, u64) {
    let [(_, text)] = &host.shown()[..] else {
        panic!("not one object");
    };
    let object: Value = serde_json::from_str(text).unwrap();
    let events = object["of1"].as_array().unwrap().iter();
    let name = |event: &Value| {
        event["object"]["metadata"]["name"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    (
        events.map(name).collect(),
        object["omitted1"].as_u64().unwrap(),
    )
}

#[test]
fn what_is_too_much_for_the_guest_is_left_out_the_same_by_every_way_of_reading() {
    run(async {
        let upstream = upstream([0, 0, 0]);
        upstream.put(&tasks(), task("a", "one", json!({})));
        let put = |name: &str, length: usize| {
            let pad = json!({"pad": "x".repeat(length)});
            upstream.put(&events(), event("a", name, &uid("a", "one"), pad));
        };
        for name in ["e1", "e2", "e3"] {
            put(name, 2000);
        }
        // Room for two large ones and a small one.
        let join = || shared(NativeJoin::task_events(1000).related_bytes(44_000));
        let host = Host::start(&upstream, join()).await;
        assert_eq!(
            shown(&host),
            (["e1", "e2", "e3"].map(str::to_owned).into(), 0)
        );

        for name in ["e4", "e5", "e6"] {
            put(name, 20_000);
        }
        host.settle().await;
        // Of the same age, the later names stay; what is small still finds room behind what did not.
        assert_eq!(
            shown(&host),
            (["e3", "e5", "e6"].map(str::to_owned).into(), 3)
        );
        assert_eq!(host.shown(), host.truth().await);
        let fresh = Host::start(&upstream, join()).await;
        assert_eq!(fresh.shown(), host.shown());

        upstream.delete(&events(), &key("a", "e6"));
        host.settle().await;
        assert_eq!(
            shown(&host),
            (["e3", "e4", "e5"].map(str::to_owned).into(), 2)
        );
        assert_eq!(host.shown(), host.truth().await);
        // One that alone is too much hides nothing else.
        put("e9", 100_000);
        host.settle().await;
        assert_eq!(shown(&host).1, 3);
        assert_eq!(host.shown(), host.truth().await);
    });
}
