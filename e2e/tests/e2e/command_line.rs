//! `joinery` told something it cannot do: one clear line, and an exit status that is not 0.

use std::fs;
use std::process::Command;

use joinery_e2e::{RunDir, Workspace};

/// The line on stderr of `joinery` with these arguments, which must fail.
fn refused(arguments: &[&str]) -> String {
    let program = Workspace::here().binary("joinery").unwrap();
    let output = Command::new(program)
        .args(arguments)
        .env("JOINERY_LOG", "off")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    assert!(!output.status.success(), "{arguments:?}: {said}");
    assert!(!said.contains("panicked"), "{arguments:?}: {said}");
    said
}

#[test]
fn a_start_that_cannot_succeed_says_why_in_one_line() {
    let run = RunDir::take(Workspace::here().root(), "e2e-command-line").unwrap();
    let at = |name: &str| run.path().join(name).display().to_string();
    let (data, plugins, kubeconfig) = (at("data"), at("plugins"), at("kubeconfig"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    fs::write(at("no-folder"), "").unwrap();
    fs::write(at("no-kubeconfig"), "apiVersion: [").unwrap();

    let standalone = |more: &[&str]| {
        let mut line = vec!["standalone", "--kubeconfig", &kubeconfig];
        line.extend(more);
        refused(&line)
    };
    let serve = |more: &[&str]| {
        let mut line = vec!["serve", "--listen", "127.0.0.1:0", "--plugins", &plugins];
        line.extend(["--data-dir", &data]);
        line.extend(more);
        refused(&line)
    };
    let missing = at("missing");
    let certificate = [
        "--tls-cert-file",
        &missing,
        "--tls-private-key-file",
        &missing,
    ];
    let with =
        |kubeconfig: &str| serve(&[&certificate[..], &["--kubeconfig", kubeconfig]].concat());
    for (said, names) in [
        (
            standalone(&[
                "--data-dir",
                &data,
                "--plugins",
                &plugins,
                "--listen",
                &taken,
            ]),
            taken.as_str(),
        ),
        (
            standalone(&["--data-dir", &data, "--plugins", &missing]),
            missing.as_str(),
        ),
        (
            standalone(&["--data-dir", &at("no-folder"), "--plugins", &plugins]),
            &at("no-folder"),
        ),
        (
            refused(&[
                "standalone",
                "--data-dir",
                &data,
                "--plugins",
                &plugins,
                "--kubeconfig",
                &at("missing/kubeconfig"),
            ]),
            &at("missing/kubeconfig"),
        ),
        (
            refused(&[
                "standalone",
                "--data-dir",
                &data,
                "--plugins",
                &plugins,
                "--kubeconfig",
                run.path().to_str().unwrap(),
            ]),
            "it is a folder",
        ),
        (with(&missing), &missing),
        (with(&at("no-kubeconfig")), &at("no-kubeconfig")),
        (serve(&certificate), "--kubeconfig"),
    ] {
        assert!(
            said.starts_with("joinery: ") && said.contains(names),
            "{names} is not named: {said}"
        );
        // A cause that the line already gave is not given again.
        assert!(said.matches("os error").count() <= 1, "{said}");
    }
}

#[test]
fn a_command_line_that_is_incomplete_is_told_what_is_missing() {
    assert!(refused(&["standalone"]).contains("--data-dir <DIR>"));
    assert!(refused(&["nosuch"]).contains("unrecognized subcommand 'nosuch'"));
    let said = refused(&["serve", "--listen", "nowhere"]);
    assert!(said.contains("'--listen <IP:PORT>'"), "{said}");
    let said = refused(&[
        "plugin", "new", "note", "--shape", "stored", "--group", "notes",
    ]);
    assert!(said.contains("take a domain of your own"), "{said}");
    let said = refused(&["plugin", "pack", "note.wasm", "-n", "Bad_NS"]);
    assert!(said.contains("a namespace has 1 to 63"), "{said}");
}
