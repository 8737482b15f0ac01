//! Runs the commands of a transcript.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use joinery_e2e::Kind;

use super::normalise::normalise;
use super::peer;
use super::transcript::{Entry, Only};
use crate::shared::Shared;

/// What no command takes (seconds): one that hangs is shown with exit status 124.
const PATIENCE: &str = "25";

/// Whose resources the commands are run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    Ours,
    /// A custom resource of kube-apiserver.
    Peer,
}

impl Subject {
    fn name(self) -> &'static str {
        match self {
            Subject::Ours => "ours",
            Subject::Peer => "peer",
        }
    }
}

/// A folder, a namespace and a kubeconfig with that namespace as the default.
pub(super) struct Player<'a> {
    environment: &'a Shared,
    subject: Subject,
    namespace: String,
    folder: PathBuf,
}

impl<'a> Player<'a> {
    pub(super) fn new(environment: &'a Shared, name: &str, subject: Subject) -> Player<'a> {
        let namespace = format!("{}-{}", name.replace('_', "-"), subject.name());
        let kubectl = environment.kubectl();
        kubectl.run(["create", "namespace", &namespace]).unwrap();
        let folder = environment
            .run_dir()
            .path()
            .join("transcripts")
            .join(&namespace);
        fs::create_dir_all(folder.join("tmp")).unwrap();
        fs::copy(environment.kubeconfig(), folder.join("kubeconfig")).unwrap();
        let player = Player {
            environment,
            subject,
            namespace,
            folder,
        };
        let set = player.shell("kubectl config set-context --current --namespace $NS");
        assert!(set.contains("modified"), "{set}");
        player
    }

    /// What the command prints, normalised and in our words; none when it is not for this subject, or prints nothing that counts.
    pub(super) fn run(&self, entry: &Entry) -> Option<String> {
        let runs = match entry.only {
            None => true,
            Some(Only::Ours) => self.subject == Subject::Ours,
            Some(Only::Peer) => self.subject == Subject::Peer,
            Some(Only::Cluster) => self.environment.kind() == Kind::Cluster,
        };
        if !runs {
            return None;
        }
        let command = match self.subject {
            Subject::Ours => entry.command.clone(),
            Subject::Peer => peer::in_its_words(&entry.command),
        };
        let printed = self.shell(&command);
        if entry.only == Some(Only::Peer) {
            assert!(!printed.contains("[exit"), "{command}\n{printed}");
            return None;
        }
        let printed = match self.subject {
            Subject::Ours => printed,
            Subject::Peer => peer::in_our_words(&printed),
        };
        Some(normalise(&printed, &self.namespace))
    }

    fn shell(&self, command: &str) -> String {
        // Of its own process group, which ends with it: a kubectl in the background would hold the output open.
        let mut bash = Command::new("timeout");
        self.environment.describe_to(&mut bash).unwrap();
        let output = bash
            .args(["--kill-after=1", PATIENCE, "bash", "-c"])
            .arg(format!("exec 2>&1\n{command}"))
            .current_dir(&self.folder)
            .env("KUBECONFIG", self.folder.join("kubeconfig"))
            // Where `kubectl edit` leaves what could not be written.
            .env("TMPDIR", self.folder.join("tmp"))
            .env("NS", &self.namespace)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if !printed.is_empty() && !printed.ends_with('\n') {
            printed.push('\n');
        }
        if !output.status.success() {
            printed.push_str(&format!("[exit {}]\n", output.status.code().unwrap_or(-1)));
        }
        printed
    }
}

impl Drop for Player<'_> {
    fn drop(&mut self) {
        let _ = self.environment.kubectl().output([
            "delete",
            "namespace",
            &self.namespace,
            "--wait=false",
        ]);
    }
}
