//! Not more updaters than can be kept: each client with a User-Agent of its own would add one.

use std::collections::BTreeMap;

use crate::managed::{Managed, ManagerId, Operation};

/// So many entries of updates an object has at most.
const MAX_UPDATERS: usize = 10;

/// Who owns what the oldest updaters owned together.
const ANCIENT_CHANGES: &str = "ancient-changes";

/// Merges the oldest entries of updates, by version, until they are no more than [`MAX_UPDATERS`].
pub(crate) fn updaters(managed: &mut Managed) {
    let updaters = managed.iter();
    let mut updaters: Vec<(i64, String, ManagerId)> = updaters
        .filter(|(id, _)| id.operation == Operation::Update)
        .map(|(id, owned)| (owned.time.unwrap_or(0), id.identifier(), id.clone()))
        .collect();
    let mut left = updaters.len();
    updaters.sort();
    // The first of each version waits for another to be merged with.
    let mut first_of: BTreeMap<String, ManagerId> = BTreeMap::new();
    for (_, _, id) in updaters {
        if left <= MAX_UPDATERS {
            return;
        }
        let version = id.api_version.clone();
        let Some(first) = first_of.get(&version) else {
            first_of.insert(version, id);
            continue;
        };
        let bucket = ManagerId {
            manager: ANCIENT_CHANGES.to_owned(),
            operation: Operation::Update,
            api_version: version,
            subresource: String::new(),
        };
        // The bucket itself may be among the oldest, then what waits goes into it; upstream loses it there.
        let from = if id == bucket { first.clone() } else { id };
        if !managed.contains_key(&bucket)
            && let Some(owned) = managed.remove(first)
        {
            managed.insert(bucket.clone(), owned);
        }
        let Some(merged) = managed.remove(&from) else {
            continue;
        };
        if let Some(bucket) = managed.get_mut(&bucket) {
            bucket.set.extend(&merged.set);
            bucket.time = bucket.time.max(merged.time);
        }
        left -= 1;
    }
}
