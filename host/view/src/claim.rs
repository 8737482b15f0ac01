//! Which version an event may carry.
//!
//! The changes of a batch are taken over together, and each primary they touch is told once, as it is at the end of the
//! batch. A version must not say more than its reader has been told: whoever comes back with it, perhaps to another
//! replica, gets only what lies beyond. So the primaries are told in the order of the first change that touched them,
//! and each event claims the changes up to there and no more: all that these touched has been told by then. What the
//! event shows may be further on; that harms nobody, for it is told again to one who comes back.

use std::collections::{BTreeMap, BTreeSet};

use joinery_object::{ObjectKey, ResourceVersion};

/// One source's change, in the order in which the view takes them over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) source: usize,
    /// The source's position after it.
    pub(crate) position: u64,
}

/// The primaries that a batch touches, each with the steps (by index) that do.
pub(crate) type Touched = BTreeMap<ObjectKey, BTreeSet<usize>>;

/// The versions of one primary's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// While others that the same step touched have not been told, nor this one to the end.
    pub(crate) before: ResourceVersion,
    /// Once it has been told.
    pub(crate) after: ResourceVersion,
}

/// What the events of a batch claim, in the order in which they must be told. The batch leads from `start` to `end`.
pub(crate) fn claims(
    start: &[u64],
    steps: &[Step],
    end: &[u64],
    touched: &Touched,
) -> Vec<(ObjectKey, Claim)> {
    let mut by_first: BTreeMap<usize, Vec<&ObjectKey>> = BTreeMap::new();
    for (key, steps) in touched {
        if let Some(first) = steps.first() {
            by_first.entry(*first).or_default().push(key);
        }
    }
    let reached = reached(start, steps, end);
    // A source without changes is at the end at once: there is nothing to tell.
    let mut positions = end.to_vec();
    for step in steps {
        positions[step.source] = start[step.source];
    }
    let mut claims = Vec::with_capacity(touched.len());
    for (index, step) in steps.iter().enumerate() {
        let mut before = positions.clone();
        let at = &mut positions[step.source];
        *at = reached[index].max(*at);
        // Its source has had nothing since the position before its own.
        if step.position > start[step.source] {
            before[step.source] = before[step.source].max(step.position - 1);
        }
        let Some(keys) = by_first.get(&index) else {
            continue;
        };
        let version = ResourceVersion::of_positions;
        for (place, key) in keys.iter().enumerate() {
            let last = place + 1 == keys.len();
            let claim = Claim {
                before: version(&before),
                after: version(if last { &positions } else { &before }),
            };
            claims.push(((*key).clone(), claim));
        }
    }
    claims
}

/// The position that each step's source has reached with it: one less while another step at the same position is to
/// come, and the end with the last.
fn reached(start: &[u64], steps: &[Step], end: &[u64]) -> Vec<u64> {
    let mut next = vec![None; start.len()];
    let mut reached: Vec<u64> = steps
        .iter()
        .rev()
        .map(|step| {
            let later = next[step.source].replace(step.position);
            match later {
                None => end[step.source],
                Some(later) if later == step.position => step.position.saturating_sub(1),
                Some(_) => step.position,
            }
        })
        .collect();
    reached.reverse();
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(
        start: [u64; 2],
        steps: &[(usize, u64)],
        end: [u64; 2],
        touched: &[(&str, &[usize])],
    ) -> Vec<(String, [u64; 2])> {
        let steps: Vec<_> = steps
            .iter()
            .map(|(source, position)| Step {
                source: *source,
                position: *position,
            })
            .collect();
        let touched = touched
            .iter()
            .map(|(name, steps)| (ObjectKey::new(None, name), steps.iter().copied().collect()))
            .collect();
        claims(&start, &steps, &end, &touched)
            .into_iter()
            .map(|(key, claim)| {
                (
                    key.to_string(),
                    [claim.after.position(0), claim.after.position(1)],
                )
            })
            .collect()
    }

    #[test]
    fn an_event_claims_the_changes_up_to_the_first_that_touched_it() {
        let steps = [(0, 10), (0, 12), (1, 7), (1, 9)];
        let touched: [(&str, &[usize]); 2] = [("x", &[0, 3]), ("y", &[1, 2])];
        assert_eq!(
            told([5, 3], &steps, [15, 9], &touched),
            [("x".to_owned(), [10, 3]), ("y".to_owned(), [15, 3])]
        );
    }

    #[test]
    fn what_one_change_touches_is_claimed_with_the_last_of_it() {
        let touched: [(&str, &[usize]); 2] = [("x", &[0]), ("y", &[0])];
        assert_eq!(
            told([5, 3], &[(1, 8)], [6, 8], &touched),
            [("x".to_owned(), [6, 7]), ("y".to_owned(), [6, 8])]
        );
    }

    #[test]
    fn changes_that_were_not_seen_one_by_one_are_claimed_with_the_last_of_them() {
        let steps = [(1, 3), (1, 3), (1, 3)];
        let touched: [(&str, &[usize]); 3] = [("x", &[0]), ("y", &[1]), ("z", &[2])];
        assert_eq!(
            told([5, 3], &steps, [5, 20], &touched),
            [
                ("x".to_owned(), [5, 3]),
                ("y".to_owned(), [5, 3]),
                ("z".to_owned(), [5, 20])
            ]
        );
    }
}
