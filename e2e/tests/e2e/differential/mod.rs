//! The differential test: one recorded set of requests, played in one run to custom resources of the real kube-apiserver and to ours of the
//! same schema. What differs is a fault, or stands in docs/differences.md with its reason; what stands there must differ.
//!
//! The requests are in `requests/*.http`, each file a scenario with a namespace of its own; `request.rs` says how to read them.

mod answer;
mod compare;
mod listed;
mod normalise;
mod peer;
mod player;
mod request;
mod target;

use std::fmt::Write as _;
use std::thread;

use self::compare::{Difference, differences};
use self::listed::Listed;
use self::player::play;
use self::request::scenarios;
use self::target::Target;
use crate::client::Client;
use crate::shared::cluster;

/// The recorded set must not shrink unseen.
const AT_LEAST: usize = 300;

#[test]
fn stored_resources_answer_as_custom_resources_of_kube_apiserver_do() {
    let environment = cluster();
    let _gate = environment.in_common();
    let root = environment.workspace().root();
    let scenarios = scenarios(&root.join("e2e/tests/e2e/differential/requests"));
    let requests: usize = scenarios
        .iter()
        .map(|scenario| scenario.requests.len())
        .sum();
    assert!(requests >= AT_LEAST, "only {requests} requests");
    let mut listed = Listed::read(&root.join("docs/differences.md"));

    let admin = Client::admin(environment);
    let peer = peer::Peer::create(&admin);
    let targets = [
        Target::peer(admin.clone()),
        Target::aggregated(admin.clone()),
        Target::direct(Client::direct(environment)),
    ];
    let mut report = String::new();
    thread::scope(|scope| {
        let running: Vec<_> = scenarios
            .iter()
            .map(|scenario| {
                let played: Vec<_> = targets
                    .iter()
                    .map(|target| scope.spawn(|| play(&admin, scenario, target)))
                    .collect();
                (scenario, played)
            })
            .collect();
        for (scenario, played) in running {
            let [go, aggregated, direct] = played
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect::<Vec<_>>()
                .try_into()
                .unwrap();
            for ((request, go), (aggregated, direct)) in scenario
                .requests
                .iter()
                .zip(&go)
                .zip(aggregated.iter().zip(&direct))
            {
                let name = format!("{}: {}", scenario.name, request.title);
                let mut unlisted = |ours| -> Vec<Difference> {
                    let found = differences(go, ours).into_iter();
                    found
                        .filter(|found| !listed.covers(&name, &found.part))
                        .collect()
                };
                let direct = unlisted(direct);
                report += &describe(&name, &direct);
                let mut aggregated = unlisted(aggregated);
                aggregated.retain(|difference| !direct.contains(difference));
                report += &describe(&format!("{name}, through the aggregator"), &aggregated);
            }
        }
    });
    drop(peer);
    report += &listed.unseen();
    assert!(report.is_empty(), "of {requests} requests:\n{report}");
}

fn describe(request: &str, differences: &[Difference]) -> String {
    if differences.is_empty() {
        return String::new();
    }
    let mut report = format!("\n{request}\n");
    for Difference { part, go, ours } in differences {
        let _ = writeln!(report, "  {part}\n    Go:   {go}\n    ours: {ours}");
    }
    report
}
