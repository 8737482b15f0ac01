//! History is cut back by count, bytes and age, in memory and on disk, and never what is live.

use bytes::Bytes;
use joinery_store::{Embedded, Key, KeyRange, ListOptions, Op, Options, Store, StoreError};
use std::path::Path;
use std::time::Duration;

async fn put(store: &Embedded, name: &str, size: usize) -> u64 {
    let op = Op::Put {
        key: Key::new("", "things", "", name).unwrap(),
        value: Bytes::from(vec![7; size]),
    };
    store.txn(vec![op], vec![]).await.unwrap().revision
}

async fn floor(store: &Embedded) -> u64 {
    match store.watch(KeyRange::all(), 0).await {
        Err(StoreError::Compacted { floor, .. }) => floor,
        _ => panic!("revision 0 can be read"),
    }
}

async fn count(store: &Embedded) -> usize {
    let page = store.list(&KeyRange::all(), ListOptions::default()).await;
    page.unwrap().count
}

fn open(dir: &Path, options: &Options) -> Embedded {
    Embedded::open(dir, options.clone()).unwrap()
}

#[tokio::test]
async fn history_is_bounded_by_count() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        fsync: false,
        history_count: 50,
        ..Options::default()
    };
    let store = open(dir.path(), &options);
    let mut newest = 0;
    for n in 0..400 {
        newest = put(&store, &format!("n{}", n % 130), 10).await;
        let held = newest - floor(&store).await;
        assert!(held <= 57, "{held} revisions are held");
    }
    let before = floor(&store).await;
    assert!(newest - before >= 50);
    drop(store);
    let store = open(dir.path(), &options);
    assert_eq!(floor(&store).await, before);
    assert_eq!(store.revision().await.unwrap(), newest);
    assert_eq!(count(&store).await, 130);
}

#[tokio::test]
async fn history_is_bounded_by_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        fsync: false,
        history_bytes: 100_000,
        ..Options::default()
    };
    let store = open(dir.path(), &options);
    for n in 0..100 {
        let newest = put(&store, &format!("n{n}"), 10_000).await;
        let held = newest - floor(&store).await;
        assert!(held <= 12, "{held} revisions of 10,000 bytes are held");
    }
    assert_eq!(count(&store).await, 100);
}

#[tokio::test]
async fn history_grows_too_old_while_nothing_is_written_and_across_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        fsync: false,
        history_age: Duration::from_millis(300),
        ..Options::default()
    };
    let store = open(dir.path(), &options);
    let newest = put(&store, "a", 10).await;
    drop(store);
    let store = open(dir.path(), &options);
    let compacted = async {
        while floor(&store).await < newest {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), compacted)
        .await
        .unwrap();
    assert_eq!(count(&store).await, 1);
}

#[tokio::test]
async fn compacted_versions_leave_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        fsync: false,
        history_count: 10,
        ..Options::default()
    };
    let store = open(dir.path(), &options);
    let mut random = 1_u64;
    for _ in 0..2000 {
        // 200 MB that do not compress.
        let value: Vec<u8> = std::iter::repeat_with(|| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random.to_le_bytes()
        })
        .take(12_500)
        .flatten()
        .collect();
        let key = Key::new("", "things", "", "a").unwrap();
        let value = Bytes::from(value);
        store
            .txn(vec![Op::Put { key, value }], vec![])
            .await
            .unwrap();
    }
    // The engine below does its part in the background. Its journals are the most of what is left.
    let bound = 150 << 20;
    let reclaimed = async {
        while folder_size(dir.path()) >= bound {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let outcome = tokio::time::timeout(Duration::from_secs(60), reclaimed).await;
    assert!(
        outcome.is_ok(),
        "{} bytes are left",
        folder_size(dir.path())
    );
}

/// The size of all files; those that go away meanwhile count as nothing.
fn folder_size(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => folder_size(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}
