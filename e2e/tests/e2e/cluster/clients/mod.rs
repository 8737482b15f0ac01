//! Clients as controllers use them, in Go and in Rust: caches that follow all three resources through the aggregator, while the
//! resources change and the host is restarted, equal the truth in the end.

mod churn;
mod informers;
mod reflectors;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use self::churn::Churn;
use self::informers::Informers;
use self::reflectors::Reflectors;
use crate::fixtures::Namespace;
use crate::shared::{cluster, count};

/// Seconds of churn in the full form; CI has a twentieth of them before the restart and after it.
const SECONDS: usize = 120;

#[test]
fn informers_managers_and_reflectors_end_with_the_truth() {
    let environment = cluster();
    // Built before others have to wait.
    let program = joinery_e2e::go_clients(environment.workspace()).unwrap();
    let _gate = environment.alone();
    let namespace = Namespace::new(environment.kubectl(), "churn");
    let informers = Informers::start(environment, &program);
    let reflectors = Reflectors::start(environment);

    let churn = Churn::new(environment, &namespace.name);
    let over = AtomicBool::new(false);
    let done = thread::scope(|scope| {
        let stored = scope.spawn(|| churn.stored(&over));
        let view = scope.spawn(|| churn.view(&over));
        let half = Duration::from_secs(count(SECONDS) as u64);
        thread::sleep(half);
        // A crash: clients see connections break, and nothing is said in peace.
        let restarted = environment.restart_host(true);
        thread::sleep(half);
        over.store(true, Ordering::Relaxed);
        restarted.unwrap();
        stored.join().unwrap() + view.join().unwrap()
    });
    assert!(done > 100, "only {done} changes were made");

    informers.end_with_the_truth();
    reflectors.end_with_the_truth();
}
