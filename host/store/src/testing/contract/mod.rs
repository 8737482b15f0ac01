//! The suite that every engine passes: one function for each property.
//!
//! Each takes a fresh, empty store. [`contract_tests!`](crate::contract_tests) makes a test of each.
#![allow(clippy::unwrap_used, reason = "a failed property is a panic")]

mod list;
mod txn;
mod watch;

pub use list::*;
pub use txn::*;
pub use watch::*;

use crate::{
    At, Change, Committed, FIRST_REVISION, Guard, GuardFailure, Key, KeyRange, ListOptions, Op,
    Page, Query, Store, StoreError, TxnError, WatchEvent, WatchStream,
};
use bytes::Bytes;
use futures::StreamExt;
use std::sync::Arc;
use std::time::Duration;

/// Makes a `#[tokio::test]` of every property of the contract. The argument is an expression that
/// yields a fresh, empty store each time it is evaluated.
#[macro_export]
macro_rules! contract_tests {
    ($fresh_store:expr) => {
        $crate::contract_tests! { @tests $fresh_store;
            an_empty_store_is_at_the_first_revision
            each_transaction_raises_the_revision_by_one
            a_transaction_that_changes_nothing_does_not_raise_the_revision
            get_returns_the_last_value_and_its_revision
            the_last_op_on_a_key_counts
            delete_range_spares_neighbouring_namespaces
            a_guard_on_a_key_holds_only_at_its_revision
            a_guard_on_an_absent_key_fails_once_it_exists
            a_guard_on_a_range_fails_after_any_change_inside_it
            a_guard_on_a_range_ignores_changes_outside_it
            a_guard_on_a_query_fails_after_a_change_of_what_it_selects
            a_guard_on_a_range_at_an_unknown_revision_is_refused
            a_failed_guard_changes_nothing
            racing_guarded_writes_lose_no_update
            racing_transactions_leave_no_write_skew
            lists_are_in_the_order_of_namespace_and_name
            pages_show_one_revision_while_writes_go_on
            a_list_at_an_older_revision_shows_what_was
            a_list_with_limit_zero_counts_only
            a_read_below_the_floor_says_where_the_floor_is
            a_read_of_the_future_says_where_the_store_is
            compaction_keeps_what_is_live
            a_watch_replays_from_its_revision_and_follows
            a_watch_yields_old_and_new
            a_watch_sees_its_range_only
            a_watch_tells_progress_of_changes_outside_its_range
            a_watch_from_an_unreadable_revision_is_refused
            a_watch_overtaken_by_compaction_misses_nothing_in_silence
            watches_beside_racing_writers_see_every_change_in_order
            a_closed_store_ends_its_watches
        }
    };
    (@tests $fresh_store:expr; $($property:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $property() {
                $crate::testing::contract::$property($fresh_store).await;
            }
        )*
    };
}

/// How long to wait for what must happen, and what counts as silence for what must not.
const PATIENCE: Duration = Duration::from_secs(20);

fn key(name: &str) -> Key {
    in_namespace("default", name)
}

fn in_namespace(namespace: &str, name: &str) -> Key {
    Key::new("example.com", "things", namespace, name).unwrap()
}

fn namespace(namespace: &str) -> KeyRange {
    KeyRange::namespace("example.com", "things", namespace).unwrap()
}

fn put(key: &Key, value: &str) -> Op {
    Op::Put {
        key: key.clone(),
        value: Bytes::copy_from_slice(value.as_bytes()),
    }
}

fn delete(key: &Key) -> Op {
    Op::Delete { key: key.clone() }
}

fn at(key: &Key, revision: impl Into<Option<u64>>) -> Guard {
    Guard::KeyAtRevision {
        key: key.clone(),
        revision: revision.into(),
    }
}

fn unchanged(range: &KeyRange, revision: u64) -> Guard {
    Guard::RangeUnchangedSince {
        range: range.clone(),
        revision,
    }
}

async fn commit(store: &impl Store, ops: Vec<Op>) -> u64 {
    store.txn(ops, vec![]).await.unwrap().revision
}

async fn get(store: &impl Store, key: &Key) -> Option<(String, u64)> {
    let found = store.get(key).await.unwrap()?;
    Some((text(&found.value), found.revision))
}

async fn list(store: &impl Store, range: &KeyRange, at: At) -> Page {
    let options = ListOptions {
        at,
        ..ListOptions::default()
    };
    store.list(range, options).await.unwrap()
}

fn text(value: &Bytes) -> String {
    String::from_utf8(value.to_vec()).unwrap()
}

fn names(page: &Page) -> Vec<String> {
    page.entries
        .iter()
        .map(|(key, _)| key.name().to_owned())
        .collect()
}

/// The next event, progress left out.
async fn next_change(watch: &mut WatchStream) -> Result<Change, StoreError> {
    loop {
        let event = tokio::time::timeout(PATIENCE, watch.next())
            .await
            .unwrap_or_else(|_| panic!("no change came"))
            .unwrap_or_else(|| panic!("the watch ended"))?;
        if let WatchEvent::Change(change) = event {
            return Ok(change);
        }
    }
}

/// The changes until progress reaches the revision.
async fn changes_until(watch: &mut WatchStream, until: u64) -> Result<Vec<Change>, StoreError> {
    let mut changes = Vec::new();
    loop {
        let event = tokio::time::timeout(PATIENCE, watch.next())
            .await
            .unwrap_or_else(|_| panic!("progress did not reach revision {until}"))
            .unwrap_or_else(|| panic!("the watch ended before revision {until}"))?;
        match event {
            WatchEvent::Change(change) => changes.push(change),
            WatchEvent::Progress { revision } if revision >= until => return Ok(changes),
            WatchEvent::Progress { .. } => {}
        }
    }
}

fn guard_failure(outcome: Result<Committed, TxnError>) -> GuardFailure {
    match outcome {
        Err(TxnError::GuardFailed(failure)) => failure,
        other => panic!("expected a failed guard, got {other:?}"),
    }
}
