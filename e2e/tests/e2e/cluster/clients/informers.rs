//! The program of `e2e/clients`, which says how it is spoken to.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::shared::Shared;

pub(super) struct Informers {
    child: Child,
    output: BufReader<ChildStdout>,
    log: String,
}

impl Informers {
    /// Starts the program, and waits until all of its caches have synced.
    pub(super) fn start(environment: &Shared, program: &Path) -> Informers {
        let log = environment.run_dir().logs().join("clients.log");
        let mut child = Command::new(program)
            .arg("-kubeconfig")
            .arg(environment.kubeconfig())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut informers = Informers {
            child,
            output,
            log: log.display().to_string(),
        };
        let said = informers.line();
        assert_eq!(said, "synced", "see {}", informers.log);
        informers
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// No object is missing, outdated, or still there after its deletion; and what a restart costs an informer is bounded.
    pub(super) fn end_with_the_truth(mut self) {
        drop(self.child.stdin.take());
        let line = self.line();
        let report: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("{error}: {line:?}; see {}", self.log));
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{report:#}; see {}", self.log);
        let followers = report["followers"].as_array().unwrap();
        assert_eq!(followers.len(), 9, "{report:#}");
        for follower in followers {
            for what in ["added", "updated", "deleted"] {
                assert!(
                    follower[what].as_u64() > Some(10),
                    "{what} of {follower:#}: it did not follow the changes"
                );
            }
            // The first one, one after the restart, and those that came while the host was away.
            assert!(follower["lists"].as_u64() <= Some(15), "{follower:#}");
        }
        eprintln!("{report:#}");
    }
}

impl Drop for Informers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
