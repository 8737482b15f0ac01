//! A disk without room: nothing is written, that is told, and it is over when there is room again.

use bytes::Bytes;
use joinery_store::{Embedded, Key, KeyRange, ListOptions, Op, Options, Store};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FOLDER: &str = "JOINERY_STORE_FULL_TEST_FOLDER";
/// No file may grow beyond: what a full disk is to all but its name.
const LIMIT: u64 = 64 << 10;

/// A value that cannot be compressed.
fn put(n: usize) -> Op {
    let mut noise = n as u64 + 1;
    let value: Vec<u8> = std::iter::repeat_with(|| {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        noise.to_be_bytes()[0]
    })
    .take(10_000)
    .collect();
    Op::Put {
        key: Key::new("", "things", "", &format!("n{n:03}")).unwrap(),
        value: Bytes::from(value),
    }
}

fn limit(bytes: Option<u64>) {
    let mut limit = getrlimit(Resource::Fsize);
    limit.current = bytes.or(limit.maximum);
    setrlimit(Resource::Fsize, limit).unwrap();
}

async fn count(store: &Embedded) -> usize {
    let all = KeyRange::all();
    let page = store.list(&all, ListOptions::default()).await;
    page.unwrap().count
}

/// The child. Without its variable, as one of the tests, it does nothing.
#[test]
fn limited_process() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = Embedded::open(&folder, Options::default()).unwrap();
        limit(Some(LIMIT));
        let mut written = 0;
        let error = loop {
            match store.txn(vec![put(written)], vec![]).await {
                Ok(_) => written += 1,
                Err(error) => break error,
            }
            assert!(written < 20, "there is no limit");
        };
        assert!(written > 2, "{written}");
        let told = "the store cannot write: file too large";
        assert_eq!(error.to_string(), told);
        assert_eq!(store.writable().unwrap_err().to_string(), told);
        store.recoverable().unwrap();
        // It stays so, in the same words, and what is there is read meanwhile.
        tokio::time::sleep(Duration::from_millis(2500)).await;
        let error = store.txn(vec![put(written)], vec![]).await.unwrap_err();
        assert_eq!(error.to_string(), told);
        assert!(store.writable().is_err());
        assert_eq!(count(&store).await, written);

        limit(None);
        let begun = Instant::now();
        while store.writable().is_err() {
            assert!(begun.elapsed().as_secs() < 20, "it does not recover");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // The failed one may have taken place; nothing else has changed.
        let now = count(&store).await;
        assert!(now == written || now == written + 1, "{now} of {written}");
        for n in 100..110 {
            store.txn(vec![put(n)], vec![]).await.unwrap();
        }
        let revision = store.revision().await.unwrap();
        drop(store);
        let store = Embedded::open(&folder, Options::default()).unwrap();
        assert_eq!(store.revision().await.unwrap(), revision);
        assert_eq!(count(&store).await, now + 10);
    });
    println!("recovered");
}

#[test]
fn a_full_disk_is_told_and_is_over_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    // The signal of the limit would end the process, where a full disk is but an error.
    let output = Command::new("sh")
        .args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "full::limited_process", "--nocapture"])
        .env(FOLDER, folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("recovered"),
        "{said}{error}"
    );
}
