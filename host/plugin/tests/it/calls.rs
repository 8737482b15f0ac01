//! What a guest may do in a call, and what becomes of the others meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::join_all;
use joinery_object::{GroupVersionResource, ObjectKey, Status};
use joinery_resource::{Lookup, LookupList, Operation, Review, User};
use joinery_view::{Branch, Group, JoinError, Selection, Side};
use serde_json::{Value, json};

use crate::guests::{group, object, text, things};

fn items() -> GroupVersionResource {
    GroupVersionResource::new("test.example.com", "v1", "items")
}

#[tokio::test]
async fn keys_query_and_combine_answer_in_order() {
    let (_, join) = things(json!({})).await;
    let keys = join
        .keys(0, Side::Child, vec![object("a"), object("b")])
        .await
        .unwrap();
    assert_eq!(keys, [["uses Child a"], ["uses Child b"]]);
    assert_eq!(
        join.keys(1, Side::Parent, vec![object("c")]).await.unwrap(),
        [["further Parent c"]]
    );
    assert_eq!(
        join.query(0, vec!["a".into()]).await.unwrap(),
        Selection::All
    );
    assert_eq!(
        join.keys(0, Side::Child, Vec::new()).await.unwrap(),
        Vec::<Vec<String>>::new()
    );

    let children = |names: &[&str], omitted| Branch {
        objects: names.iter().map(|n| object(n)).collect(),
        parents: vec![Vec::new(); names.len()],
        omitted,
    };
    let full = Group {
        primary: object("a"),
        branches: vec![children(&["x", "y"], 3), children(&["z"], 4)],
    };
    let results = join
        .combine(vec![full, group("none"), group("refused"), group("odd")])
        .await
        .unwrap();
    let composed = results[0].as_ref().unwrap().as_ref().unwrap();
    assert_eq!(
        text(&composed.text),
        r#"{"of":"a","resource":"things","generation":0,"children":[,,],"omitted":7}"#
    );
    let at = text(&composed.text).find("[,").unwrap() as u32 + 1;
    assert_eq!(composed.inserts, [(at, 1), (at + 1, 2), (at + 2, 3)]);
    assert_eq!(results[1], Ok(None));
    let refusal = results[2].as_ref().unwrap_err();
    assert_eq!(
        (refusal.code, refusal.message.as_str()),
        (403, "this one is not shown")
    );
    assert_eq!(
        results[3].as_ref().unwrap_err().reason,
        "InternalError",
        "a reason that Kubernetes does not have"
    );
}

#[tokio::test]
async fn many_objects_are_cut_into_calls_and_put_together() {
    let (generation, join) = things(json!({})).await;
    let before = generation.stats().calls;
    let objects: Vec<Bytes> = (0..20_000).map(|n| object(&format!("n{n}"))).collect();
    let keys = join.keys(0, Side::Child, objects).await.unwrap();
    assert!(
        keys.iter()
            .enumerate()
            .all(|(n, keys)| *keys == [format!("uses Child n{n}")])
    );
    assert_eq!(keys.len(), 20_000);
    assert_eq!(generation.stats().calls - before, 5);
}

#[tokio::test]
async fn a_trap_costs_one_call_and_its_instance() {
    let (generation, join) = things(json!({})).await;
    for _ in 0..50 {
        let error = join
            .keys(0, Side::Child, vec![object("trap")])
            .await
            .unwrap_err();
        let JoinError::Trapped(message) = error else {
            panic!("a trap")
        };
        assert!(
            message.starts_with("plugin test_guest failed: wasm trap: wasm `unreachable`"),
            "{message}"
        );
        assert!(message.contains("told to trap"), "{message}");
        assert!(
            join.keys(0, Side::Child, vec![object("good")])
                .await
                .is_ok(),
            "the next call is served"
        );
    }
    let stats = generation.stats();
    assert_eq!(stats.trapped, 50);
    assert!(stats.instances >= 50, "none that trapped is used again");
}

#[tokio::test]
async fn memory_stack_and_results_are_bounded() {
    let (generation, join) = things(json!({"limits": {"memoryMiB": 32}})).await;
    for name in ["bomb", "recurse", "exit", "giant"] {
        assert!(
            matches!(
                join.keys(0, Side::Child, vec![object(name)]).await,
                Err(JoinError::Trapped(_))
            ),
            "{name}"
        );
    }
    assert!(
        join.keys(0, Side::Child, vec![object("large")])
            .await
            .is_ok()
    );
    let warm = generation.stats().warm;
    assert!(
        join.keys(0, Side::Child, vec![object("large")])
            .await
            .is_ok()
    );
    assert!(
        generation.stats().warm <= warm,
        "an instance that grew is not kept"
    );
}

#[tokio::test]
async fn the_system_answers_and_gives_nothing() {
    let (_, join) = things(json!({})).await;
    assert_eq!(
        join.keys(0, Side::Child, vec![object("wasi")])
            .await
            .unwrap(),
        [["uses Child wasi"]]
    );
}

#[tokio::test]
async fn a_flood_of_output_harms_nobody() {
    let (_, join) = things(json!({})).await;
    assert!(
        join.keys(0, Side::Child, vec![object("flood")])
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn endless_guests_end_in_time_and_the_others_are_served() {
    let (slow, endless) = things(json!({"limits": {"callSeconds": 1}})).await;
    let (_, good) = things(json!({})).await;
    good.keys(0, Side::Child, vec![object("warm")])
        .await
        .unwrap();
    for word in ["loop", "sleep"] {
        let started = Instant::now();
        let calls = join_all((0..8).map(|_| {
            let endless = endless.clone();
            async move { endless.keys(0, Side::Child, vec![object(word)]).await }
        }));
        let calls = tokio::spawn(calls);
        let mut slowest = Duration::ZERO;
        while !calls.is_finished() {
            let asked = Instant::now();
            good.keys(0, Side::Child, vec![object("good")])
                .await
                .unwrap();
            slowest = slowest.max(asked.elapsed());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for outcome in calls.await.unwrap() {
            let Err(JoinError::Trapped(message)) = outcome else {
                panic!("{outcome:?}")
            };
            assert_eq!(message, "plugin test_guest did not answer within 1s");
        }
        assert!(
            started.elapsed() < Duration::from_secs(4),
            "{word}: {:?}",
            started.elapsed()
        );
        assert!(
            slowest < Duration::from_secs(1),
            "{word}: a good call took {slowest:?}"
        );
    }
    assert_eq!(slow.stats().timed_out, 16);
    assert!(
        endless
            .keys(0, Side::Child, vec![object("good")])
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn a_caller_that_goes_away_takes_its_guest_along() {
    let (generation, join) =
        things(json!({"limits": {"concurrentCalls": 1, "callSeconds": 60}})).await;
    for _ in 0..5 {
        let call = join.keys(0, Side::Child, vec![object("loop")]);
        assert!(
            tokio::time::timeout(Duration::from_millis(50), call)
                .await
                .is_err()
        );
        // There is one place only: the guest has left it.
        assert!(
            join.keys(0, Side::Child, vec![object("good")])
                .await
                .is_ok()
        );
    }
    assert_eq!(generation.stats().timed_out, 0);
}

#[tokio::test]
async fn too_many_calls_are_turned_away() {
    let (generation, join) =
        things(json!({"limits": {"concurrentCalls": 2, "callSeconds": 4}})).await;
    let outcomes =
        join_all((0..80).map(|_| join.keys(0, Side::Child, vec![object("sleep")]))).await;
    let busy = outcomes
        .iter()
        .filter(|o| matches!(o, Err(JoinError::Busy(_))))
        .count();
    assert_eq!(
        busy, 78,
        "two run, 64 wait and then go, the rest goes at once"
    );
    assert_eq!(generation.stats().busy, 78);
    let Some(Err(error)) = outcomes
        .into_iter()
        .find(|o| matches!(o, Err(JoinError::Busy(_))))
    else {
        panic!()
    };
    assert!(
        error.to_string().starts_with("plugin test_guest is busy: "),
        "{error}"
    );
}

#[tokio::test]
async fn instances_of_many_plugins_never_run_out() {
    // Each keeps two warm ones; together more than there may be.
    let mut all = Vec::new();
    for generation in 0..40 {
        all.push(
            things(json!({"settings": {"generation": generation}}))
                .await
                .1,
        );
    }
    for _ in 0..2 {
        let calls = all.iter().flat_map(|join| {
            [
                join.combine(vec![group("a")]),
                join.combine(vec![group("b")]),
            ]
        });
        for (index, outcome) in join_all(calls).await.into_iter().enumerate() {
            let result = outcome.unwrap().remove(0).unwrap().unwrap();
            assert!(text(&result.text).contains(&format!("\"generation\":{}", index / 2)));
        }
    }
}

/// Plugins whose calls never end may have all that is shared; each other one still has an instance of its own.
#[tokio::test]
async fn who_takes_all_instances_leaves_others_one() {
    const GREEDY: usize = 5; // 80 calls for 64 instances.
    let limits = json!({"concurrentCalls": 16, "callSeconds": 4});
    let mut greedy = Vec::new();
    for number in 0..GREEDY {
        let settings = json!({"settings": {"generation": number}, "limits": limits});
        greedy.push(things(settings).await.1);
    }
    let (_, modest) = things(json!({"settings": {"generation": GREEDY}})).await;
    let loops = greedy.iter().flat_map(|join| {
        std::iter::repeat_with(|| join.keys(0, Side::Child, vec![object("sleep")])).take(16)
    });
    let taken = join_all(loops);
    let asked = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        for _ in 0..10 {
            modest
                .keys(0, Side::Child, vec![object("a")])
                .await
                .unwrap();
        }
    };
    tokio::join!(taken, asked);
}

#[tokio::test]
async fn instances_are_reused_unless_told_otherwise() {
    for (reuse, made) in [("warm", 0), ("never", 100)] {
        let (generation, join) = things(json!({"limits": {"reuse": reuse}})).await;
        let before = generation.stats().instances;
        for _ in 0..100 {
            join.keys(0, Side::Child, vec![object("a")]).await.unwrap();
        }
        assert_eq!(generation.stats().instances - before, made, "{reuse}");
    }
}

/// Finds one item, and lists more than were asked for.
struct Found;

#[async_trait]
impl Lookup for Found {
    async fn get(
        &self,
        gvr: &GroupVersionResource,
        key: &ObjectKey,
    ) -> Result<Option<Bytes>, Status> {
        assert_eq!(gvr, &items());
        match &*key.name {
            "hidden" => Err(Status::forbidden(gvr, &key.name, "no grant")),
            name => Ok(Some(format!("found {name}").into())),
        }
    }

    async fn list(
        &self,
        _: &GroupVersionResource,
        options: &LookupList,
    ) -> Result<(Vec<Bytes>, bool), Status> {
        assert_eq!(options.limit, 2);
        // Not answered at once: the guest waits in the host.
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok((vec!["one".into(), "two".into()], true))
    }
}

fn review(name: &str) -> Review {
    Review {
        operation: Operation::Create,
        subresource: None,
        key: ObjectKey::new(Some("default"), name),
        object: Some("{}".into()),
        old_object: None,
        user: User {
            name: "jane".into(),
            groups: vec!["system:authenticated".into()],
            ..User::default()
        },
        dry_run: false,
        now: 42,
    }
}

#[tokio::test]
async fn admission_sees_the_review_and_what_it_looks_up() {
    let (generation, _) = things(json!({})).await;
    let verdict = generation
        .admit()
        .admit(&items(), review("a"), Arc::new(Found))
        .await
        .unwrap();
    assert_eq!(verdict.warnings, ["mind"]);
    let object: Value = serde_json::from_slice(&verdict.object.unwrap()).unwrap();
    assert_eq!(
        object,
        json!({
            "resource": "items", "operation": "Create", "user": "jane", "groups": ["system:authenticated"], "now": 42,
            "found": "found a", "listed": ["one", "two"], "truncated": true, "object": "{}",
        })
    );
}

#[tokio::test]
async fn refusals_and_faults_of_admission_are_statuses() {
    let (generation, _) = things(json!({"limits": {"callSeconds": 1}})).await;
    let admit = generation.admit();
    let refused = |name: &'static str| {
        let admit = admit.clone();
        async move {
            admit
                .admit(&items(), review(name), Arc::new(Found))
                .await
                .unwrap_err()
        }
    };
    let invalid = refused("refused").await;
    assert_eq!((invalid.code, &*invalid.reason), (422, "Invalid"));
    let details = invalid.details.unwrap();
    assert_eq!(
        (details.kind.as_str(), details.name.as_str()),
        ("Item", "refused")
    );
    assert_eq!(details.group, "test.example.com");
    assert_eq!(
        (&*details.causes[0].reason, details.causes[0].field.as_str()),
        ("FieldValueRequired", "spec.size")
    );

    let forbidden = refused("hidden").await;
    assert_eq!(
        (forbidden.code, forbidden.message.contains("no grant")),
        (403, true),
        "{forbidden}"
    );
    let trap = refused("trap").await;
    assert_eq!(
        (trap.code, trap.message.contains("told to trap")),
        (500, true),
        "{trap}"
    );
    let late = refused("loop").await;
    assert_eq!((late.code, &*late.reason), (504, "Timeout"));
    let unknown = admit
        .admit(
            &GroupVersionResource::new("a.b", "v1", "c"),
            review("a"),
            Arc::new(Found),
        )
        .await;
    assert_eq!(unknown.unwrap_err().code, 500);
}

/// Neither calls nor traps leave anything behind.
#[tokio::test]
async fn thousands_of_calls_and_traps_leave_nothing_behind() {
    let (_, join) = things(json!({"limits": {"reuse": "never"}})).await;
    let maps = || {
        std::fs::read_to_string("/proc/self/maps")
            .unwrap()
            .lines()
            .count()
    };
    let round = |times: usize| {
        let join = join.clone();
        async move {
            for n in 0..times {
                let name = if n % 2 == 0 { "trap" } else { "good" };
                assert_eq!(
                    join.keys(0, Side::Child, vec![object(name)]).await.is_ok(),
                    name == "good"
                );
            }
        }
    };
    round(200).await;
    let before = maps();
    round(3_000).await;
    // Other tests of this process come and go meanwhile.
    assert!(maps() < before + 500, "{before} mappings became {}", maps());
}
