//! Lists at a revision, pages and compaction.

use super::*;

/// Namespace `a` comes before `a-b`, whole, as it would for tuples.
pub async fn lists_are_in_the_order_of_namespace_and_name(store: impl Store) {
    let mut expected = Vec::new();
    for namespace in ["", "a", "a-b", "a.b", "ab"] {
        for name in ["a", "a-b", "a.b", "a:b", "ab", "é"] {
            expected.push(in_namespace(namespace, name));
        }
    }
    for key in expected.iter().rev() {
        commit(&store, vec![put(key, "1")]).await;
    }
    let range = KeyRange::resource("example.com", "things").unwrap();
    let page = list(&store, &range, At::Latest).await;
    let keys: Vec<Key> = page.entries.into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, expected);
}

/// All pages at the first one's revision together are what was there then.
pub async fn pages_show_one_revision_while_writes_go_on(store: impl Store) {
    let range = namespace("default");
    let original: Vec<String> = (0..25).map(|n| format!("n{n:02}")).collect();
    commit(
        &store,
        original.iter().map(|name| put(&key(name), "1")).collect(),
    )
    .await;
    let mut options = ListOptions {
        limit: Some(10),
        ..ListOptions::default()
    };
    let mut seen = Vec::new();
    let mut counts = Vec::new();
    loop {
        let page = store.list(&range, options.clone()).await.unwrap();
        seen.extend(names(&page));
        counts.push((page.count, page.remaining()));
        if !page.more() {
            break;
        }
        options.at = At::Revision(page.revision);
        options.start_after = page.entries.last().map(|(key, _)| key.clone());
        let n = seen.len();
        commit(
            &store,
            vec![
                delete(&key(&original[n])),
                put(&key(&original[n + 1]), "2"),
                put(&key(&format!("n{n}-new")), "1"),
            ],
        )
        .await;
    }
    assert_eq!(seen, original);
    assert_eq!(counts, [(25, 15), (15, 5), (5, 0)]);
}

/// Every revision since the first can be listed, also when a newer one was listed before.
pub async fn a_list_at_an_older_revision_shows_what_was(store: impl Store) {
    let range = namespace("default");
    let mut expected = vec![(FIRST_REVISION, vec![])];
    let mut live: Vec<(String, String)> = Vec::new();
    for step in 0..40_usize {
        let name = format!("n{}", step % 7);
        live.retain(|(existing, _)| *existing != name);
        let op = if step % 3 == 2 {
            delete(&key(&name))
        } else {
            live.push((name.clone(), step.to_string()));
            put(&key(&name), &step.to_string())
        };
        live.sort();
        expected.push((commit(&store, vec![op]).await, live.clone()));
    }
    for order in [0, 1] {
        for index in 0..expected.len() {
            let (revision, live) = match order {
                0 => &expected[index],
                _ => &expected[expected.len() - 1 - index],
            };
            let options = ListOptions {
                at: At::Revision(*revision),
                limit: (index % 2 == 0).then_some(1),
                start_after: None,
            };
            let page = store.list(&range, options.clone()).await.unwrap();
            assert_eq!(page.revision, *revision);
            let found: Vec<(String, String)> = page
                .entries
                .iter()
                .map(|(key, value)| (key.name().to_owned(), text(&value.value)))
                .collect();
            let wanted = options.limit.unwrap_or(usize::MAX).min(live.len());
            assert_eq!(found, live[..wanted], "at revision {revision}");
            assert_eq!(page.count, live.len());
        }
    }
}

/// The count is that of the range after `start_after`.
pub async fn a_list_with_limit_zero_counts_only(store: impl Store) {
    for name in ["a", "b", "c", "d"] {
        commit(&store, vec![put(&key(name), "1")]).await;
    }
    commit(&store, vec![put(&in_namespace("other", "x"), "1")]).await;
    let counts = [
        (None, 4),
        (Some("b"), 2),
        (Some("bb"), 2),
        (Some("d"), 0),
        (Some("z"), 0),
    ];
    for (after, count) in counts {
        let options = ListOptions {
            limit: Some(0),
            start_after: after.map(key),
            ..ListOptions::default()
        };
        let page = store.list(&namespace("default"), options).await.unwrap();
        assert_eq!(
            (page.entries.len(), page.count),
            (0, count),
            "after {after:?}"
        );
    }
    for (outside, count) in [(in_namespace("a", "x"), 4), (in_namespace("zz", "x"), 0)] {
        let options = ListOptions {
            start_after: Some(outside),
            ..ListOptions::default()
        };
        let page = store.list(&namespace("default"), options).await.unwrap();
        assert_eq!(page.count, count);
    }
}

/// The floor itself can be read; below it the error names it; compaction never goes back.
pub async fn a_read_below_the_floor_says_where_the_floor_is(store: impl Store) {
    let range = namespace("default");
    for value in ["1", "2", "3"] {
        commit(&store, vec![put(&key("a"), value)]).await;
    }
    let floor = store.revision().await.unwrap() - 1;
    store.compact(floor).await.unwrap();
    store.compact(floor - 1).await.unwrap();
    let page = list(&store, &range, At::Revision(floor)).await;
    assert_eq!(text(&page.entries[0].1.value), "2");
    let options = ListOptions {
        at: At::Revision(floor - 1),
        ..ListOptions::default()
    };
    match store.list(&range, options).await {
        Err(StoreError::Compacted {
            requested,
            floor: named,
        }) => {
            assert_eq!((requested, named), (floor - 1, floor));
        }
        other => panic!("{other:?}"),
    }
}

/// Lists and compaction of a revision that does not exist yet.
pub async fn a_read_of_the_future_says_where_the_store_is(store: impl Store) {
    let newest = commit(&store, vec![put(&key("a"), "1")]).await;
    let options = ListOptions {
        at: At::Revision(newest + 1),
        ..ListOptions::default()
    };
    match store.list(&KeyRange::all(), options).await {
        Err(StoreError::Future { requested, current }) => {
            assert_eq!((requested, current), (newest + 1, newest));
        }
        other => panic!("{other:?}"),
    }
    let compacted = store.compact(newest + 1).await;
    assert!(
        matches!(compacted, Err(StoreError::Future { .. })),
        "{compacted:?}"
    );
}

/// Compaction to the newest revision takes history, not objects, and writing goes on.
pub async fn compaction_keeps_what_is_live(store: impl Store) {
    let first = commit(&store, vec![put(&key("a"), "1"), put(&key("b"), "1")]).await;
    commit(&store, vec![delete(&key("b"))]).await;
    let newest = commit(&store, vec![put(&key("c"), "1")]).await;
    store.compact(newest).await.unwrap();
    assert_eq!(get(&store, &key("a")).await, Some(("1".into(), first)));
    assert_eq!(get(&store, &key("b")).await, None);
    assert_eq!(
        names(&list(&store, &KeyRange::all(), At::Latest).await),
        ["a", "c"]
    );
    assert_eq!(commit(&store, vec![put(&key("b"), "2")]).await, newest + 1);
}
