//! Calls of a join, such that one bad object costs only itself.

use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;

use crate::join::JoinError;

/// Bytes that go into the guest with one call: large enough that the call's own cost vanishes, small enough that
/// others get their turn and the host's limits on a call are far.
pub(crate) const CALL_BYTES: usize = 256 * 1024;

/// Between tries while the plugin is busy.
const BUSY_WAIT: Duration = Duration::from_millis(20);

/// Whether to wait until a busy plugin answers, or give up after a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// A cache must not lose a change.
    Endless,
    /// A request has a client that can come again.
    Tries(u32),
}

/// Calls with all items; when that traps, with each half, until what is to blame stands alone.
///
/// Gives one result per item, in order: `Err` with the trap's message for those that trap alone.
///
/// # Errors
/// [`JoinError::Busy`], when patience is at an end.
pub(crate) async fn bisect<T, R, F>(
    items: Vec<T>,
    patience: Patience,
    call: impl Fn(Vec<T>) -> F,
) -> Result<Vec<Result<R, String>>, JoinError>
where
    T: Clone,
    F: Future<Output = Result<Vec<R>, JoinError>>,
{
    let mut results = Vec::with_capacity(items.len());
    let mut batches = VecDeque::from([items]);
    let mut tries = 0;
    while let Some(batch) = batches.pop_front() {
        if batch.is_empty() {
            continue;
        }
        match call(batch.clone()).await {
            Ok(answers) if answers.len() == batch.len() => {
                results.extend(answers.into_iter().map(Ok))
            }
            // A wrong count says nothing about which answer belongs to which item, so it is a failure of the call.
            outcome => {
                let error = match outcome {
                    Ok(answers) => JoinError::Trapped(format!(
                        "the plugin gave {} results for {} objects",
                        answers.len(),
                        batch.len()
                    )),
                    Err(error) => error,
                };
                match error {
                    JoinError::Busy(why) => {
                        tries += 1;
                        if matches!(patience, Patience::Tries(most) if tries >= most) {
                            return Err(JoinError::Busy(why));
                        }
                        tokio::time::sleep(BUSY_WAIT).await;
                        batches.push_front(batch);
                    }
                    JoinError::Trapped(why) if batch.len() == 1 => results.push(Err(why)),
                    JoinError::Trapped(_) => {
                        let mut first = batch;
                        let second = first.split_off(first.len() / 2);
                        batches.push_front(second);
                        batches.push_front(first);
                    }
                }
            }
        }
    }
    Ok(results)
}

/// As [`bisect`], in calls of about [`CALL_BYTES`] each.
///
/// # Errors
/// As [`bisect`].
pub(crate) async fn in_batches<R, F>(
    items: Vec<Bytes>,
    patience: Patience,
    call: impl Fn(Vec<Bytes>) -> F,
) -> Result<Vec<Result<R, String>>, JoinError>
where
    F: Future<Output = Result<Vec<R>, JoinError>>,
{
    let mut results = Vec::with_capacity(items.len());
    let mut batch = Vec::new();
    let mut weight = 0;
    for item in items {
        weight += item.len();
        batch.push(item);
        if weight >= CALL_BYTES {
            results.extend(bisect(std::mem::take(&mut batch), patience, &call).await?);
            weight = 0;
        }
    }
    results.extend(bisect(batch, patience, &call).await?);
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test]
    async fn a_bad_object_costs_only_itself() {
        let results = bisect(
            (0..20).collect(),
            Patience::Endless,
            |batch: Vec<i32>| async move {
                if batch.iter().any(|n| [3, 17].contains(n)) {
                    return Err(JoinError::Trapped("unreachable".into()));
                }
                Ok(batch)
            },
        )
        .await
        .unwrap();
        for (n, result) in results.into_iter().enumerate() {
            let expected = if [3, 17].contains(&n) {
                Err("unreachable".to_owned())
            } else {
                Ok(n as i32)
            };
            assert_eq!(result, expected);
        }
    }

    #[tokio::test]
    async fn a_wrong_number_of_answers_is_no_answer() {
        let results = bisect(vec![1], Patience::Endless, |_| async { Ok(vec![1, 2]) })
            .await
            .unwrap();
        assert_eq!(
            results,
            [Err("the plugin gave 2 results for 1 objects".to_owned())]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_plugin_is_asked_again_until_patience_ends() {
        let calls = AtomicU32::new(0);
        let busy_twice = |batch: Vec<i32>| {
            let busy = calls.fetch_add(1, Ordering::Relaxed) < 2;
            async move {
                if busy {
                    Err(JoinError::Busy("full".into()))
                } else {
                    Ok(batch)
                }
            }
        };
        assert!(
            bisect(vec![1], Patience::Tries(2), busy_twice)
                .await
                .is_err()
        );
        calls.store(0, Ordering::Relaxed);
        assert_eq!(
            bisect(vec![1], Patience::Endless, busy_twice)
                .await
                .unwrap(),
            [Ok(1)]
        );
    }
}
