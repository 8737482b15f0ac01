//! kubectl as users type it: transcripts of commands with what they print for a custom resource of kube-apiserver.
//!
//! With a control plane, each command is run twice, for a resource of ours and for a custom resource with the same schema, and
//! both must print what the transcript says. Standalone, where there are no custom resources, ours must print it.
//!
//! A transcript (`*.txt`) is a list of
//! ```text
//! $ a command for bash, which may go on
//! > in further lines
//! what it prints, stdout and stderr together, normalised
//! [exit 1]            (unless it ends with 0)
//! ```
//! `peer$` is run only for the custom resource, to bring it where admission brings ours; `ours$` only for ours, where a
//! difference is intended; `cluster$` not standalone. Lines with `#` are comments. `JOINERY_WRITE_TRANSCRIPTS=1` writes the files anew: with a control
//! plane from what the custom resource prints (what ours prints for `ours$`, and where there is nothing to compare with).

mod normalise;
mod peer;
mod player;
mod transcript;

use std::thread;

use joinery_e2e::Kind;

use self::peer::Peer;
use self::player::{Player, Subject};
use self::transcript::{Entry, Only, Transcript};
use crate::shared::Shared;

/// Commands on CustomTasks.
pub(crate) fn kubectl_prints_for_custom_tasks_what_it_prints_for_custom_resources(
    environment: &Shared,
) {
    compare(environment, "custom_task");
}

/// Commands on ClusterTasks.
pub(crate) fn kubectl_prints_for_cluster_tasks_what_it_prints_for_custom_resources(
    environment: &Shared,
) {
    compare(environment, "cluster_task");
}

/// Commands on CombinedTasks: reads, and refusals of every write.
pub(crate) fn kubectl_reads_combined_tasks_and_is_clearly_refused_writes(environment: &Shared) {
    let _gate = environment.in_common();
    let mut transcript = Transcript::read(environment.workspace().root(), "combined_task");
    let player = Player::new(environment, "combined_task", Subject::Ours);
    let printed = transcript
        .entries
        .iter()
        .map(|entry| player.run(entry))
        .collect::<Vec<_>>();
    if transcript::writing() {
        transcript.expect(&printed);
        transcript.write();
    }
    judge(&transcript, "ours", &printed);
}

fn compare(environment: &Shared, name: &str) {
    let _gate = environment.in_common();
    let mut transcript = Transcript::read(environment.workspace().root(), name);
    let play = |subject: Subject| {
        let player = Player::new(environment, name, subject);
        transcript
            .entries
            .iter()
            .map(|entry| player.run(entry))
            .collect::<Vec<_>>()
    };
    let (ours, peer) = if environment.kind() == Kind::Cluster {
        let _peer = Peer::create(environment, name);
        thread::scope(|scope| {
            let peer = scope.spawn(|| play(Subject::Peer));
            let ours = play(Subject::Ours);
            (ours, Some(peer.join().unwrap()))
        })
    } else {
        (play(Subject::Ours), None)
    };
    if let Some(peer) = &peer {
        if transcript::writing() {
            let printed: Vec<Option<String>> = transcript
                .entries
                .iter()
                .enumerate()
                .map(|(at, entry)| {
                    let from = if entry.only == Some(Only::Ours) {
                        &ours
                    } else {
                        peer
                    };
                    from[at].clone()
                })
                .collect();
            transcript.expect(&printed);
            transcript.write();
        }
        judge(&transcript, "the custom resource", peer);
    }
    judge(&transcript, "ours", &ours);
}

/// Fails with every command that printed something else than the transcript says.
fn judge(transcript: &Transcript, who: &str, printed: &[Option<String>]) {
    let different: Vec<String> = transcript
        .entries
        .iter()
        .zip(printed)
        .filter_map(|(entry, printed)| {
            let printed = printed.as_ref()?;
            (*printed != entry.expected).then(|| difference(entry, printed))
        })
        .collect();
    assert!(
        different.is_empty(),
        "{} of {}, for {who}:\n{}",
        different.len(),
        transcript.path.display(),
        different.join("\n")
    );
}

fn difference(entry: &Entry, printed: &str) -> String {
    format!(
        "line {}: $ {}\n--- expected\n{}--- printed\n{printed}",
        entry.line, entry.command, entry.expected
    )
}
