//! Watches.

use super::*;

/// What came before the watch and what comes after, each once, in order.
pub async fn a_watch_replays_from_its_revision_and_follows(store: impl Store) {
    let after = commit(&store, vec![put(&key("before"), "1")]).await;
    commit(&store, vec![put(&key("a"), "1")]).await;
    commit(&store, vec![put(&key("b"), "1"), put(&key("c"), "1")]).await;
    let mut watch = store.watch(namespace("default"), after).await.unwrap();
    commit(&store, vec![delete(&key("a"))]).await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        let change = next_change(&mut watch).await.unwrap();
        seen.push((change.revision - after, change.key.name().to_owned()));
    }
    let last = commit(&store, vec![put(&key("d"), "1")]).await;
    seen.extend(
        changes_until(&mut watch, last)
            .await
            .unwrap()
            .iter()
            .map(|change| (change.revision - after, change.key.name().to_owned())),
    );
    let expected = [(1, "a"), (2, "b"), (2, "c"), (3, "a"), (4, "d")];
    assert_eq!(
        seen,
        expected.map(|(revision, name)| (revision, name.to_owned()))
    );
}

/// Created has no old, deleted no new, and each carries its own revision.
pub async fn a_watch_yields_old_and_new(store: impl Store) {
    let a = key("a");
    let created = commit(&store, vec![put(&a, "1")]).await;
    let replaced = commit(&store, vec![put(&a, "2")]).await;
    let deleted = commit(&store, vec![delete(&a)]).await;
    let mut watch = store
        .watch(KeyRange::key(&a), FIRST_REVISION)
        .await
        .unwrap();
    let seen: Vec<_> = changes_until(&mut watch, deleted)
        .await
        .unwrap()
        .into_iter()
        .map(|change| {
            let versioned = |v: Option<crate::Versioned>| v.map(|v| (text(&v.value), v.revision));
            (
                change.revision,
                versioned(change.old),
                versioned(change.new),
            )
        })
        .collect();
    let (one, two) = (Some(("1".into(), created)), Some(("2".into(), replaced)));
    assert_eq!(
        seen,
        [
            (created, None, one.clone()),
            (replaced, one, two.clone()),
            (deleted, two, None),
        ]
    );
}

/// Of a transaction across ranges only the part inside.
pub async fn a_watch_sees_its_range_only(store: impl Store) {
    let mut watch = store.watch(namespace("a"), FIRST_REVISION).await.unwrap();
    commit(&store, vec![put(&in_namespace("a-b", "x"), "1")]).await;
    let last = commit(
        &store,
        ["", "a", "a-b", "b"]
            .map(|ns| put(&in_namespace(ns, "y"), "1"))
            .into(),
    )
    .await;
    let seen = changes_until(&mut watch, last).await.unwrap();
    let keys: Vec<&Key> = seen.iter().map(|change| &change.key).collect();
    assert_eq!(keys, [&in_namespace("a", "y")]);
}

/// Who waits for a revision in one range learns that it was reached in another.
pub async fn a_watch_tells_progress_of_changes_outside_its_range(store: impl Store) {
    let mut watch = store.watch(namespace("a"), FIRST_REVISION).await.unwrap();
    assert!(
        changes_until(&mut watch, FIRST_REVISION)
            .await
            .unwrap()
            .is_empty()
    );
    let elsewhere = commit(&store, vec![put(&in_namespace("b", "x"), "1")]).await;
    assert!(
        changes_until(&mut watch, elsewhere)
            .await
            .unwrap()
            .is_empty()
    );
}

/// Below the floor and in the future; after the floor itself is right.
pub async fn a_watch_from_an_unreadable_revision_is_refused(store: impl Store) {
    commit(&store, vec![put(&key("a"), "1")]).await;
    let floor = commit(&store, vec![put(&key("a"), "2")]).await;
    let newest = commit(&store, vec![put(&key("a"), "3")]).await;
    store.compact(floor).await.unwrap();
    let old = store.watch(KeyRange::all(), floor - 1).await.err();
    assert!(matches!(old, Some(StoreError::Compacted { .. })), "{old:?}");
    let future = store.watch(KeyRange::all(), newest + 1).await.err();
    assert!(
        matches!(future, Some(StoreError::Future { .. })),
        "{future:?}"
    );
    let mut watch = store.watch(KeyRange::all(), floor).await.unwrap();
    assert_eq!(next_change(&mut watch).await.unwrap().revision, newest);
}

/// A reader that slept either gets every change or is told that they are gone.
pub async fn a_watch_overtaken_by_compaction_misses_nothing_in_silence(store: impl Store) {
    let mut watch = store.watch(KeyRange::all(), FIRST_REVISION).await.unwrap();
    let mut newest = FIRST_REVISION;
    for value in 0..10 {
        newest = commit(&store, vec![put(&key("a"), &value.to_string())]).await;
    }
    store.compact(newest).await.unwrap();
    match changes_until(&mut watch, newest).await {
        Ok(changes) => assert_eq!(changes.len(), 10),
        Err(StoreError::Compacted { floor, .. }) => {
            assert_eq!(floor, newest);
            assert!(watch.next().await.is_none(), "an error is the last item");
        }
        Err(other) => panic!("{other}"),
    }
}

/// 8 writers and 4 watches: each watch sees what the commits said, in order of revision.
pub async fn watches_beside_racing_writers_see_every_change_in_order(store: impl Store) {
    const WRITERS: usize = 8;
    const WRITES: usize = 50;
    let store = Arc::new(store);
    let end = FIRST_REVISION + (WRITERS * WRITES) as u64;
    let mut watches = Vec::new();
    for _ in 0..4 {
        let mut watch = store.watch(KeyRange::all(), FIRST_REVISION).await.unwrap();
        watches.push(tokio::spawn(async move {
            changes_until(&mut watch, end).await.unwrap()
        }));
    }
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut changes = Vec::new();
                for n in 0..WRITES {
                    let name = format!("n{}", (writer + n) % 5);
                    let ops = vec![
                        put(&in_namespace("shared", &name), &format!("{writer}.{n}")),
                        put(&in_namespace("own", &format!("w{writer}")), &n.to_string()),
                    ];
                    changes.extend(store.txn(ops, vec![]).await.unwrap().changes.to_vec());
                }
                changes
            })
        })
        .collect();
    let mut written = Vec::new();
    for writer in writers {
        written.extend(writer.await.unwrap());
    }
    written.sort_by(|a, b| (a.revision, &a.key).cmp(&(b.revision, &b.key)));
    for watch in watches {
        assert_eq!(watch.await.unwrap(), written);
    }
}

/// What was committed before the close is still yielded; then the stream ends.
pub async fn a_closed_store_ends_its_watches(store: impl Store) {
    let mut watch = store.watch(KeyRange::all(), FIRST_REVISION).await.unwrap();
    commit(&store, vec![put(&key("a"), "1")]).await;
    drop(store);
    assert_eq!(next_change(&mut watch).await.unwrap().key, key("a"));
    let rest = async { while watch.next().await.is_some() {} };
    tokio::time::timeout(PATIENCE, rest).await.unwrap();
}
