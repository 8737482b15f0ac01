//! Transactions, their guards and their revisions.

use super::*;

/// An empty store has revision 1, for 0 means "any" to clients, and holds nothing.
pub async fn an_empty_store_is_at_the_first_revision(store: impl Store) {
    assert_eq!(store.revision().await.unwrap(), FIRST_REVISION);
    let page = list(&store, &KeyRange::all(), At::Latest).await;
    assert_eq!(
        (page.revision, page.count, page.more()),
        (FIRST_REVISION, 0, false)
    );
    assert_eq!(get(&store, &key("a")).await, None);
}

/// However many keys a transaction changes, it is one revision, and the keys carry it.
pub async fn each_transaction_raises_the_revision_by_one(store: impl Store) {
    assert_eq!(
        commit(&store, vec![put(&key("a"), "1")]).await,
        FIRST_REVISION + 1
    );
    let both = commit(&store, vec![put(&key("b"), "1"), put(&key("c"), "1")]).await;
    assert_eq!(both, FIRST_REVISION + 2);
    assert_eq!(
        commit(&store, vec![delete(&key("a"))]).await,
        FIRST_REVISION + 3
    );
    assert_eq!(store.revision().await.unwrap(), FIRST_REVISION + 3);
    assert_eq!(get(&store, &key("b")).await, Some(("1".into(), both)));
    assert_eq!(get(&store, &key("c")).await, Some(("1".into(), both)));
}

/// Deleting what is absent is no change; putting an equal value is one.
pub async fn a_transaction_that_changes_nothing_does_not_raise_the_revision(store: impl Store) {
    let first = commit(&store, vec![put(&key("a"), "1")]).await;
    let nothing = store
        .txn(
            vec![
                delete(&key("b")),
                put(&key("c"), "1"),
                Op::DeleteRange {
                    range: KeyRange::key(&key("c")),
                },
            ],
            vec![at(&key("a"), first)],
        )
        .await
        .unwrap();
    assert_eq!(nothing.revision, first);
    assert!(nothing.changes.is_empty());
    assert_eq!(commit(&store, vec![]).await, first);
    assert_eq!(commit(&store, vec![put(&key("a"), "1")]).await, first + 1);
}

/// Put, replace, delete, put again.
pub async fn get_returns_the_last_value_and_its_revision(store: impl Store) {
    let a = key("a");
    let first = commit(&store, vec![put(&a, "1")]).await;
    assert_eq!(get(&store, &a).await, Some(("1".into(), first)));
    let second = commit(&store, vec![put(&a, "")]).await;
    assert_eq!(get(&store, &a).await, Some((String::new(), second)));
    commit(&store, vec![delete(&a)]).await;
    assert_eq!(get(&store, &a).await, None);
    let fourth = commit(&store, vec![put(&a, "4")]).await;
    assert_eq!(get(&store, &a).await, Some(("4".into(), fourth)));
}

/// One change for each key, the outcome of all ops in their order.
pub async fn the_last_op_on_a_key_counts(store: impl Store) {
    commit(&store, vec![put(&key("a"), "0"), put(&key("b"), "0")]).await;
    let committed = store
        .txn(
            vec![
                put(&key("c"), "1"),
                put(&key("a"), "1"),
                Op::DeleteRange {
                    range: namespace("default"),
                },
                put(&key("a"), "2"),
                put(&key("d"), "1"),
                put(&key("d"), "2"),
            ],
            vec![],
        )
        .await
        .unwrap();
    let changes: Vec<_> = committed
        .changes
        .iter()
        .map(|change| {
            let old = change.old.as_ref().map(|old| text(&old.value));
            let new = change.new.as_ref().map(|new| text(&new.value));
            (change.key.name(), old, new)
        })
        .collect();
    assert_eq!(
        changes,
        [
            ("a", Some("0".into()), Some("2".into())),
            ("b", Some("0".into()), None),
            ("d", None, Some("2".into())),
        ]
    );
    let page = list(&store, &KeyRange::all(), At::Latest).await;
    assert_eq!(names(&page), ["a", "d"]);
}

/// `a` goes; `a-b`, `a.b`, `aa`, the cluster-scoped and the other resource stay.
pub async fn delete_range_spares_neighbouring_namespaces(store: impl Store) {
    let neighbours = [
        in_namespace("", "x"),
        in_namespace("a-b", "x"),
        in_namespace("a.b", "x"),
        in_namespace("aa", "x"),
        Key::new("example.com", "thingsx", "a", "x").unwrap(),
        Key::new("example.co", "things", "a", "x").unwrap(),
    ];
    let mut ops: Vec<Op> = neighbours.iter().map(|key| put(key, "1")).collect();
    ops.extend(["x", "x-1", "z"].map(|name| put(&in_namespace("a", name), "1")));
    commit(&store, ops).await;
    let committed = store
        .txn(
            vec![Op::DeleteRange {
                range: namespace("a"),
            }],
            vec![],
        )
        .await
        .unwrap();
    assert_eq!(committed.changes.len(), 3);
    assert_eq!(list(&store, &namespace("a"), At::Latest).await.count, 0);
    for neighbour in &neighbours {
        assert!(
            get(&store, neighbour).await.is_some(),
            "{neighbour} is gone"
        );
    }
}

/// Held at the revision, failed at an older one and when deleted, with what is there instead.
pub async fn a_guard_on_a_key_holds_only_at_its_revision(store: impl Store) {
    let a = key("a");
    let first = commit(&store, vec![put(&a, "1")]).await;
    let second = store
        .txn(vec![put(&a, "2")], vec![at(&a, first)])
        .await
        .unwrap()
        .revision;
    let stale = store
        .txn(vec![put(&a, "3")], vec![at(&a, second), at(&a, first)])
        .await;
    match guard_failure(stale) {
        GuardFailure::Key {
            index: 1,
            key,
            expected,
            current: Some(current),
        } => {
            assert_eq!((key, expected), (a.clone(), Some(first)));
            assert_eq!(
                (text(&current.value), current.revision),
                ("2".into(), second)
            );
        }
        other => panic!("{other:?}"),
    }
    commit(&store, vec![delete(&a)]).await;
    let gone = store.txn(vec![put(&a, "3")], vec![at(&a, second)]).await;
    assert!(matches!(
        guard_failure(gone),
        GuardFailure::Key { current: None, .. }
    ));
}

/// A create is a put that is guarded by absence.
pub async fn a_guard_on_an_absent_key_fails_once_it_exists(store: impl Store) {
    let a = key("a");
    let created = store
        .txn(vec![put(&a, "1")], vec![at(&a, None)])
        .await
        .unwrap();
    let again = store.txn(vec![put(&a, "2")], vec![at(&a, None)]).await;
    match guard_failure(again) {
        GuardFailure::Key {
            index: 0,
            expected: None,
            current: Some(current),
            ..
        } => {
            assert_eq!(current.revision, created.revision);
        }
        other => panic!("{other:?}"),
    }
    commit(&store, vec![delete(&a)]).await;
    store
        .txn(vec![put(&a, "3")], vec![at(&a, None)])
        .await
        .unwrap();
}

/// A create, a replacement and a delete inside the range each break the guard.
pub async fn a_guard_on_a_range_fails_after_any_change_inside_it(store: impl Store) {
    let (a, b) = (key("a"), key("b"));
    let range = namespace("default");
    let mut since = commit(&store, vec![put(&a, "1")]).await;
    for change in [put(&b, "1"), put(&a, "2"), delete(&a)] {
        let before = store.txn(vec![], vec![unchanged(&range, since)]).await;
        assert_eq!(before.unwrap().revision, since);
        let changed = commit(&store, vec![change]).await;
        let after = store
            .txn(vec![put(&key("z"), "1")], vec![unchanged(&range, since)])
            .await;
        match guard_failure(after) {
            GuardFailure::Range {
                index: 0,
                range: failed,
                since: named,
                revision,
                key,
                current,
            } => {
                assert_eq!((failed, named, revision), (range.clone(), since, changed));
                assert_eq!(current, store.get(&key).await.unwrap());
            }
            other => panic!("{other:?}"),
        }
        since = changed;
    }
}

/// What changes elsewhere does not break it.
pub async fn a_guard_on_a_range_ignores_changes_outside_it(store: impl Store) {
    let since = commit(&store, vec![put(&in_namespace("a", "x"), "1")]).await;
    commit(&store, vec![put(&in_namespace("a-b", "x"), "1")]).await;
    commit(&store, vec![put(&in_namespace("", "x"), "1")]).await;
    store
        .txn(
            vec![put(&in_namespace("a", "y"), "1")],
            vec![unchanged(&namespace("a"), since)],
        )
        .await
        .unwrap();
}

/// What the query selects neither before a change nor after it does not matter.
pub async fn a_guard_on_a_query_fails_after_a_change_of_what_it_selects(store: impl Store) {
    let red = Query::new(|stored| stored.value.starts_with(b"red"));
    let unchanged = |since| Guard::QueryUnchangedSince {
        range: namespace("default"),
        revision: since,
        query: red.clone(),
    };
    let since = commit(&store, vec![put(&key("a"), "red"), put(&key("b"), "blue")]).await;
    commit(
        &store,
        vec![put(&key("b"), "green"), put(&key("c"), "blue")],
    )
    .await;
    commit(&store, vec![delete(&key("c"))]).await;
    commit(&store, vec![put(&in_namespace("a", "x"), "red")]).await;
    store.txn(vec![], vec![unchanged(since)]).await.unwrap();
    // Coming into it, staying in it, leaving it by a change, and by going.
    for (name, value) in [
        ("d", Some("red")),
        ("d", Some("red again")),
        ("d", Some("blue")),
        ("a", None),
    ] {
        let since = store.revision().await.unwrap();
        let op = match value {
            Some(value) => put(&key(name), value),
            None => delete(&key(name)),
        };
        let changed = commit(&store, vec![op]).await;
        let failed = store.txn(vec![], vec![unchanged(since)]).await;
        let Err(TxnError::GuardFailed(GuardFailure::Range { revision, .. })) = failed else {
            panic!("{name} {value:?}: {failed:?}");
        };
        assert_eq!(revision, changed);
    }
}

/// What happened since a compacted or a future revision cannot be known.
pub async fn a_guard_on_a_range_at_an_unknown_revision_is_refused(store: impl Store) {
    commit(&store, vec![put(&key("a"), "1")]).await;
    let newest = commit(&store, vec![put(&key("a"), "2")]).await;
    store.compact(newest).await.unwrap();
    let range = namespace("default");
    let old = store.txn(vec![], vec![unchanged(&range, newest - 1)]).await;
    assert!(
        matches!(old, Err(TxnError::Store(StoreError::Compacted { .. }))),
        "{old:?}"
    );
    let future = store.txn(vec![], vec![unchanged(&range, newest + 1)]).await;
    assert!(
        matches!(future, Err(TxnError::Store(StoreError::Future { .. }))),
        "{future:?}"
    );
    store
        .txn(vec![], vec![unchanged(&range, newest)])
        .await
        .unwrap();
}

/// Neither keys nor revision move, whichever guard of several fails.
pub async fn a_failed_guard_changes_nothing(store: impl Store) {
    let (a, b) = (key("a"), key("b"));
    let newest = commit(&store, vec![put(&a, "1")]).await;
    let failed = store
        .txn(
            vec![put(&b, "1"), delete(&a)],
            vec![at(&a, newest), at(&b, newest)],
        )
        .await;
    assert!(matches!(
        guard_failure(failed),
        GuardFailure::Key { index: 1, .. }
    ));
    assert_eq!(store.revision().await.unwrap(), newest);
    assert_eq!(get(&store, &a).await, Some(("1".into(), newest)));
    assert_eq!(get(&store, &b).await, None);
}

/// 16 tasks increment one counter 20 times each, by read, guard, retry: the sum is right.
pub async fn racing_guarded_writes_lose_no_update(store: impl Store) {
    const TASKS: usize = 16;
    const ROUNDS: usize = 20;
    let store = Arc::new(store);
    let counter = key("counter");
    commit(&*store, vec![put(&counter, "0")]).await;
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (store, counter) = (store.clone(), counter.clone());
            tokio::spawn(async move {
                for _ in 0..ROUNDS {
                    loop {
                        let (value, revision) = get(&*store, &counter).await.unwrap();
                        let next = value.parse::<usize>().unwrap() + 1;
                        let outcome = store
                            .txn(
                                vec![put(&counter, &next.to_string())],
                                vec![at(&counter, revision)],
                            )
                            .await;
                        match outcome {
                            Ok(_) => break,
                            Err(TxnError::GuardFailed(_)) => {}
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let (value, revision) = get(&*store, &counter).await.unwrap();
    assert_eq!(value, (TASKS * ROUNDS).to_string());
    assert_eq!(revision, FIRST_REVISION + 1 + (TASKS * ROUNDS) as u64);
}

/// One deletes what nothing refers to, one creates a reference to what exists: never both.
pub async fn racing_transactions_leave_no_write_skew(store: impl Store) {
    let store = Arc::new(store);
    let target = in_namespace("", "target");
    let references = namespace("references");
    for round in 0..50 {
        let since = commit(&*store, vec![put(&target, "1")]).await;
        let reference = in_namespace("references", &format!("r{round}"));
        let deleting = {
            let (store, target, references) = (store.clone(), target.clone(), references.clone());
            tokio::spawn(async move {
                store
                    .txn(vec![delete(&target)], vec![unchanged(&references, since)])
                    .await
                    .is_ok()
            })
        };
        let referring = {
            let (store, target) = (store.clone(), target.clone());
            tokio::spawn(async move {
                store
                    .txn(vec![put(&reference, "1")], vec![at(&target, since)])
                    .await
                    .is_ok()
            })
        };
        let (deleted, referred) = (deleting.await.unwrap(), referring.await.unwrap());
        assert!(
            deleted != referred,
            "deleted: {deleted}, referred: {referred}"
        );
    }
}
