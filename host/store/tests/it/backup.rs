//! Backups: whole or refused, online and offline, and never a step back for clients.

use bytes::Bytes;
use joinery_store::{
    BackupError, Embedded, Key, KeyRange, ListOptions, Op, OpenError, Options, RestoreError, Store,
    StoreError, check, online_backup, read_backup, restore, verify,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn key(name: &str) -> Key {
    Key::new("example.com", "things", "default", name).unwrap()
}

fn put(name: &str, value: impl Into<Bytes>) -> Op {
    Op::Put {
        key: key(name),
        value: value.into(),
    }
}

fn open(dir: &Path) -> Embedded {
    Embedded::open(dir, Options::default()).unwrap()
}

async fn contents(store: &Embedded) -> BTreeMap<String, Bytes> {
    let page = store
        .list(&KeyRange::all(), ListOptions::default())
        .await
        .unwrap();
    page.entries
        .into_iter()
        .map(|(key, entry)| (key.to_string(), entry.value))
        .collect()
}

/// A store of 30 objects in a folder; its newest revision and what it holds.
async fn written(dir: &Path) -> (u64, BTreeMap<String, Bytes>) {
    let store = open(dir);
    for n in 0..40_usize {
        // Some larger than a block.
        let size = if n == 7 { 3 << 20 } else { n * 40 };
        let op = put(&format!("n{n}"), vec![u8::try_from(n).unwrap(); size]);
        store.txn(vec![op], vec![]).await.unwrap();
    }
    let deletes = (30..40)
        .map(|n| Op::Delete {
            key: key(&format!("n{n}")),
        })
        .collect();
    let newest = store.txn(deletes, vec![]).await.unwrap().revision;
    (newest, contents(&store).await)
}

/// A small backup.
async fn small() -> Vec<u8> {
    let store = Embedded::temporary().unwrap();
    for name in ["a", "b"] {
        store.txn(vec![put(name, "value")], vec![]).await.unwrap();
    }
    let mut backup = Vec::new();
    store.backup(&mut backup).unwrap();
    backup
}

/// All files below a folder but its lock, with their bytes.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().unwrap().is_dir() {
            for (below, bytes) in files(&entry.path()) {
                found.insert(format!("{name}/{below}"), bytes);
            }
        } else if name != "LOCK" {
            found.insert(name, fs::read(entry.path()).unwrap());
        }
    }
    found
}

#[tokio::test]
async fn what_was_backed_up_is_restored_above_all_that_clients_can_have_seen() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let (newest, held) = written(&from).await;
    let mut backup = Vec::new();
    let taken = read_backup(&from, &mut backup).unwrap().unwrap();
    assert_eq!((taken.revision, taken.entries), (newest, 30));
    assert_eq!(verify(&backup[..]).unwrap(), taken);

    let restored = restore(&backup[..], &to).unwrap();
    assert_eq!(restored.backup, taken);
    assert!(restored.revision > newest + 1_000_000);
    let store = open(&to);
    assert_eq!(store.revision().await.unwrap(), restored.revision);
    assert_eq!(contents(&store).await, held);
    let page = store
        .list(&KeyRange::all(), ListOptions::default())
        .await
        .unwrap();
    assert!(
        page.entries
            .iter()
            .all(|(_, entry)| entry.revision > newest)
    );
    // Whoever watched the store that was, at whatever revision, is told to list.
    for seen in [newest, newest + 1, restored.revision - 1] {
        let watch = store.watch(KeyRange::all(), seen).await;
        assert!(matches!(watch.err(), Some(StoreError::Compacted { .. })));
    }
    assert!(
        store
            .watch(KeyRange::all(), restored.revision)
            .await
            .is_ok()
    );
    let next = store.txn(vec![put("new", "x")], vec![]).await.unwrap();
    assert_eq!(next.revision, restored.revision + 1);
    drop(store);
    assert_eq!(
        check(&to).unwrap().resources[&("example.com".to_owned(), "things".to_owned())],
        31
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_store_gives_a_backup_of_one_moment() {
    let dir = tempfile::tempdir().unwrap();
    // Longer than the address of a socket may be.
    let folder = dir.path().join("long".repeat(40));
    let store = Arc::new(open(&folder));
    let server = store.serve_backups().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let writer = {
        let (store, over) = (store.clone(), over.clone());
        tokio::spawn(async move {
            let mut n = 0_u64;
            while !over.load(Ordering::Relaxed) {
                let value = vec![u8::try_from(n % 251).unwrap(); 200_000];
                let ops = ["a", "m", "z"].map(|name| put(name, value.clone()));
                store.txn(ops.to_vec(), vec![]).await.unwrap();
                n += 1;
            }
        })
    };
    while store.get(&key("a")).await.unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    for _ in 0..5 {
        let mut backup = Vec::new();
        let (from, backup) = (folder.clone(), {
            let from = folder.clone();
            tokio::task::spawn_blocking(move || {
                online_backup(from, &mut backup).unwrap();
                backup
            })
            .await
            .unwrap()
        });
        assert!(matches!(
            read_backup(&from, &mut Vec::new()),
            Err(OpenError::InUse { .. })
        ));
        let to = dir.path().join("to");
        restore(&backup[..], &to).unwrap();
        let restored = contents(&open(&to)).await;
        let values: Vec<&Bytes> = restored.values().collect();
        assert_eq!(values.len(), 3);
        assert!(values.iter().all(|value| *value == values[0]));
        fs::remove_dir_all(&to).unwrap();
    }
    over.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    drop(server);
    let refused = online_backup(&folder, &mut Vec::new()).unwrap_err();
    assert!(refused.to_string().contains("gives no backup"), "{refused}");
}

#[tokio::test]
async fn no_byte_of_a_backup_can_be_changed_cut_or_added() {
    let whole = small().await;
    assert_eq!(verify(&whole[..]).unwrap().entries, 2);
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("to");
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        assert!(verify(&bytes[..]).is_err(), "byte {at} is of no matter");
        assert!(verify(&whole[..at]).is_err(), "cut at {at}");
        if at % 9 == 0 {
            assert!(restore(&bytes[..], &to).is_err());
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        }
    }
    let longer = [&whole[..], b"x"].concat();
    let refused = verify(&longer[..]).unwrap_err().to_string();
    assert!(refused.contains("something follows its end"), "{refused}");
}

#[tokio::test]
async fn other_files_and_other_formats_are_refused_by_name() {
    let whole = small().await;
    let refused = verify(&b"a letter"[..]).unwrap_err().to_string();
    assert!(
        refused.contains("no backup of a Joinery store"),
        "{refused}"
    );
    let newer = [b"joinery-backup 2", &whole[16..]].concat();
    match verify(&newer[..]).unwrap_err() {
        BackupError::Format { found, supported } => {
            assert_eq!((found.as_str(), supported), ("2", 1));
        }
        other => panic!("{other}"),
    }
    let cut = &whole[..whole.len() - 40];
    match verify(cut).unwrap_err() {
        BackupError::Damaged { at, detail } => {
            assert!(at > 0 && detail.contains("too early"), "{at} {detail}");
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_folder_that_is_not_empty_is_not_restored_into() {
    let dir = tempfile::tempdir().unwrap();
    let backup = small().await;
    let (newest, _) = written(dir.path()).await;
    match restore(&backup[..], dir.path()).unwrap_err() {
        RestoreError::NotEmpty { .. } => {}
        other => panic!("{other}"),
    }
    assert_eq!(open(dir.path()).revision().await.unwrap(), newest);
    // An empty one is fine, and so is what an interrupted restore left beside it.
    let empty = tempfile::tempdir().unwrap();
    let to = empty.path().join("store");
    fs::create_dir(&to).unwrap();
    written(&empty.path().join("store.restoring")).await;
    restore(&backup[..], &to).unwrap();
    assert_eq!(contents(&open(&to)).await.len(), 2);
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_check_says_what_is_there_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (newest, _) = written(dir.path()).await;
    let before = files(dir.path());
    let report = check(dir.path()).unwrap();
    assert_eq!(
        (report.format, report.revision, report.floor),
        (1, newest, 1)
    );
    assert_eq!(report.resources.values().sum::<u64>(), 30);
    assert_eq!(files(dir.path()), before);

    let store = open(dir.path());
    let refused = check(dir.path()).unwrap_err();
    assert!(matches!(refused, OpenError::InUse { .. }), "{refused}");
    drop(store);

    let refused = |dir: &Path| check(dir).unwrap_err().to_string();
    let missing = dir.path().join("missing");
    let said = refused(&missing);
    assert!(said.contains("there is no such folder"), "{said}");
    assert!(!missing.exists());
    let empty = tempfile::tempdir().unwrap();
    let said = refused(empty.path());
    assert!(said.contains("the folder is empty"), "{said}");
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0);
    fs::write(empty.path().join("letter.txt"), "dear").unwrap();
    assert!(refused(empty.path()).contains("letter.txt"));
}

#[tokio::test]
async fn a_check_of_a_damaged_store_leaves_the_damage_to_be_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path()).await;
    // Cuts off what was allocated of the journal in advance.
    drop(open(dir.path()));
    let journal = fs::read_dir(dir.path().join("db"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "jnl"))
        .unwrap();
    let whole = fs::read(&journal).unwrap();
    let mut refused = 0;
    for at in (0..3000).step_by(23) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        fs::write(&journal, &bytes).unwrap();
        let before = files(dir.path());
        if let Err(error) = check(dir.path()) {
            let said = error.to_string();
            assert!(
                said.contains("damaged") && said.contains("restore a backup"),
                "{said}"
            );
            refused += 1;
        }
        assert_eq!(files(dir.path()), before, "byte {at}");
    }
    assert!(refused > 100, "{refused}");
}
