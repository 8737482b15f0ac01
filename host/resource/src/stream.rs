//! The messages of a watch, made from a history.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use joinery_object::{
    Change, EventType, Follower, ListOptions, Object, ResourceVersion, Scope, Status, TooOld,
};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::resource::{Watch, WatchItem};

/// Between bookmarks, as kube-apiserver's watch cache has it.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// The last bookmark comes so long before the watch ends, so that the client resumes from a young version.
const BEFORE_TIMEOUT: Duration = Duration::from_secs(2);
/// So long one who came with a version may know what other replicas have seen and this one has not. It is longer than an
/// upstream that hangs goes unnoticed.
const SETTLING: Duration = Duration::from_secs(120);

impl From<TooOld> for WatchItem {
    fn from(error: TooOld) -> Self {
        Self::Error(Status::expired(error.to_string()))
    }
}

/// The events of a change as one watcher is told them; none when it is not in the selection.
pub(crate) fn event(change: &Arc<Change>, selects: &impl Fn(&Object) -> bool) -> Option<WatchItem> {
    item(change, change.event(selects)?)
}

fn item(change: &Arc<Change>, (kind, object): (EventType, Arc<Object>)) -> Option<WatchItem> {
    if let Some(failure) = change.failure() {
        return Some(WatchItem::Error(failure.clone()));
    }
    Some(WatchItem::Event {
        kind,
        object,
        change: Some(change.clone()),
    })
}

/// Objects as the ADDED events that a watch without a version begins with.
pub(crate) fn added(objects: impl IntoIterator<Item = Arc<Object>>) -> Vec<WatchItem> {
    objects
        .into_iter()
        .map(|object| WatchItem::Event {
            kind: EventType::Added,
            object,
            change: None,
        })
        .collect()
}

/// What one who came with a version is told again while it is not known what else he knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settling {
    until: Instant,
    /// Also that there are no objects which there have never been here.
    gone: bool,
}

impl Settling {
    /// Begins now. `elsewhere` when the version is none of this replica's own.
    pub(crate) fn new(elsewhere: bool) -> Self {
        Self {
            until: Instant::now() + SETTLING,
            gone: elsewhere,
        }
    }

    /// As [`event`]: an object that he may know otherwise is told also where it is here as it was before.
    fn event(self, change: &Arc<Change>, selects: &impl Fn(&Object) -> bool) -> Option<WatchItem> {
        if change.is_hole() && Instant::now() < self.until {
            let why = "changes were not seen here that may have been told already: list again";
            return Some(WatchItem::Error(Status::expired(why)));
        }
        let told = self.gone || change.is_told_again();
        if !change.is_silent() || !told || Instant::now() >= self.until {
            return event(change, selects);
        }
        item(change, change.event_again(selects)?)
    }
}

struct State<S> {
    head: std::vec::IntoIter<WatchItem>,
    follower: Follower,
    position: ResourceVersion,
    selects: S,
    settling: Option<Settling>,
    scope: Scope,
    bookmarks: Option<Bookmarks>,
    over: bool,
}

struct Bookmarks {
    period: Interval,
    last: Option<Instant>,
}

impl Bookmarks {
    fn new(timeout: Option<u32>) -> Self {
        let mut period =
            tokio::time::interval_at(Instant::now() + BOOKMARK_PERIOD, BOOKMARK_PERIOD);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            period,
            last: timeout.map(|seconds| {
                Instant::now() + Duration::from_secs(seconds.into()).saturating_sub(BEFORE_TIMEOUT)
            }),
        }
    }

    async fn due(&mut self) {
        match self.last {
            Some(last) => {
                tokio::select! {
                    () = tokio::time::sleep_until(last) => self.last = None,
                    _ = self.period.tick() => {}
                }
            }
            None => {
                self.period.tick().await;
            }
        }
    }
}

/// Tells `head`, then all that follows in the history and is selected, with bookmarks if the options ask for them.
///
/// `position` is the version reached with `head`. A watcher that is slower than the history is long ends with 410, and
/// slows nobody.
pub fn follow<S>(
    head: Vec<WatchItem>,
    position: ResourceVersion,
    follower: Follower,
    selects: S,
    options: &ListOptions,
) -> Watch
where
    S: Fn(&Object) -> bool + Send + Sync + 'static,
{
    let scope = Scope::default();
    follow_settling(None, scope, head, position, follower, selects, options)
}

/// As [`follow`], of a view, for one who may have come with a version, and of what is in this scope.
pub(crate) fn follow_settling<S>(
    settling: Option<Settling>,
    scope: Scope,
    head: Vec<WatchItem>,
    position: ResourceVersion,
    follower: Follower,
    selects: S,
    options: &ListOptions,
) -> Watch
where
    S: Fn(&Object) -> bool + Send + Sync + 'static,
{
    let state = State {
        head: head.into_iter(),
        follower,
        position,
        selects,
        settling,
        scope,
        bookmarks: options
            .allow_watch_bookmarks
            .then(|| Bookmarks::new(options.timeout_seconds)),
        over: false,
    };
    stream::unfold(state, |mut state| async move {
        loop {
            if let Some(item) = state.head.next() {
                if matches!(item, WatchItem::Error(_)) {
                    state.over = true;
                    state.head = Vec::new().into_iter();
                }
                return Some((item, state));
            }
            if state.over {
                return None;
            }
            let bookmark = async {
                match &mut state.bookmarks {
                    Some(bookmarks) => bookmarks.due().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                next = state.follower.next() => match next {
                    Ok((changes, position)) => {
                        state.position = position;
                        let tell = |change| match state.settling {
                            Some(settling) => settling.event(change, &state.selects),
                            None => event(change, &state.selects),
                        };
                        let items: Vec<_> = changes
                            .iter()
                            .filter(|change| change.is_in(&state.scope))
                            .filter_map(tell)
                            .collect();
                        state.head = items.into_iter();
                    }
                    Err(error) => {
                        state.over = true;
                        return Some((error.into(), state));
                    }
                },
                () = bookmark => {
                    let version = state.position.clone();
                    return Some((WatchItem::Bookmark { version, initial_events_end: false }, state));
                }
            }
        }
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use joinery_object::{Bounds, History};

    fn object(name: &str, version: u64) -> Arc<Object> {
        let text = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#);
        Arc::new(Object::parse(text.into()).unwrap())
    }

    fn history() -> Arc<History> {
        Arc::new(History::new(ResourceVersion::single(1), Bounds::default()))
    }

    fn add(history: &History, name: &str, version: u64) {
        let change = Change::new(
            ResourceVersion::single(version),
            &[version],
            None,
            Some(object(name, version)),
        );
        history.append([Arc::new(change)], ResourceVersion::single(version));
    }

    fn words(item: &WatchItem) -> String {
        match item {
            WatchItem::Event { kind, object, .. } => format!("{} {}", kind.as_str(), object.key()),
            WatchItem::Bookmark { version, .. } => format!("BOOKMARK {version}"),
            WatchItem::Error(status) => format!("ERROR {}", status.code),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_selected_is_told_and_bookmarks_come_by_the_clock() {
        let history = history();
        let options = ListOptions {
            allow_watch_bookmarks: true,
            timeout_seconds: Some(90),
            ..ListOptions::default()
        };
        let mut watch = follow(
            added([object("first", 1)]),
            ResourceVersion::single(1),
            history.follow(),
            |object| &*object.key().name != "other",
            &options,
        );
        add(&history, "other", 2);
        add(&history, "mine", 3);
        let mut told = Vec::new();
        while told.len() < 4 {
            told.push(words(&watch.next().await.unwrap()));
        }
        assert_eq!(
            told,
            ["ADDED first", "ADDED mine", "BOOKMARK 3", "BOOKMARK 3"]
        );
    }

    #[tokio::test]
    async fn a_watcher_that_is_too_slow_is_told_so_and_ends() {
        let bounds = Bounds {
            changes: 2,
            ..Bounds::default()
        };
        let history = Arc::new(History::new(ResourceVersion::single(1), bounds));
        let position = ResourceVersion::single(1);
        let mut watch = follow(
            Vec::new(),
            position,
            history.follow(),
            |_| true,
            &ListOptions::default(),
        );
        for version in 2..9 {
            add(&history, "a", version);
        }
        assert_eq!(words(&watch.next().await.unwrap()), "ERROR 410");
        assert!(watch.next().await.is_none());
    }
}
