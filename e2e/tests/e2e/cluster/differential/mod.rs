//! The differential test: one recorded set of requests, played in one run to custom resources of the real kube-apiserver, to ours of the
//! same schema, and to Flunders of sample-apiserver. What differs is a fault, or stands in docs/differences.md with its reason; what
//! stands there must differ.
//!
//! The requests are in `requests/*.http`, each file a scenario with a namespace of its own; `request.rs` says how to read them.

mod answer;
mod compare;
mod listed;
mod normalise;
mod peer;
mod player;
mod request;
mod sample;
mod target;

use std::thread;

use self::answer::Answer;
use self::compare::{Difference, differences};
use self::listed::{Against, Listed, Met};
use self::player::play;
use self::request::scenarios;
use self::sample::{Sample, without_schema};
use self::target::Target;
use crate::client::Client;
use crate::shared::cluster;

/// The recorded set must not shrink unseen.
const AT_LEAST: usize = 680;
/// So many of it fit sample-apiserver.
const AT_LEAST_SAMPLED: usize = 450;

#[test]
fn stored_resources_answer_as_go_does() {
    let environment = cluster();
    let _gate = environment.in_common();
    let root = environment.workspace().root();
    let scenarios = scenarios(&root.join("e2e/tests/e2e/cluster/differential/requests"));
    let all = scenarios.iter().flat_map(|scenario| &scenario.requests);
    let (requests, fitting) = (
        all.clone().count(),
        all.filter(|request| request.fits_any_schema()).count(),
    );
    assert!(requests >= AT_LEAST, "only {requests} requests");
    assert!(fitting >= AT_LEAST_SAMPLED, "only {fitting} fit");
    let mut listed = Listed::read(&root.join("docs/differences.md"));

    let sample = Sample::start(environment);
    let admin = Client::admin(environment);
    let peer = peer::Peer::create(&admin);
    let mut targets = vec![
        Target::peer(admin.clone()),
        Target::aggregated(admin.clone()),
        Target::direct(Client::direct(environment)),
    ];
    if let Some(sample) = &sample {
        sample.wait();
        targets.push(Target::sample(sample.client.clone()));
    }
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
            let mut played = played
                .into_iter()
                .map(|thread| thread.join().unwrap().into_iter());
            let [mut custom, mut aggregated, mut direct] =
                std::array::from_fn(|_| played.next().unwrap());
            let mut sampled = played.next();
            for request in &scenario.requests {
                let name = format!("{}: {}", scenario.name, request.title);
                let [custom, aggregated, direct] = [&mut custom, &mut aggregated, &mut direct]
                    .map(|answers| answers.next().unwrap());
                let met = against_custom(&custom, &direct, &aggregated);
                listed.note(Against::CustomResources, &name, met);
                let sampled = sampled.as_mut().map(|answers| answers.next().unwrap());
                if let Some(sampled) = sampled.filter(|_| request.fits_any_schema()) {
                    let met = against_sample(&sampled, &custom, &direct);
                    listed.note(Against::SampleApiserver, &name, met);
                }
            }
        }
    });
    drop(peer);
    if std::env::var("JOINERY_WRITE_DIFFERENCES").is_ok_and(|value| value == "1") {
        listed.write();
        return;
    }
    let report = listed.report(sample.is_some());
    assert!(report.is_empty(), "of {requests} requests:\n{report}");
}

/// Where the host's own answer differs, and where it does only through the aggregator.
fn against_custom(custom: &Answer, direct: &Answer, aggregated: &Answer) -> Vec<Met> {
    let mut all = differences(custom, direct);
    for difference in differences(custom, aggregated) {
        if !all.contains(&difference) {
            all.push(difference);
        }
    }
    let met = |difference| Met {
        difference,
        as_custom: false,
    };
    all.into_iter().map(met).collect()
}

fn against_sample(sampled: &Answer, custom: &Answer, direct: &Answer) -> Vec<Met> {
    let [sampled, custom, direct] = [sampled, custom, direct].map(without_schema);
    let otherwise = differences(&custom, &direct);
    let met = |difference: Difference| Met {
        as_custom: !otherwise.iter().any(|other| other.overlaps(&difference)),
        difference,
    };
    differences(&sampled, &direct)
        .into_iter()
        .map(met)
        .collect()
}
