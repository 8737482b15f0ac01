//! A process that is killed in the middle of writing loses nothing that it had acknowledged.

use bytes::Bytes;
use futures::StreamExt;
use joinery_store::{Embedded, FIRST_REVISION, Key, KeyRange, Op, Options, Store, WatchEvent};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const FOLDER: &str = "JOINERY_STORE_CRASH_TEST_FOLDER";
const ROUNDS: u64 = 10;
const WRITERS: usize = 8;

fn key(name: &str) -> Key {
    Key::new("example.com", "things", "default", name).unwrap()
}

/// The child: writes until it is killed, a line for each acknowledgement. Without its variable,
/// as one of the tests, it does nothing.
#[test]
fn writer_process() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = Arc::new(Embedded::open(folder, Options::default()).unwrap());
        let start = store.revision().await.unwrap();
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let store = store.clone();
                tokio::spawn(async move {
                    for n in 0_u64.. {
                        let name = format!("w{writer}-{}", n % 10);
                        // Now and then large enough for several pages of the journal.
                        let size = if n % 7 == 0 { 20_000 } else { 100 };
                        let value = format!("{start}.{writer}.{n}.{}", "x".repeat(size));
                        let op = Op::Put {
                            key: key(&name),
                            value: Bytes::from(value),
                        };
                        let revision = store.txn(vec![op], vec![]).await.unwrap().revision;
                        writeln!(
                            std::io::stdout(),
                            "ack {revision} {name} {start}.{writer}.{n}"
                        )
                        .unwrap();
                        if writer == 0 && n % 50 == 49 {
                            store.compact(revision - 20).await.unwrap();
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
    });
}

/// Runs the child for the time, kills it, and returns what it acknowledged: revision → (name,
/// start of the value).
fn run_and_kill(folder: &Path, life: Duration) -> BTreeMap<u64, (String, String)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::writer_process", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let reader = std::thread::spawn(move || {
        output
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| {
                // The last line may be cut by the kill: then the acknowledgement was not given.
                // The test harness's own words precede the first one on its line.
                let line = &line[line.find("ack ")?..];
                let mut words = line.split(' ').skip(1);
                let revision = words.next()?.parse().ok()?;
                let name = words.next()?.to_owned();
                let value = words.next()?.to_owned();
                (value.split('.').count() == 3).then_some((revision, (name, value)))
            })
            .collect::<BTreeMap<_, _>>()
    });
    std::thread::sleep(life);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut newest = FIRST_REVISION;
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        let life = Duration::from_millis(250 + round * 61 % 200);
        let acks = run_and_kill(folder.path(), life);
        acknowledged += acks.len();

        let store = Embedded::open(folder.path(), Options::default()).unwrap();
        let revision = store.revision().await.unwrap();
        let last = acks.keys().next_back().copied().unwrap_or(newest);
        assert!(
            revision >= last,
            "round {round}: at {revision}, acknowledged {last}"
        );
        assert!(acks.keys().next().is_none_or(|first| *first > newest));
        newest = revision;

        // Each key holds its last acknowledged value, or one that was not acknowledged any more.
        let mut last_of_name: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
        for (revision, (name, value)) in &acks {
            last_of_name.insert(name, (*revision, value));
        }
        for (name, (revision, value)) in last_of_name {
            let found = store.get(&key(name)).await.unwrap().unwrap();
            assert!(
                found.revision >= revision,
                "round {round}: {name} went back"
            );
            if found.revision == revision {
                assert!(found.value.starts_with(format!("{value}.").as_bytes()));
            }
        }

        // The history from the floor on has each acknowledged change at its revision.
        let floor = match store.watch(KeyRange::all(), FIRST_REVISION - 1).await {
            Err(joinery_store::StoreError::Compacted { floor, .. }) => floor,
            _ => panic!("revision 0 can be read"),
        };
        let mut watch = store.watch(KeyRange::all(), floor).await.unwrap();
        let mut expected = floor;
        while let Some(event) = watch.next().await {
            match event.unwrap() {
                WatchEvent::Change(change) => {
                    expected += 1;
                    assert_eq!(change.revision, expected, "round {round}");
                    if let Some((name, value)) = acks.get(&change.revision) {
                        assert_eq!(change.key.name(), name);
                        let new = change.new.unwrap();
                        assert!(new.value.starts_with(format!("{value}.").as_bytes()));
                    }
                }
                WatchEvent::Progress { revision } => {
                    assert_eq!(revision, expected);
                    break;
                }
            }
        }
    }
    assert!(
        acknowledged > 100,
        "only {acknowledged} writes in all rounds"
    );
}
