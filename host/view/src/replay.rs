//! What a client that comes back, or comes from another replica, is told.

use std::collections::HashMap;
use std::sync::Arc;

use joinery_object::{Change, EventType, Object, ResourceVersion, Status};

/// A message of the beginning of a watch.
#[derive(Clone, Debug)]
pub enum Replayed {
    /// An event.
    Event {
        /// Its type.
        kind: EventType,
        /// The object it shows.
        object: Arc<Object>,
        /// The change whose shared frame shows it, where there is one.
        change: Option<Arc<Change>>,
    },
    /// An object that the client had can no longer be made.
    Failure(Status),
}

/// The events that bring one who has seen `version` up to date with `missed`, the changes that are news to him. After
/// `version` the sources had nothing until `quiet`.
///
/// Each replica takes the changes of its sources over in an order of its own. A version that `passed` here lies on this
/// replica's way, and the changes after it are told as they were. A version from elsewhere may have seen later changes
/// of one source and earlier ones of another: a change told as it was here could then take back what the client knows.
/// So each object is told once, as it is at the end, in the place of the first change that the client lacks. Until that
/// place lies beyond all that he has seen, he may not claim to have seen more than before: what he brought and what is
/// told here would be more together than either of them. Whether he had the object, and whether it was selected then,
/// nobody knows: what he must not keep he is told to be gone.
pub(crate) fn replay(
    version: &ResourceVersion,
    quiet: &ResourceVersion,
    passed: bool,
    missed: Vec<Arc<Change>>,
    selects: impl Fn(&Object) -> bool,
) -> Vec<Replayed> {
    if passed
        && missed
            .iter()
            .all(|change| change.position().covers(version))
    {
        return missed
            .into_iter()
            .filter_map(|change| {
                let (kind, object) = change.event_again(&selects)?;
                Some(match change.failure() {
                    Some(failure) => Replayed::Failure(failure.clone()),
                    None => Replayed::Event {
                        kind,
                        object,
                        change: Some(change),
                    },
                })
            })
            .collect();
    }
    let mut last: HashMap<_, Arc<Change>> = HashMap::new();
    for change in &missed {
        if let Some(key) = change.key() {
            last.insert(key.clone(), change.clone());
        }
    }
    let mut seen = quiet.clone();
    let mut events = Vec::new();
    for first in missed {
        let Some(latest) = first.key().and_then(|key| last.remove(key)) else {
            continue;
        };
        let mut tell = |kind, object: &Arc<Object>, at: &ResourceVersion| {
            events.push(Replayed::Event {
                kind,
                object: Arc::new(object.at(at.clone())),
                change: None,
            });
        };
        // What he knows need not be what was here before: he may know an object that came only later here.
        let before = first.old().or(latest.old());
        let after = latest.new_object().filter(|new| selects(new));
        let unchanged = seen.clone();
        if first.position().covers(version) {
            seen = seen.join(first.position());
        }
        match (before, after) {
            (None, None) => {}
            (None, Some(new)) => tell(EventType::Added, new, &seen),
            (Some(old), Some(new)) if old.uid() == new.uid() => {
                tell(EventType::Modified, new, &seen);
            }
            (Some(old), Some(new)) => {
                if !first.is_merged() && selects(old) {
                    tell(EventType::Deleted, old, &unchanged);
                }
                tell(EventType::Added, new, &seen);
            }
            // He may have had it while it was selected, and may not see what it is now.
            (Some(old), None) if !selects(old) => {
                let gone = Arc::new(old.tombstone(seen.clone()));
                tell(EventType::Deleted, &gone, &seen);
            }
            (Some(old), None) => match latest.failure() {
                Some(failure) => events.push(Replayed::Failure(failure.clone())),
                None => tell(EventType::Deleted, old, &seen),
            },
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, uid: &str) -> Arc<Object> {
        let text = format!(r#"{{"metadata":{{"name":"{name}","uid":"{uid}"}}}}"#);
        let version = ResourceVersion::of_positions(&[0, 0]);
        Arc::new(Object::parse_at(text.into(), version).unwrap())
    }

    fn change(at: [u64; 2], old: Option<Arc<Object>>, new: Option<Arc<Object>>) -> Change {
        Change::new(ResourceVersion::of_positions(&at), &at, old, new)
    }

    fn words(version: [u64; 2], passed: bool, missed: Vec<Change>) -> Vec<String> {
        let version = ResourceVersion::of_positions(&version);
        let missed = missed.into_iter().map(Arc::new).collect();
        replay(&version, &version, passed, missed, |_| true)
            .into_iter()
            .map(|replayed| match replayed {
                Replayed::Event { kind, object, .. } => format!(
                    "{} {} {:?}",
                    kind.as_str(),
                    object.key(),
                    object.resource_version()
                ),
                Replayed::Failure(status) => format!("ERROR {}", status.code),
            })
            .collect()
    }

    #[test]
    fn changes_on_this_replicas_way_are_told_as_they_were() {
        let (one, two) = (object("a", "u"), object("a", "u"));
        let missed = vec![
            change([5, 3], None, Some(one.clone())),
            change([6, 3], Some(one), Some(two)),
        ];
        assert_eq!(words([4, 3], true, missed).len(), 2);
    }

    #[test]
    fn one_from_elsewhere_is_told_each_object_once_and_claims_no_more_than_it_was_told() {
        let (a, b, c) = (object("a", "u"), object("b", "v"), object("c", "w"));
        // It has seen 4 of the first source and 6 of the second.
        let missed = vec![
            change([5, 3], None, Some(a.clone())),
            change([6, 3], None, Some(b.clone())),
            change([6, 7], Some(a), None),
            change([8, 7], Some(c.clone()), Some(c)),
        ];
        assert_eq!(
            words([4, 6], false, missed),
            ["DELETED a [4, 6]", "ADDED b [4, 6]", "MODIFIED c [8, 7]"]
        );
    }

    #[test]
    fn another_object_of_the_same_name_is_not_the_same_changed() {
        let missed = vec![change(
            [5, 3],
            Some(object("a", "u")),
            Some(object("a", "w")),
        )];
        assert_eq!(
            words([4, 6], false, missed),
            ["DELETED a [4, 6]", "ADDED a [4, 6]"]
        );
    }
}
