//! The Go program that answers as kube-apiserver does.

use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use crate::sequence::{Answer, Case};

/// The answers to each step of each case. Go builds the program once and keeps it in the user's build cache.
pub(crate) fn answers(cases: &[&Case]) -> Vec<Vec<Answer>> {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("oracle");
    let mut oracle = Command::new("go")
        .args(["run", "."])
        .current_dir(module)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Go builds the program that this crate is compared with: install it (https://go.dev/dl)");
    let mut input = BufWriter::new(oracle.stdin.take().unwrap());
    let output = BufReader::new(oracle.stdout.take().unwrap());
    let answers = thread::scope(|scope| {
        scope.spawn(move || {
            for case in cases {
                serde_json::to_writer(&mut input, case).unwrap();
                input.write_all(b"\n").unwrap();
            }
        });
        let lines = output.lines().map(Result::unwrap);
        lines
            .map(|line| serde_json::from_str(&line).unwrap())
            .collect()
    });
    assert!(oracle.wait().unwrap().success());
    answers
}
