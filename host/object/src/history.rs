//! The bounded history that every watch reads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::watch;

use crate::change::Change;
use crate::resource_version::ResourceVersion;

/// How much a [`History`] remembers. The oldest changes go when any bound is passed.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Number of changes.
    pub changes: usize,
    /// Bytes of the objects in them.
    pub bytes: usize,
    /// Age of a change.
    pub age: Duration,
}

impl Default for Bounds {
    /// What kube-apiserver's etcd keeps by default is five minutes.
    fn default() -> Self {
        Self {
            changes: 100_000,
            bytes: 64 << 20,
            age: Duration::from_secs(300),
        }
    }
}

/// The last changes of a resource, in order. One writer appends; any number of [`Follower`]s read.
#[derive(Debug)]
pub struct History {
    bounds: Bounds,
    ring: RwLock<Ring>,
    head: watch::Sender<u64>,
}

/// The sequence number of the first change ever appended: below it there is room for what is put in front later.
const ROOM: u64 = 1 << 32;

#[derive(Debug)]
struct Ring {
    changes: VecDeque<Arc<Change>>,
    /// The sequence number of the first change that is still there.
    first: u64,
    bytes: usize,
    /// All that came after this is still there.
    floor: ResourceVersion,
    /// The version up to which all changes have been appended.
    position: ResourceVersion,
}

/// A follower that was slower than the history is long, or a version that is older than it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {asked} ({floor})")]
pub struct TooOld {
    /// What was asked for.
    pub asked: ResourceVersion,
    /// What is still there.
    pub floor: ResourceVersion,
}

impl History {
    /// An empty history: all that follows comes after `floor`.
    pub fn new(floor: ResourceVersion, bounds: Bounds) -> Self {
        Self {
            bounds,
            ring: RwLock::new(Ring {
                changes: VecDeque::new(),
                first: ROOM,
                bytes: 0,
                position: floor.clone(),
                floor,
            }),
            head: watch::channel(ROOM).0,
        }
    }

    /// Adds changes in their order; `position` is the version reached with them, also when there are none.
    pub fn append(
        &self,
        changes: impl IntoIterator<Item = Arc<Change>>,
        position: ResourceVersion,
    ) {
        let mut ring = self.ring.write();
        for change in changes {
            ring.bytes += change.weight();
            ring.changes.push_back(change);
        }
        while let Some(first) = ring.changes.front() {
            let within = ring.changes.len() <= self.bounds.changes
                && ring.bytes <= self.bounds.bytes
                && first.at().elapsed() <= self.bounds.age;
            if within || (first.stays_at(&position)) {
                break;
            }
            if let Some(first) = ring.changes.pop_front() {
                ring.bytes -= first.weight();
                ring.first += 1;
                ring.floor = ring.floor.join(&first.without(&position));
            }
        }
        ring.position = position;
        let head = ring.first + ring.changes.len() as u64;
        drop(ring);
        // Also without changes: those who wait for a version look again.
        self.head.send_replace(head);
    }

    /// Makes known that all changes after `floor` can be had again, after they were put in front.
    ///
    /// `changes` come before all that is there.
    pub fn prepend(&self, changes: Vec<Arc<Change>>, floor: ResourceVersion) {
        let mut ring = self.ring.write();
        ring.bytes += changes.iter().map(|change| change.weight()).sum::<usize>();
        // Followers count from the front: they must not meet what is older than they are.
        let count = changes.len() as u64;
        for change in changes.into_iter().rev() {
            ring.changes.push_front(change);
        }
        ring.first -= count;
        ring.floor = floor;
    }

    /// Whether this very version lies on the way that the changes took here.
    pub fn passed(&self, version: &ResourceVersion) -> bool {
        let ring = self.ring.read();
        let mut positions = ring.changes.iter().map(|change| change.position());
        ring.position == *version
            || ring.floor == *version
            || positions.any(|position| position == version)
    }

    /// Calls with the changes that are still there, the oldest first, until it returns false.
    pub fn each(&self, mut call: impl FnMut(&Arc<Change>) -> bool) {
        let ring = self.ring.read();
        for change in &ring.changes {
            if !call(change) {
                break;
            }
        }
    }

    /// Ends the history: all who follow are told that they are too old, and nobody can come back to it.
    pub fn end(&self) {
        let mut ring = self.ring.write();
        ring.first += ring.changes.len() as u64 + 1;
        ring.changes.clear();
        ring.bytes = 0;
        let head = ring.first;
        drop(ring);
        self.head.send_replace(head);
    }

    /// The version up to which all changes are known here.
    pub fn position(&self) -> ResourceVersion {
        self.ring.read().position.clone()
    }

    /// All changes after this version are still there.
    pub fn floor(&self) -> ResourceVersion {
        self.ring.read().floor.clone()
    }

    /// Follows from now on. What was appended before is not seen.
    pub fn follow(self: &Arc<Self>) -> Follower {
        let ring = self.ring.read();
        Follower {
            next: ring.first + ring.changes.len() as u64,
            wake: self.head.subscribe(),
            history: self.clone(),
        }
    }

    /// What one who has seen `version` lacks, and a follower for all that comes after it.
    ///
    /// # Errors
    /// [`TooOld`] when some of it has been forgotten.
    pub fn since(
        self: &Arc<Self>,
        version: &ResourceVersion,
    ) -> Result<(Vec<Arc<Change>>, Follower), TooOld> {
        let ring = self.ring.read();
        let swallowed = || ring.changes.iter().any(|c| c.swallows(version));
        if !version.covers(&ring.floor) || swallowed() {
            return Err(TooOld {
                asked: version.clone(),
                floor: ring.floor.clone(),
            });
        }
        let missed = ring
            .changes
            .iter()
            .filter(|change| change.is_news_at(version))
            .cloned()
            .collect();
        let follower = Follower {
            next: ring.first + ring.changes.len() as u64,
            wake: self.head.subscribe(),
            history: self.clone(),
        };
        Ok((missed, follower))
    }

    /// Waits until all changes up to `version` are known here.
    ///
    /// Returns whether that came to be within `patience`.
    pub async fn wait_for(&self, version: &ResourceVersion, patience: Duration) -> bool {
        let mut wake = self.head.subscribe();
        let reached = async {
            while !self.ring.read().position.covers(version) {
                if wake.changed().await.is_err() {
                    // The history itself holds the sender.
                    break;
                }
            }
        };
        tokio::time::timeout(patience, reached).await.is_ok()
    }
}

/// Reads a [`History`] in order, from where it began.
#[derive(Debug)]
pub struct Follower {
    history: Arc<History>,
    next: u64,
    wake: watch::Receiver<u64>,
}

impl Follower {
    /// The changes since the last call, at least one or a risen position, and the version reached with them.
    ///
    /// # Errors
    /// [`TooOld`] when this follower was so slow that changes it has not seen were forgotten.
    pub async fn next(&mut self) -> Result<(Vec<Arc<Change>>, ResourceVersion), TooOld> {
        self.ready().await;
        self.take()
    }

    /// Waits until there is something to take. A wait that is given up loses nothing that [`Follower::take`] would give.
    pub async fn ready(&mut self) {
        if self.wake.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// As [`Follower::next`], without waiting.
    ///
    /// # Errors
    /// As [`Follower::next`].
    pub fn take(&mut self) -> Result<(Vec<Arc<Change>>, ResourceVersion), TooOld> {
        let ring = self.history.ring.read();
        if self.next < ring.first {
            return Err(TooOld {
                asked: ring.position.clone(),
                floor: ring.floor.clone(),
            });
        }
        let from = (self.next - ring.first) as usize;
        let changes: Vec<_> = ring.changes.range(from..).cloned().collect();
        self.next += changes.len() as u64;
        Ok((changes, ring.position.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;

    fn object(name: &str, version: u64) -> Arc<Object> {
        let text = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#);
        Arc::new(Object::parse(text.into()).unwrap())
    }

    fn added(name: &str, version: u64) -> Arc<Change> {
        Arc::new(Change::new(
            ResourceVersion::single(version),
            &[version],
            None,
            Some(object(name, version)),
        ))
    }

    fn names(changes: &[Arc<Change>]) -> Vec<String> {
        changes
            .iter()
            .map(|c| c.key().unwrap().to_string())
            .collect()
    }

    fn history(changes: usize) -> Arc<History> {
        let bounds = Bounds {
            changes,
            ..Bounds::default()
        };
        Arc::new(History::new(ResourceVersion::single(10), bounds))
    }

    #[tokio::test]
    async fn a_follower_sees_each_change_once_and_in_order() {
        let history = history(100);
        let mut follower = history.follow();
        for version in 11..14 {
            history.append(
                [added(&format!("o{version}"), version)],
                ResourceVersion::single(version),
            );
        }
        let (changes, position) = follower.next().await.unwrap();
        assert_eq!(names(&changes), ["o11", "o12", "o13"]);
        assert_eq!(position, ResourceVersion::single(13));
        history.append([added("o14", 14)], ResourceVersion::single(14));
        assert_eq!(names(&follower.next().await.unwrap().0), ["o14"]);
    }

    #[test]
    fn what_came_after_a_version_is_told_while_it_is_remembered() {
        let history = history(2);
        for version in 11..14 {
            history.append(
                [added(&format!("o{version}"), version)],
                ResourceVersion::single(version),
            );
        }
        let (missed, _) = history.since(&ResourceVersion::single(12)).unwrap();
        assert_eq!(names(&missed), ["o13"]);
        assert!(history.since(&ResourceVersion::single(10)).is_err());
        assert!(history.since(&ResourceVersion::single(11)).is_ok());
    }

    #[test]
    fn a_follower_that_is_too_slow_is_told_so() {
        let history = history(2);
        let mut follower = history.follow();
        for version in 11..15 {
            history.append([added("o", version)], ResourceVersion::single(version));
        }
        assert!(follower.take().is_err());
    }

    #[tokio::test]
    async fn a_position_without_changes_ends_a_wait() {
        let history = history(2);
        let version = ResourceVersion::single(20);
        let wait = history.wait_for(&version, Duration::from_secs(5));
        let (reached, ()) = tokio::join!(wait, async {
            tokio::task::yield_now().await;
            history.append([], ResourceVersion::single(20));
        });
        assert!(reached);
        let patience = Duration::from_millis(5);
        assert!(
            !history
                .wait_for(&ResourceVersion::single(21), patience)
                .await
        );
    }

    #[tokio::test]
    async fn the_end_of_a_history_reaches_those_who_wait_for_more() {
        let history = history(9);
        let mut follower = history.follow();
        history.append([added("o11", 11)], ResourceVersion::single(11));
        history.end();
        assert!(follower.next().await.is_err());
    }

    #[test]
    fn who_has_not_seen_what_a_forgotten_change_shows_is_too_old() {
        let history = history(1);
        let shows = |position, cause| {
            let version = ResourceVersion::single(position);
            Arc::new(Change::new(
                version,
                &[cause],
                None,
                Some(object("o", position)),
            ))
        };
        history.append([shows(11, 15), shows(12, 15)], ResourceVersion::single(15));
        history.append([added("o16", 16)], ResourceVersion::single(16));
        assert!(history.since(&ResourceVersion::single(12)).is_err());
        assert!(history.since(&ResourceVersion::single(15)).is_ok());
    }

    #[test]
    fn an_exchange_is_told_while_a_version_cannot_say_who_has_seen_it() {
        let history = history(1);
        let at = |version| ResourceVersion::single(version);
        let exchange = |name| {
            let (old, new) = (Some(object(name, 10)), Some(object(name, 10)));
            Arc::new(Change::new(at(10), &[10], old, new).exchanged())
        };
        history.append([exchange("a"), exchange("b")], at(10));
        let names_since = |version| names(&history.since(&at(version)).unwrap().0);
        assert_eq!(names_since(10), ["a", "b"]);
        history.append([added("c", 11)], at(11));
        assert!(history.since(&at(10)).is_err());
        assert_eq!(names_since(11), Vec::<String>::new());
    }

    #[test]
    fn who_has_seen_a_part_of_what_was_missed_here_is_too_old() {
        let history = history(9);
        let hole = Change::hole(ResourceVersion::single(10), &ResourceVersion::single(20));
        history.append([Arc::new(hole)], ResourceVersion::single(20));
        let is_told = |version| history.since(&ResourceVersion::single(version)).is_ok();
        assert!(!is_told(10) && !is_told(11) && !is_told(19) && is_told(20));
    }
}
