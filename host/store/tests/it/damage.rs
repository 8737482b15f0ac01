//! What is not whole is refused with a message that names it, never read as something less.

use bytes::Bytes;
use joinery_store::{At, Embedded, Key, KeyRange, ListOptions, Op, OpenError, Options, Store};
use std::fs;
use std::path::{Path, PathBuf};

fn put(n: u64) -> Op {
    Op::Put {
        key: Key::new("", "things", "", &format!("n{n:03}")).unwrap(),
        value: Bytes::from(format!("value of {n}")),
    }
}

/// A closed store of 20 transactions.
async fn written(dir: &Path) {
    // The second opening cuts off what the first allocated of the journal in advance.
    for half in [0..10, 10..20] {
        let store = Embedded::open(dir, Options::default()).unwrap();
        for n in half {
            store.txn(vec![put(n)], vec![]).await.unwrap();
        }
    }
}

fn open(dir: &Path) -> Result<Embedded, OpenError> {
    Embedded::open(dir, Options::default())
}

fn refusal(dir: &Path) -> String {
    match open(dir) {
        Ok(_) => panic!("it was opened"),
        Err(error) => error.to_string(),
    }
}

fn journal(dir: &Path) -> PathBuf {
    let mut journals: Vec<PathBuf> = fs::read_dir(dir.join("db"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jnl"))
        .collect();
    assert_eq!(journals.len(), 1);
    journals.remove(0)
}

fn position(bytes: &[u8], text: &str) -> usize {
    bytes
        .windows(text.len())
        .position(|window| window == text.as_bytes())
        .unwrap()
}

#[tokio::test]
async fn a_second_opening_is_refused_and_names_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let message = refusal(dir.path());
    assert!(message.contains("in use by another process"), "{message}");
    assert!(
        message.contains(&std::process::id().to_string()),
        "{message}"
    );
    assert!(
        message.contains(&dir.path().display().to_string()),
        "{message}"
    );
    drop(store);
    open(dir.path()).unwrap();
}

#[tokio::test]
async fn a_folder_of_other_files_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("letter.txt"), "dear").unwrap();
    let message = refusal(dir.path());
    assert!(message.contains("letter.txt"), "{message}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_store_that_lost_its_marker_is_not_taken_for_an_empty_folder() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path()).await;
    let marker = fs::read(dir.path().join("FORMAT")).unwrap();
    fs::remove_file(dir.path().join("FORMAT")).unwrap();
    let message = refusal(dir.path());
    assert!(message.contains("no FORMAT file"), "{message}");
    fs::write(dir.path().join("FORMAT"), marker).unwrap();
    assert_eq!(open(dir.path()).unwrap().revision().await.unwrap(), 21);
}

#[tokio::test]
async fn another_format_is_refused_by_its_number() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path()).await;
    let marker = fs::read_to_string(dir.path().join("FORMAT")).unwrap();
    let newer = marker.replacen("joinery-store 1", "joinery-store 2", 1);
    fs::write(dir.path().join("FORMAT"), newer).unwrap();
    let message = refusal(dir.path());
    assert!(
        message.contains("has format 2") && message.contains("reads format 1"),
        "{message}"
    );
}

#[tokio::test]
async fn an_interrupted_creation_is_begun_anew() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path()).await;
    let marker = fs::read_to_string(dir.path().join("FORMAT")).unwrap();
    fs::write(
        dir.path().join("FORMAT"),
        marker.replace("ready", "creating"),
    )
    .unwrap();
    fs::remove_file(dir.path().join("db/version")).unwrap();
    let store = open(dir.path()).unwrap();
    assert_eq!(store.revision().await.unwrap(), 1);
    drop(store);
    assert_eq!(open(dir.path()).unwrap().revision().await.unwrap(), 1);
}

#[tokio::test]
async fn a_changed_byte_in_a_value_is_found() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path()).await;
    let path = journal(dir.path());
    let mut bytes = fs::read(&path).unwrap();
    let at = position(&bytes, "value of 7");
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    let message = refusal(dir.path());
    assert!(message.contains("is damaged"), "{message}");
    assert!(
        message.contains(&dir.path().display().to_string()),
        "{message}"
    );
}

/// Whichever byte is changed, of values or of what frames them, nothing is lost in silence. The
/// engine below ends its replay at some of them, without a word, and drops what follows.
#[tokio::test]
async fn a_changed_byte_in_the_middle_is_found_or_harmless() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path()).await;
    let path = journal(dir.path());
    let whole = fs::read(&path).unwrap();
    let begin = position(&whole, "value of 12");
    let end = position(&whole, "value of 13");
    let (mut refused, mut cut_short) = (0, 0);
    for at in begin..end {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        fs::write(&path, bytes).unwrap();
        match open(dir.path()) {
            Ok(store) => assert_eq!(values(&store).await, (0..20).collect::<Vec<_>>()),
            Err(error) => {
                let message = error.to_string();
                assert!(message.contains("is damaged"), "byte {at}: {message}");
                // Nor at a second try, when the engine below has cut off what it could not read.
                assert!(refusal(dir.path()).contains("is damaged"), "byte {at}");
                fs::remove_file(dir.path().join("REPLAY")).unwrap();
                refused += 1;
                cut_short += usize::from(message.contains("cannot be read past revision"));
            }
        }
    }
    assert!(refused > (end - begin) / 2, "{refused} of {}", end - begin);
    assert!(cut_short > 0, "no byte ended the replay");
}

/// The numbers of all values, which are whole.
async fn values(store: &Embedded) -> Vec<u64> {
    let page = store
        .list(&KeyRange::all(), ListOptions::default())
        .await
        .unwrap();
    page.entries
        .iter()
        .map(|(_, entry)| {
            let text = std::str::from_utf8(&entry.value).unwrap();
            text.strip_prefix("value of ").unwrap().parse().unwrap()
        })
        .collect()
}

/// What a power cut leaves: the end of the last batch is missing. All before it is there.
#[tokio::test]
async fn a_torn_end_goes_back_to_the_last_whole_transaction() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path()).await;
    let path = journal(dir.path());
    let whole = fs::read(&path).unwrap();
    let (last, end) = (
        position(&whole, "value of 19"),
        whole.iter().rposition(|byte| *byte != 0).unwrap(),
    );
    for cut in [last, last + 5, end - 3] {
        let mut torn = whole.clone();
        torn[cut..].fill(0);
        fs::write(&path, torn).unwrap();
        let store = open(dir.path()).unwrap();
        assert_eq!(store.revision().await.unwrap(), 20, "cut at {cut} of {end}");
        let page = store
            .list(&KeyRange::all(), ListOptions::default())
            .await
            .unwrap();
        assert_eq!(page.count, 19);
        // It goes on from there.
        assert_eq!(store.txn(vec![put(50)], vec![]).await.unwrap().revision, 21);
        drop(store);
        assert_eq!(open(dir.path()).unwrap().revision().await.unwrap(), 21);
        // For the next cut.
        fs::write(&path, &whole).unwrap();
    }
}

#[tokio::test]
async fn a_lost_database_is_found() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path()).await;
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    let message = refusal(dir.path());
    assert!(message.contains("db folder is missing"), "{message}");
}

#[tokio::test]
async fn everything_is_there_after_a_close() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path()).await;
    let store = open(dir.path()).unwrap();
    for n in 0..20_usize {
        let options = ListOptions {
            at: At::Revision(2 + n as u64),
            ..ListOptions::default()
        };
        let page = store.list(&KeyRange::all(), options).await.unwrap();
        assert_eq!(page.count, n + 1);
    }
}
