use std::time::Duration;

use http::Method;
use joinery_controller::{LeaseLock, LeaseTiming};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::fake::{Fake, failure};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l";

fn lock(fake: &Fake, identity: &str) -> LeaseLock {
    LeaseLock::new(
        fake.client(),
        "ns",
        "l",
        identity,
        LeaseTiming::of_seconds(15),
    )
}

fn holder(fake: &Fake) -> Value {
    fake.get(LEASE).unwrap()["spec"]["holderIdentity"].clone()
}

async fn acquires_within(lock: &mut LeaseLock, seconds: u64) -> bool {
    timeout(Duration::from_secs(seconds), lock.acquire())
        .await
        .is_ok()
}

#[test]
fn a_holder_gives_up_before_another_may_begin() {
    for seconds in [0, 1, 2, 15, 3600] {
        let LeaseTiming {
            duration,
            renew_deadline,
            retry,
        } = LeaseTiming::of_seconds(seconds);
        assert!(
            retry < renew_deadline && renew_deadline < duration,
            "{seconds}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_to_come_creates_the_lease() {
    let fake = Fake::default();
    assert!(acquires_within(&mut lock(&fake, "a"), 1).await);
    let lease = fake.get(LEASE).unwrap();
    assert_eq!(lease["kind"], "Lease");
    let spec = &lease["spec"];
    assert_eq!(
        (&spec["holderIdentity"], &spec["leaseDurationSeconds"]),
        (&json!("a"), &json!(15))
    );
    assert!(spec["acquireTime"].is_string() && spec["renewTime"].is_string());
}

#[tokio::test(start_paused = true)]
async fn a_second_process_stands_by_while_the_first_renews() {
    let fake = Fake::default();
    let (mut first, mut second) = (lock(&fake, "a"), lock(&fake, "b"));
    first.acquire().await;
    tokio::select! {
        () = first.hold() => panic!("lost the Lease"),
        taken = acquires_within(&mut second, 120) => assert!(!taken),
    }
    assert_eq!(holder(&fake), "a");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_no_longer_renewed_is_taken_over_when_it_has_lasted() {
    let fake = Fake::default();
    lock(&fake, "a").acquire().await;
    let mut second = lock(&fake, "b");
    let began = Instant::now();
    assert!(acquires_within(&mut second, 60).await);
    assert!(
        (15..=17).contains(&began.elapsed().as_secs()),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(holder(&fake), "b");
    assert_eq!(fake.get(LEASE).unwrap()["spec"]["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn clocks_are_not_compared_a_lease_renewed_in_the_past_is_waited_for_all_the_same() {
    let fake = Fake::default();
    let spec = json!({"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2001-01-01T00:00:00.000000Z"});
    fake.put(
        LEASE,
        json!({"metadata": {"name": "l", "namespace": "ns"}, "spec": spec}),
    );
    assert!(!acquires_within(&mut lock(&fake, "b"), 14).await);
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_free_at_once() {
    let fake = Fake::default();
    let mut first = lock(&fake, "a");
    first.acquire().await;
    first.release().await.unwrap();
    assert!(acquires_within(&mut lock(&fake, "b"), 1).await);
    first.release().await.unwrap();
    assert_eq!(
        holder(&fake),
        "b",
        "who no longer holds it cannot release it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_holder_stops_when_somebody_else_holds_the_lease() {
    let fake = Fake::default();
    let mut first = lock(&fake, "a");
    first.acquire().await;
    let mut lease = fake.get(LEASE).unwrap();
    lease["spec"]["holderIdentity"] = "b".into();
    fake.put(LEASE, lease);
    timeout(Duration::from_secs(3), first.hold())
        .await
        .expect("stops at the next renewal");
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_gets_no_answer_stops_before_the_lease_runs_out() {
    for unreachable in [Fake::hangs, |fake: &Fake| {
        fake.fails(|_, _| Some(failure(500, "InternalError", json!({}))))
    }] {
        let fake = Fake::default();
        let mut first = lock(&fake, "a");
        first.acquire().await;
        let began = Instant::now();
        unreachable(&fake);
        first.hold().await;
        assert!(
            (8..12).contains(&began.elapsed().as_secs()),
            "{:?}",
            began.elapsed()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_costs_the_holder_nothing() {
    let fake = Fake::default();
    let mut first = lock(&fake, "a");
    first.acquire().await;
    fake.fails(|_, _| Some(failure(503, "ServiceUnavailable", json!({}))));
    let outage = async {
        tokio::time::sleep(Duration::from_secs(6)).await;
        fake.recovers();
        tokio::time::sleep(Duration::from_secs(60)).await;
    };
    tokio::select! {
        () = first.hold() => panic!("lost the Lease"),
        () = outage => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_race_for_the_lease_has_one_winner() {
    let fake = Fake::default();
    let spec = json!({"leaseDurationSeconds": 15});
    fake.put(
        LEASE,
        json!({"metadata": {"name": "l", "namespace": "ns"}, "spec": spec}),
    );
    let mut locks: Vec<_> = (0..8)
        .map(|number| lock(&fake, &number.to_string()))
        .collect();
    let attempts = locks.iter_mut().map(|lock| acquires_within(lock, 14));
    let winners = futures::future::join_all(attempts)
        .await
        .into_iter()
        .filter(|won| *won)
        .count();
    assert_eq!(winners, 1);
}

#[tokio::test(start_paused = true)]
async fn a_missing_namespace_is_named_and_waited_for() {
    let fake = Fake::default();
    fake.fails(|method, _| (method == Method::POST).then(|| failure(404, "NotFound", json!({}))));
    let mut first = lock(&fake, "a");
    assert!(!acquires_within(&mut first, 10).await);
    fake.recovers();
    assert!(acquires_within(&mut first, 3).await);
}
