//! What a client that comes back, or comes from another replica, is told.

use std::collections::HashMap;
use std::sync::Arc;

use joinery_object::{Change, EventType, Object, ResourceVersion};

/// An event, and the change whose shared frame shows it, where there is one.
pub type Replayed = (EventType, Arc<Object>, Option<Arc<Change>>);

/// The events that bring one who has seen `version` up to date with `missed`, the changes that are news to him.
///
/// Each replica takes the changes of its sources over in an order of its own. A version from this replica lies on its
/// own way, and the changes after it are told as they were. A version from elsewhere may have seen later changes of one
/// source and earlier ones of another: a change told as it was here could then take back what the client knows. So each
/// object is told once, as it is at the end, in the place of the first change that the client lacks: from the version
/// told with it (the client's own, raised by that change), what comes after it is told again, and nothing is lost.
pub(crate) fn replay(
    version: &ResourceVersion,
    missed: Vec<Arc<Change>>,
    selects: impl Fn(&Object) -> bool,
) -> Vec<Replayed> {
    if missed
        .iter()
        .all(|change| change.position().covers(version))
    {
        return missed
            .into_iter()
            .filter_map(|change| {
                let (kind, object) = change.event(&selects)?;
                Some((kind, object, Some(change)))
            })
            .collect();
    }
    let mut last: HashMap<_, Arc<Change>> = HashMap::new();
    for change in &missed {
        if let Some(key) = change.key() {
            last.insert(key.clone(), change.clone());
        }
    }
    let mut seen = version.clone();
    let mut events = Vec::new();
    for first in missed {
        let Some(latest) = first.key().and_then(|key| last.remove(key)) else {
            continue;
        };
        seen = seen.join(first.position());
        let before = first.old().filter(|old| selects(old));
        let after = latest.new_object().filter(|new| selects(new));
        let (kind, object) = match (before, after) {
            (None, None) => continue,
            (None, Some(new)) => (EventType::Added, new),
            (Some(_), Some(new)) => (EventType::Modified, new),
            (Some(old), None) => (EventType::Deleted, old),
        };
        events.push((kind, Arc::new(object.at(seen.clone())), None));
    }
    events
}
