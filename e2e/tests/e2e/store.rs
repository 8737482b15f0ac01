//! `joinery store` beside a host, and what clients see after a restore.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use joinery_e2e::{SoloHost, Workspace};
use serde_json::{Value, json};

use crate::client::Client;
use crate::fixtures::{VIEW, custom_task, text};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

fn run(arguments: &[&str]) -> Output {
    Command::new(Workspace::here().binary("joinery").unwrap())
        .args(arguments)
        .env("JOINERY_LOG", "off")
        .output()
        .unwrap()
}

/// What was said, on both streams.
fn said(output: &Output) -> String {
    let (out, error) = (&output.stdout, &output.stderr);
    format!(
        "{}{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(error)
    )
}

fn done(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    said(&output)
}

/// One line that says what is wrong.
fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    let said = said(&output);
    assert!(!output.status.success(), "{arguments:?}: {said}");
    assert!(
        said.starts_with("joinery: ") && said.trim().lines().count() == 1,
        "{said}"
    );
    said
}

fn path() -> String {
    format!("{VIEW}/namespaces/default/customtasks")
}

fn create(client: &Client, name: &str) -> Value {
    let object = custom_task("default", name).to_string();
    let made = client.send("POST", &path(), &JSON, object);
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()
}

fn revision(object: &Value) -> u64 {
    text(object, "/metadata/resourceVersion").parse().unwrap()
}

fn display(path: &Path) -> String {
    path.display().to_string()
}

/// The store's journal.
fn journal(data: &Path) -> PathBuf {
    fs::read_dir(data.join("store/db"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "jnl"))
        .unwrap()
}

#[test]
fn a_backup_of_a_running_host_is_restored_and_clients_begin_anew() {
    let host = SoloHost::start(&Workspace::here(), "e2e-store", &[]).unwrap();
    let client = Client::of_kubeconfig(host.kubectl());
    let data = display(host.data_dir());
    let file = display(&host.run_dir().path().join("backup"));
    let before = create(&client, "kept");

    // Beside a client that writes.
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0;
            while !over.load(Ordering::Relaxed) {
                create(&client, &format!("beside-{number}"));
                number += 1;
            }
        });
        for _ in 0..3 {
            let said = done(&["store", "backup", "--data-dir", &data, "--to", &file]);
            assert!(said.contains("objects at revision"), "{said}");
        }
        over.store(true, Ordering::Relaxed);
    });
    let checked = done(&["store", "check", "--backup", &file]);
    assert!(checked.contains("whole"), "{checked}");
    assert!(!Path::new(&format!("{file}.partial")).exists());

    // A host has the files to itself.
    let pid = fs::read_to_string(host.data_dir().join("store/LOCK")).unwrap();
    let in_use = refused(&["store", "check", "--data-dir", &data]);
    assert!(
        in_use.contains("running host") && in_use.contains(pid.trim()),
        "{in_use}"
    );
    let plugins = display(&host.run_dir().path().join("plugins/joinery"));
    let (kubeconfig, flags) = (
        display(&host.run_dir().path().join("second")),
        ["--data-dir", &data],
    );
    let second = [
        &[
            "standalone",
            "--plugins",
            &plugins,
            "--kubeconfig",
            &kubeconfig,
        ],
        &flags[..],
    ]
    .concat();
    let in_use = refused(&second);
    assert!(
        in_use.contains("in use by another process") && in_use.contains(pid.trim()),
        "{in_use}"
    );

    // What is written later is lost with the restore, and what is there is not overwritten.
    let later = create(&client, "later");
    host.stop(true);
    let not_empty = refused(&["store", "restore", "--from", &file, "--data-dir", &data]);
    assert!(not_empty.contains("not empty"), "{not_empty}");
    let checked = done(&["store", "check", "--data-dir", &data]);
    assert!(
        checked.contains("customtasks.aggregated.tasks.example.com: "),
        "{checked}"
    );
    let offline = display(&host.run_dir().path().join("offline"));
    done(&["store", "backup", "--data-dir", &data, "--to", &offline]);
    fs::rename(host.data_dir().join("store"), host.data_dir().join("old")).unwrap();
    let restored = done(&["store", "restore", "--from", &file, "--data-dir", &data]);
    assert!(restored.contains("watches begin anew"), "{restored}");
    host.begin().unwrap();

    let mut after = client.get(&format!("{}/kept", path())).json();
    assert!(revision(&after) > revision(&later), "{after:#}");
    after["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
    assert_eq!(after, before);
    assert_eq!(client.get(&format!("{}/later", path())).status, 404);
    for seen in [&before, &later] {
        let seen = revision(seen);
        let mut watch = client
            .watch(&format!("{}?watch=1&resourceVersion={seen}", path()))
            .unwrap();
        let frame = watch.next(std::time::Duration::from_secs(10)).unwrap();
        assert_eq!(
            (text(&frame, "/type"), &frame["object"]["code"]),
            ("ERROR", &json!(410))
        );
        let exact = format!(
            "{}?resourceVersion={seen}&resourceVersionMatch=Exact",
            path()
        );
        assert_eq!(client.get(&exact).status, 410);
    }
    // A client that holds an object as it was must read it again, and then goes on.
    let stale = client.send(
        "PUT",
        &format!("{}/kept", path()),
        &JSON,
        before.to_string(),
    );
    assert_eq!(stale.status, 409, "{}", stale.text());
    assert!(revision(&create(&client, "next")) > revision(&after));
}

#[test]
fn a_store_that_is_damaged_is_refused_with_what_to_do() {
    let host = SoloHost::start(&Workspace::here(), "e2e-damage", &[]).unwrap();
    let client = Client::of_kubeconfig(host.kubectl());
    for number in 0..5 {
        create(&client, &format!("object-{number}"));
    }
    host.stop(false);
    let data = display(host.data_dir());
    let journal = journal(host.data_dir());
    let mut bytes = fs::read(&journal).unwrap();
    let at = bytes
        .windows(8)
        .position(|window| window == b"object-2")
        .unwrap();
    bytes[at] ^= 1;
    fs::write(&journal, bytes).unwrap();
    let file = display(&host.run_dir().path().join("backup"));
    let plugins = display(&host.run_dir().path().join("plugins/joinery"));
    for arguments in [
        vec!["store", "check", "--data-dir", &data],
        vec!["store", "backup", "--data-dir", &data, "--to", &file],
        vec![
            "standalone",
            "--data-dir",
            &data,
            "--plugins",
            &plugins,
            "--kubeconfig",
            &file,
        ],
    ] {
        let said = refused(&arguments);
        assert!(
            said.contains("damaged") && said.contains("joinery store restore"),
            "{said}"
        );
        assert!(!Path::new(&file).exists());
    }
    fs::write(host.data_dir().join("store/FORMAT"), "joinery-store 9\n").unwrap();
    let said = refused(&["store", "check", "--data-dir", &data]);
    assert!(
        said.contains("has format 9") && said.contains("reads format 1"),
        "{said}"
    );
    let missing = display(&host.run_dir().path().join("missing"));
    for arguments in [
        vec!["store", "check", "--data-dir", &missing],
        vec!["store", "backup", "--data-dir", &missing, "--to", &file],
        vec!["store", "check", "--backup", &missing],
        vec!["store", "restore", "--data-dir", &data, "--from", &missing],
    ] {
        let said = refused(&arguments);
        assert!(said.contains(&missing), "{said}");
    }
    assert!(!Path::new(&missing).exists());
}

#[test]
fn a_version_that_the_history_has_forgotten_is_too_old() {
    let flags = ["--history-count", "20", "--history-age", "3600"];
    let host = SoloHost::start(&Workspace::here(), "e2e-history", &flags).unwrap();
    let client = Client::of_kubeconfig(host.kubectl());
    let first = revision(&create(&client, "first"));
    let exact = format!(
        "{}?resourceVersion={first}&resourceVersionMatch=Exact",
        path()
    );
    let list = client.get(&exact).json();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    for number in 0..40 {
        create(&client, &format!("object-{number}"));
    }
    let answer = client.get(&exact);
    assert_eq!(
        (answer.status.as_u16(), text(&answer.json(), "/reason")),
        (410, "Expired")
    );
}
