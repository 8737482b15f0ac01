//! Compares with Kubernetes: the same sequences of updates and applies go through this crate and through the field
//! manager of kube-apiserver, a Go program in host/apply/oracle.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

mod generate;
mod oracle;
mod schemas;
mod scripts;
mod sequence;

use sequence::{Case, Sequence};

/// So many of each schema, and with JOINERY_TEST_FULL=1. Each sequence is made of its number alone, so a failure can be
/// run again.
const SEQUENCES: (u64, u64) = (150, 2000);

#[test]
fn random_writes_leave_the_same_objects_and_owners_as_upstream() {
    let full = std::env::var_os("JOINERY_TEST_FULL").is_some_and(|full| full == "1");
    let count = if full { SEQUENCES.1 } else { SEQUENCES.0 };
    let mut sequences = Vec::new();
    for (name, schema) in schemas::all() {
        for seed in 0..count {
            sequences.push(generate::sequence(name, schema.as_ref(), seed));
        }
    }
    compare(&sequences);
}

#[test]
fn known_turns_of_server_side_apply_end_as_upstream() {
    compare(&scripts::all());
}

fn compare(sequences: &[Sequence]) {
    let cases: Vec<&Case> = sequences.iter().map(|sequence| &sequence.case).collect();
    let answers = oracle::answers(&cases);
    assert_eq!(answers.len(), cases.len());
    let (mut steps, mut refused, mut conflicts) = (0, 0, 0);
    for (sequence, theirs) in sequences.iter().zip(&answers) {
        let ours = &sequence.answers;
        assert_eq!(ours.len(), theirs.len());
        for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
            steps += 1;
            refused += usize::from(theirs.error.is_some());
            conflicts += usize::from(theirs.error.as_ref().is_some_and(|error| error.code == 409));
            if let Some(difference) = ours.difference(theirs) {
                panic!(
                    "{}, step {index}: {difference}\nafter {}\nours {}\ntheirs {}",
                    sequence.case.name,
                    serde_json::to_string(&sequence.case.until(index)).unwrap(),
                    serde_json::to_string(ours).unwrap(),
                    serde_json::to_string(theirs).unwrap(),
                );
            }
        }
    }
    println!("{steps} steps, {refused} refused, {conflicts} of these for conflicts");
}
