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

/// A closed store of 20 transactions. Returns how far it was known to have come in the middle.
async fn written(dir: &Path) -> Vec<u8> {
    let mut marks = Vec::new();
    // The second opening cuts off what the first allocated of the journal in advance.
    for half in [0..10, 10..20] {
        let store = Embedded::open(dir, Options::default()).unwrap();
        for n in half {
            store.txn(vec![put(n)], vec![]).await.unwrap();
        }
        drop(store);
        marks.push(fs::read(dir.join("DURABLE")).unwrap());
    }
    marks.remove(0)
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

const QUIET: &str = "JOINERY_STORE_QUIET_TEST_FOLDER";

/// The child: checks a store with each byte of some that was changed. Without its variable it does nothing.
#[test]
fn checking_process() {
    let Some(dir) = std::env::var_os(QUIET).map(PathBuf::from) else {
        return;
    };
    let path = journal(&dir);
    let whole = fs::read(&path).unwrap();
    let begin = position(&whole, "value of 12");
    for at in begin..position(&whole, "value of 13") {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        fs::write(&path, bytes).unwrap();
        if let Err(error) = joinery_store::check(&dir) {
            println!("{error}");
        }
    }
}

/// The engine below panics at some bytes. That is damage, told in one message.
#[tokio::test]
async fn a_panic_of_the_engine_is_not_printed() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path()).await;
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "damage::checking_process", "--nocapture"])
        .env(QUIET, dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("failed with a panic"), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
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
    let mark = written(dir.path()).await;
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
        // The process had no time to say how far it came.
        fs::write(dir.path().join("DURABLE"), &mark).unwrap();
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

/// A journal, and what is done to it.
type Harm = fn(&Path);

fn cut(path: &Path, percent: usize) {
    let bytes = fs::read(path).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    fs::write(path, &bytes[..end * percent / 100]).unwrap();
}

const HARMS: [(&str, Harm); 6] = [
    ("removed", |path| fs::remove_file(path).unwrap()),
    ("emptied", |path| fs::write(path, []).unwrap()),
    ("zeroed", |path| {
        let length = fs::metadata(path).unwrap().len();
        fs::write(path, vec![0; usize::try_from(length).unwrap()]).unwrap();
    }),
    ("cut at 30 %", |path| cut(path, 30)),
    ("cut at 60 %", |path| cut(path, 60)),
    ("cut at 90 %", |path| cut(path, 90)),
];

/// Refused by a check, by an opening and by the next one.
fn assert_refused(dir: &Path, what: &str) {
    for found in [
        joinery_store::check(dir).unwrap_err().to_string(),
        refusal(dir),
        refusal(dir),
        joinery_store::check(dir).unwrap_err().to_string(),
    ] {
        assert!(found.contains("is damaged"), "{what}: {found}");
    }
}

#[tokio::test]
async fn a_lost_emptied_or_cut_journal_of_a_closed_store_is_no_smaller_store() {
    for (what, harm) in HARMS {
        let dir = tempfile::tempdir().unwrap();
        written(dir.path()).await;
        harm(&journal(dir.path()));
        let message = joinery_store::check(dir.path()).unwrap_err().to_string();
        assert!(
            message.contains("but 21 was durable") && message.contains("restore a backup"),
            "{what}: {message}"
        );
        assert_refused(dir.path(), what);
    }
}

#[tokio::test]
async fn a_cut_journal_of_a_restored_store_is_no_older_store() {
    let source = tempfile::tempdir().unwrap();
    written(source.path()).await;
    let mut backup = Vec::new();
    joinery_store::read_backup(source.path(), &mut backup)
        .unwrap()
        .unwrap();
    for (what, harm) in HARMS {
        let dir = tempfile::tempdir().unwrap();
        let restored = dir.path().join("store");
        joinery_store::restore(&backup[..], &restored).unwrap();
        harm(&journal(&restored));
        assert_refused(&restored, what);
    }
}

/// How far a store has come is told while it runs, too: a process that is killed does not close it.
#[tokio::test]
async fn a_running_store_says_how_far_it_has_come() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    for n in 0..5 {
        store.txn(vec![put(n)], vec![]).await.unwrap();
    }
    let mark = dir.path().join("DURABLE");
    let begun = std::time::Instant::now();
    while !fs::read_to_string(&mark).unwrap().starts_with("6\n5\n") {
        assert!(begun.elapsed().as_secs() < 10, "it is not told");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// Keys that are lost without a gap in the revisions: of a journal that lies before the one that goes on.
#[tokio::test]
async fn fewer_keys_than_were_durable_are_found() {
    let (whole, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    written(whole.path()).await;
    let identity = |dir: &Path| fs::read(dir.join("FORMAT")).unwrap();
    // The same store, as far as it knows, with the same revision and a key less.
    drop(open(other.path()).unwrap());
    fs::write(other.path().join("FORMAT"), identity(whole.path())).unwrap();
    fs::remove_file(other.path().join("DURABLE")).unwrap();
    fs::remove_dir_all(other.path().join("db")).unwrap();
    let creating = String::from_utf8(identity(whole.path()))
        .unwrap()
        .replace("ready", "creating");
    fs::write(other.path().join("FORMAT"), creating).unwrap();
    let store = open(other.path()).unwrap();
    for n in (0..19).chain([0]) {
        store.txn(vec![put(n)], vec![]).await.unwrap();
    }
    drop(store);
    fs::copy(whole.path().join("DURABLE"), other.path().join("DURABLE")).unwrap();
    let message = refusal(other.path());
    assert!(
        message.contains("holds 19 keys at revision 21 where it should hold 20"),
        "{message}"
    );
}

#[tokio::test]
async fn a_store_that_does_not_know_how_far_it_came_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let older = written(dir.path()).await;
    let mark = dir.path().join("DURABLE");
    let text = fs::read_to_string(&mark).unwrap();
    for changed in ["", "21\n", &text.replacen("21", "11", 1)] {
        fs::write(&mark, changed).unwrap();
        let message = refusal(dir.path());
        assert!(message.contains("DURABLE file is not whole"), "{message}");
    }
    fs::remove_file(&mark).unwrap();
    let message = refusal(dir.path());
    assert!(message.contains("DURABLE file is missing"), "{message}");
    // It is a lower bound.
    fs::write(&mark, older).unwrap();
    assert_eq!(open(dir.path()).unwrap().revision().await.unwrap(), 21);
}

/// Whichever file of the engine is lost or emptied, the message says what to do about it.
#[tokio::test]
async fn a_lost_file_of_the_engine_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path()).await;
    let mut files = Vec::new();
    let mut folders = vec![dir.path().join("db")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    assert!(files.len() >= 4, "{files:?}");
    let mut refused = 0;
    for path in files {
        let bytes = fs::read(&path).unwrap();
        for emptied in [false, true] {
            if emptied {
                fs::write(&path, []).unwrap();
            } else {
                fs::remove_file(&path).unwrap();
            }
            match joinery_store::check(dir.path()) {
                Ok(report) => assert_eq!(report.revision, 21, "{}", path.display()),
                Err(error) => {
                    let message = error.to_string();
                    let path = path.display();
                    assert!(message.contains("is damaged"), "{path}: {message}");
                    refused += 1;
                }
            }
            fs::write(&path, &bytes).unwrap();
        }
    }
    assert!(refused >= 4, "{refused}");
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
