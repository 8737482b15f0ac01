//! Random operations against a model that is too simple to be wrong: one map for each revision.

use bytes::Bytes;
use futures::StreamExt;
use joinery_store::{
    At, Change, Embedded, FIRST_REVISION, Guard, GuardFailure, Key, KeyRange, ListOptions, Op,
    Options, Query, Store, StoreError, TxnError, Versioned, WatchEvent,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

type Map = BTreeMap<Key, Versioned>;

/// One step of a run. Revisions are given as distances back from the newest; negative ones lie
/// in the future.
#[derive(Debug, Clone)]
enum Step {
    Txn(Vec<Op>, Vec<ModelGuard>),
    List {
        range: KeyRange,
        back: Option<i64>,
        limit: Option<usize>,
        start_after: Option<Key>,
    },
    Watch {
        range: KeyRange,
        back: i64,
    },
    Compact {
        back: i64,
    },
    Reopen,
}

#[derive(Debug, Clone)]
enum ModelGuard {
    /// The key as it is now.
    Fresh(Key),
    /// The key at some distance back.
    At(Key, i64),
    Absent(Key),
    Range(KeyRange, i64),
    /// Of values that begin with a byte below.
    Query(KeyRange, i64, u8),
}

fn keys() -> impl Strategy<Value = Key> {
    let resource = prop::sample::select(vec!["r", "r2"]);
    let namespace = prop::sample::select(vec!["", "a", "a-b", "b"]);
    let name = prop::sample::select(vec!["x", "x-1", "y"]);
    (resource, namespace, name).prop_map(|(r, ns, name)| Key::new("g", r, ns, name).unwrap())
}

fn ranges() -> impl Strategy<Value = KeyRange> {
    prop_oneof![
        Just(KeyRange::all()),
        prop::sample::select(vec!["r", "r2"]).prop_map(|r| KeyRange::resource("g", r).unwrap()),
        prop::sample::select(vec!["", "a", "a-b"])
            .prop_map(|ns| KeyRange::namespace("g", "r", ns).unwrap()),
        keys().prop_map(|key| KeyRange::key(&key)),
    ]
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (keys(), any::<u8>()).prop_map(|(key, byte)| Op::Put {
            key,
            value: Bytes::from(vec![byte; usize::from(byte) % 5]),
        }),
        2 => keys().prop_map(|key| Op::Delete { key }),
        1 => ranges().prop_map(|range| Op::DeleteRange { range }),
    ]
}

fn guards() -> impl Strategy<Value = ModelGuard> {
    prop_oneof![
        3 => keys().prop_map(ModelGuard::Fresh),
        1 => (keys(), 0..5_i64).prop_map(|(key, back)| ModelGuard::At(key, back)),
        1 => keys().prop_map(ModelGuard::Absent),
        2 => (ranges(), -1..8_i64).prop_map(|(range, back)| ModelGuard::Range(range, back)),
        2 => (ranges(), -1..8_i64, any::<u8>())
            .prop_map(|(range, back, below)| ModelGuard::Query(range, back, below)),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let txn = (
        prop::collection::vec(ops(), 0..4),
        prop::collection::vec(guards(), 0..3),
    );
    let list = (
        ranges(),
        prop::option::of(-1..12_i64),
        prop::option::of(0..4_usize),
        prop::option::of(keys()),
    );
    prop_oneof![
        12 => txn.prop_map(|(ops, guards)| Step::Txn(ops, guards)),
        6 => list.prop_map(|(range, back, limit, start_after)| Step::List {
            range, back, limit, start_after,
        }),
        3 => (ranges(), -1..15_i64).prop_map(|(range, back)| Step::Watch { range, back }),
        1 => (-1..10_i64).prop_map(|back| Step::Compact { back }),
        1 => Just(Step::Reopen),
    ]
}

struct Model {
    floor: u64,
    /// What was live at each revision from the first on, compacted ones included.
    revisions: Vec<Map>,
}

impl Model {
    fn newest(&self) -> u64 {
        FIRST_REVISION + self.revisions.len() as u64 - 1
    }

    fn at(&self, revision: u64) -> &Map {
        &self.revisions[usize::try_from(revision - FIRST_REVISION).unwrap()]
    }

    fn live(&self) -> &Map {
        self.at(self.newest())
    }

    fn back(&self, back: i64) -> u64 {
        u64::try_from(i64::try_from(self.newest()).unwrap() - back).unwrap_or(0)
    }

    fn readable(&self, requested: u64) -> Result<u64, String> {
        if requested < self.floor {
            Err(format!("compacted {requested} {}", self.floor))
        } else if requested > self.newest() {
            Err(format!("future {requested} {}", self.newest()))
        } else {
            Ok(requested)
        }
    }

    fn changes(&self, revision: u64) -> Vec<Change> {
        let (old, new) = (self.at(revision - 1), self.at(revision));
        let mut keys: Vec<&Key> = old.keys().chain(new.keys()).collect();
        keys.sort();
        keys.dedup();
        keys.into_iter()
            .filter(|key| old.get::<Key>(key) != new.get::<Key>(key))
            .map(|key| Change {
                revision,
                key: key.clone(),
                old: old.get(key).cloned(),
                new: new.get(key).cloned(),
            })
            .collect()
    }

    fn apply(&self, ops: &[Op]) -> Map {
        let revision = self.newest() + 1;
        let mut map = self.live().clone();
        for op in ops {
            match op {
                Op::Put { key, value } => {
                    let value = value.clone();
                    map.insert(key.clone(), Versioned { value, revision });
                }
                Op::Delete { key } => {
                    map.remove(key);
                }
                Op::DeleteRange { range } => map.retain(|key, _| !range.contains(key)),
            }
        }
        map
    }

    /// The guard for the store, and why it must fail, if it must.
    fn guard(&self, guard: &ModelGuard) -> (Guard, Option<String>) {
        let current = |key: &Key| self.live().get(key).map(|v| v.revision);
        let (key, revision) = match guard {
            ModelGuard::Fresh(key) => (key, current(key)),
            ModelGuard::At(key, back) => (key, Some(self.back(*back))),
            ModelGuard::Absent(key) => (key, None),
            ModelGuard::Range(range, back) => {
                let revision = self.back(*back);
                let failure = self.range_failure(range, revision, |_| true);
                let range = range.clone();
                return (Guard::RangeUnchangedSince { range, revision }, failure);
            }
            ModelGuard::Query(range, back, below) => {
                let (revision, below) = (self.back(*back), *below);
                let selects = move |stored: &Versioned| {
                    stored.value.first().is_some_and(|byte| *byte < below)
                };
                let failure = self.range_failure(range, revision, selects);
                let guard = Guard::QueryUnchangedSince {
                    range: range.clone(),
                    revision,
                    query: Query::new(selects),
                };
                return (guard, failure);
            }
        };
        let failure = (current(key) != revision).then(|| "key".to_owned());
        let key = key.clone();
        (Guard::KeyAtRevision { key, revision }, failure)
    }
}

impl Model {
    /// Why a guard on what is selected of a range must fail, if it must.
    fn range_failure(
        &self,
        range: &KeyRange,
        revision: u64,
        selects: impl Fn(&Versioned) -> bool,
    ) -> Option<String> {
        let since = match self.readable(revision) {
            Err(refused) => return Some(refused),
            Ok(since) => since,
        };
        (since + 1..=self.newest())
            .flat_map(|revision| self.changes(revision))
            .filter(|change| range.contains(&change.key))
            .any(|change| change.old.iter().chain(&change.new).any(&selects))
            .then(|| "range".to_owned())
    }
}

fn refusal(error: &StoreError) -> String {
    match error {
        StoreError::Compacted { requested, floor } => format!("compacted {requested} {floor}"),
        StoreError::Future { requested, current } => format!("future {requested} {current}"),
        other => panic!("{other}"),
    }
}

fn open(dir: &Path) -> Embedded {
    let options = Options {
        fsync: false,
        ..Options::default()
    };
    Embedded::open(dir, options).unwrap()
}

async fn run(steps: Vec<Step>) {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let mut model = Model {
        floor: FIRST_REVISION,
        revisions: vec![Map::new()],
    };
    for step in steps {
        match step {
            Step::Txn(ops, guards) => {
                let (guards, failures): (Vec<Guard>, Vec<Option<String>>) =
                    guards.iter().map(|guard| model.guard(guard)).unzip();
                let failure = failures
                    .into_iter()
                    .enumerate()
                    .find_map(|(index, failure)| failure.map(|failure| (index, failure)));
                let next = model.apply(&ops);
                let outcome = store.txn(ops, guards).await;
                match (failure, outcome) {
                    (None, Ok(committed)) => {
                        if next != *model.live() {
                            model.revisions.push(next);
                            assert_eq!(*committed.changes, model.changes(model.newest()));
                        } else {
                            assert!(committed.changes.is_empty());
                        }
                        assert_eq!(committed.revision, model.newest());
                    }
                    (Some((at, why)), Err(TxnError::GuardFailed(failed))) => match failed {
                        GuardFailure::Key {
                            index,
                            key,
                            current,
                            ..
                        } => {
                            assert_eq!((index, why.as_str()), (at, "key"));
                            assert_eq!(current.as_ref(), model.live().get(&key));
                        }
                        GuardFailure::Range {
                            index,
                            key,
                            current,
                            ..
                        } => {
                            assert_eq!((index, why.as_str()), (at, "range"));
                            assert_eq!(current.as_ref(), model.live().get(&key));
                        }
                    },
                    (Some((_, why)), Err(TxnError::Store(error))) => {
                        assert_eq!(refusal(&error), why);
                    }
                    (failure, outcome) => panic!("expected {failure:?}, got {outcome:?}"),
                }
            }
            Step::List {
                range,
                back,
                limit,
                start_after,
            } => {
                let at = back.map_or(At::Latest, |back| At::Revision(model.back(back)));
                let revision = match at {
                    At::Latest => Ok(model.newest()),
                    At::Revision(revision) => model.readable(revision),
                };
                let options = ListOptions {
                    at,
                    limit,
                    start_after: start_after.clone(),
                };
                match (revision, store.list(&range, options).await) {
                    (Ok(revision), Ok(page)) => {
                        let expected: Vec<(Key, Versioned)> = model
                            .at(revision)
                            .iter()
                            .filter(|(key, _)| range.contains(key))
                            .filter(|(key, _)| {
                                start_after.as_ref().is_none_or(|after| *key > after)
                            })
                            .map(|(key, value)| (key.clone(), value.clone()))
                            .collect();
                        assert_eq!((page.revision, page.count), (revision, expected.len()));
                        let wanted = limit.unwrap_or(usize::MAX).min(expected.len());
                        assert_eq!(page.entries, expected[..wanted]);
                    }
                    (Err(refused), Err(error)) => assert_eq!(refusal(&error), refused),
                    (expected, outcome) => panic!("expected {expected:?}, got {outcome:?}"),
                }
            }
            Step::Watch { range, back } => {
                let after = model.back(back);
                match (
                    model.readable(after),
                    store.watch(range.clone(), after).await,
                ) {
                    (Ok(after), Ok(mut watch)) => {
                        let expected: Vec<Change> = (after + 1..=model.newest())
                            .flat_map(|revision| model.changes(revision))
                            .filter(|change| range.contains(&change.key))
                            .collect();
                        let mut seen = Vec::new();
                        while let WatchEvent::Change(change) = watch.next().await.unwrap().unwrap()
                        {
                            seen.push(change);
                        }
                        assert_eq!(seen, expected);
                    }
                    (Err(refused), Err(error)) => assert_eq!(refusal(&error), refused),
                    (expected, outcome) => {
                        panic!(
                            "expected {expected:?}, got {:?}",
                            outcome.map(|_| "a watch")
                        )
                    }
                }
            }
            Step::Compact { back } => {
                let revision = model.back(back);
                match store.compact(revision).await {
                    Ok(()) => {
                        assert!(revision <= model.newest());
                        model.floor = model.floor.max(revision);
                    }
                    Err(error) => {
                        assert_eq!(Err(refusal(&error)), model.readable(revision));
                    }
                }
            }
            Step::Reopen => {
                drop(store);
                store = open(dir.path());
            }
        }
        assert_eq!(store.revision().await.unwrap(), model.newest());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_does_what_the_model_does(steps in prop::collection::vec(steps(), 1..120)) {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(run(steps));
    }
}
