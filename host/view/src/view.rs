//! A view as it is read: what it shows, what changed, and the exchange of its logic.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use imbl::OrdMap;
use joinery_object::{
    Bounds, Change, Follower, History, Object, ObjectKey, Objects, ResourceVersion, Scope, Status,
    TooOld,
};
use joinery_source::{SourceCache, UpstreamError};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::engine::{Content, Engine, News};
use crate::join::SharedJoin;
use crate::past::Past;
use crate::replay::{Replayed, replay};

/// So many states are kept for the later pages of lists. They share all that is the same, so they cost little.
const KEPT: usize = 256;
/// So long a change may be under way that upstream has told already.
const ARRIVAL: Duration = Duration::from_millis(300);
/// So many watchers at once have upstream asked for the time before this view began. What one of them learns, the others need not ask.
const ASKING: usize = 2;

/// A view whose sources are read and whose objects are composed, but which serves nothing yet.
pub struct Prepared(Engine);

impl Prepared {
    /// Waits for the sources, then relates and composes everything there is. `sources` are in the order of
    /// [`crate::ViewSpec::sources`].
    pub async fn new(join: SharedJoin, sources: Vec<Arc<SourceCache>>) -> Self {
        Self(Engine::prepare(join, sources).await)
    }

    /// The primaries whose objects cannot be made, and why.
    pub fn failures(&self) -> impl Iterator<Item = (&ObjectKey, &Status)> {
        self.0.content.failures.iter()
    }
}

/// What a view shows at one moment. Costs nothing to hold: all that is the same is shared.
#[derive(Clone)]
pub struct ViewSnapshot {
    /// By key.
    pub objects: Objects,
    /// The primaries whose objects cannot be made, and why.
    pub failures: OrdMap<ObjectKey, Status>,
    /// All changes of the sources up to here are in it.
    pub version: ResourceVersion,
    /// Nothing is held, see [`View::suspended`]: that there are no objects says nothing.
    pub suspended: bool,
}

/// What a watch from an earlier version begins with.
pub struct Resumed {
    /// In order.
    pub events: Vec<Replayed>,
    /// The version reached with them.
    pub version: ResourceVersion,
    /// What comes after.
    pub follower: Follower,
    /// Whether the version is none that this view passed: he may know objects that there have never been here.
    pub elsewhere: bool,
}

/// What a watch from an earlier version cannot begin with.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ResumeError {
    /// Neither this view nor upstream remembers all that came after the version.
    #[error(transparent)]
    TooOld(#[from] TooOld),
    /// This view does not remember it, and upstream gives no answer.
    #[error(transparent)]
    Upstream(UpstreamError),
    /// Nothing is held, see [`View::suspended`].
    #[error("a source is larger than the bound for the bytes of all sources")]
    Suspended,
}

/// What upstream remembers, to be put in front of the history. The answer comes when it has been.
struct Remember {
    past: Past,
    done: oneshot::Sender<()>,
}

struct Published {
    generation: u64,
    /// To the task that follows the sources.
    remember: mpsc::Sender<Remember>,
    join: SharedJoin,
    sources: Vec<Arc<SourceCache>>,
    content: Content,
    /// A source is too large to be held.
    suspended: bool,
    history: Arc<History>,
    kept: VecDeque<(ResourceVersion, ViewSnapshot)>,
    /// From the arrival of the last changes until they could be read.
    lag: Duration,
}

impl Published {
    fn since(
        &self,
        version: &ResourceVersion,
        scope: &Scope,
        selects: impl Fn(&Object) -> bool,
    ) -> Result<Resumed, TooOld> {
        let (mut missed, follower) = self.history.since(version)?;
        missed.retain(|change| change.is_in(scope));
        let passed = self.history.passed(version);
        Ok(Resumed {
            events: replay(version, &self.quiet_after(version), passed, missed, selects),
            version: self.content.version(),
            follower,
            elsewhere: !passed,
        })
    }

    /// The version, raised as far as the sources are known to have had nothing after it.
    fn quiet_after(&self, version: &ResourceVersion) -> ResourceVersion {
        let positions = self.sources.iter().enumerate().map(|(index, source)| {
            let seen = version.position(index);
            let quiet = source.quiet_after(seen);
            quiet.min(self.content.positions[index]).max(seen)
        });
        ResourceVersion::of_positions(&positions.collect::<Vec<_>>())
    }

    fn snapshot(&self) -> ViewSnapshot {
        ViewSnapshot {
            objects: self.content.objects.clone(),
            failures: self.content.failures.clone(),
            version: self.content.version(),
            suspended: self.suspended,
        }
    }
}

/// A cached view. Follows its sources until it is dropped.
pub struct View {
    published: Arc<Mutex<Published>>,
    asking: Semaphore,
    task: Mutex<JoinHandle<()>>,
}

impl Drop for View {
    fn drop(&mut self) {
        self.task.lock().abort();
        self.published.lock().history.end();
    }
}

impl View {
    /// Begins to serve and to follow. Must be called in a tokio runtime.
    pub fn new(prepared: Prepared) -> Self {
        let engine = prepared.0;
        let history = History::new(engine.content.version(), Bounds::default());
        let (remember, asked) = mpsc::channel(ASKING);
        let published = Arc::new(Mutex::new(Published {
            generation: 0,
            remember,
            join: engine.join().clone(),
            sources: engine.sources().to_vec(),
            content: engine.content.clone(),
            suspended: engine.is_suspended(),
            history: Arc::new(history),
            kept: VecDeque::new(),
            lag: Duration::ZERO,
        }));
        Self {
            task: Mutex::new(tokio::spawn(run(engine, asked, published.clone(), 0))),
            asking: Semaphore::new(ASKING),
            published,
        }
    }

    /// Exchanges the logic in one step: all that is read afterwards comes from the new one, and watchers are told
    /// MODIFIED where its bytes differ. With other sources than before, the history begins anew and watchers get 410.
    pub async fn replace(&self, prepared: Prepared) {
        let mut engine = prepared.0;
        // What the comparison of both contents does not tell: what came and went, and what was not seen.
        let mut passed = Vec::new();
        loop {
            // Without going back: the new logic must have seen all that the old one has shown.
            let behind = {
                let mut published = self.published.lock();
                let same = published.sources.len() == engine.sources().len()
                    && published
                        .sources
                        .iter()
                        .zip(engine.sources())
                        .all(|(a, b)| Arc::ptr_eq(a, b));
                let covers = engine
                    .content
                    .version()
                    .covers(&published.content.version());
                let same = same && !published.suspended && !engine.is_suspended();
                if !same || covers {
                    let shown = published.content.version();
                    passed.retain(|change: &Arc<Change>| change.is_news_at(&shown));
                    exchange(&mut published, &engine, same, passed);
                    let (remember, asked) = mpsc::channel(ASKING);
                    published.remember = remember;
                    let generation = published.generation;
                    let mut task = self.task.lock();
                    task.abort();
                    *task = tokio::spawn(run(engine, asked, self.published.clone(), generation));
                    return;
                }
                engine.take()
            };
            let changes = engine.advance(behind).await.into_iter();
            passed.extend(changes.filter(|change| change.is_hole() || change.is_silent()));
        }
    }

    /// The logic that composes now.
    pub fn join(&self) -> SharedJoin {
        self.published.lock().join.clone()
    }

    /// The logic that composes now, and how far its sources are known to be past. The positions are of its sources.
    pub fn join_and_version(&self) -> (SharedJoin, ResourceVersion) {
        let published = self.published.lock();
        (published.join.clone(), published.content.version())
    }

    /// How long the last changes took from their arrival until they could be read.
    pub fn lag(&self) -> Duration {
        self.published.lock().lag
    }

    /// Whether nothing is held, because a source is larger than the bound for the bytes of all sources: it can only be
    /// read live, and not watched.
    pub fn suspended(&self) -> bool {
        self.published.lock().suspended
    }

    /// The sources, the primary first.
    pub fn sources(&self) -> Vec<Arc<SourceCache>> {
        self.published.lock().sources.clone()
    }

    /// What it shows now.
    pub fn snapshot(&self) -> ViewSnapshot {
        self.published.lock().snapshot()
    }

    /// What it shows now, and all that comes after.
    pub fn subscribe(&self) -> (ViewSnapshot, Follower) {
        let published = self.published.lock();
        (published.snapshot(), published.history.follow())
    }

    /// Waits until all that `version` has seen is in it. Returns whether that came to be within `patience`.
    pub async fn wait_for(&self, version: &ResourceVersion, patience: Duration) -> bool {
        let (history, sources) = {
            let published = self.published.lock();
            (published.history.clone(), published.sources.clone())
        };
        if history.wait_for(version, patience.min(ARRIVAL)).await {
            return true;
        }
        if patience <= ARRIVAL {
            return false;
        }
        // There may be nothing to wait for: a source without bookmarks stands still while nothing changes.
        let positions = sources.iter().enumerate();
        let caught_up = positions.map(|(index, source)| source.catch_up(version.position(index)));
        let reached = async {
            join_all(caught_up).await;
            history.wait_for(version, patience).await
        };
        timeout(patience - ARRIVAL, reached).await.unwrap_or(false)
    }

    /// What one who has seen `version` lacks of this scope, and all that comes after. What is older than this view is asked of
    /// upstream.
    ///
    /// # Errors
    /// When some of it has been forgotten, or upstream gives no answer.
    pub async fn resume(
        &self,
        version: &ResourceVersion,
        scope: &Scope,
        selects: impl Fn(&Object) -> bool,
    ) -> Result<Resumed, ResumeError> {
        /// The history may lose changes while older ones are fetched.
        const TRIES: usize = 3;
        let mut tried = 0;
        let mut one_of_few = None;
        loop {
            let (sources, remember, too_old) = {
                let published = self.published.lock();
                if published.suspended {
                    return Err(ResumeError::Suspended);
                }
                match published.since(version, scope, &selects) {
                    Ok(resumed) => return Ok(resumed),
                    Err(too_old) => (
                        published.sources.clone(),
                        published.remember.clone(),
                        too_old,
                    ),
                }
            };
            // Where the version is not older but the history has a hole, nothing can be put in front.
            if tried == TRIES || version.covers(&too_old.floor) {
                return Err(too_old.into());
            }
            if one_of_few.is_none() {
                one_of_few = Some(self.asking.acquire().await);
                // Whoever had it before has perhaps asked for the same.
                continue;
            }
            tried += 1;
            let past = match Past::fetch(&sources, version, &too_old.floor).await {
                Ok(past) => past,
                Err(UpstreamError::Expired(_)) => return Err(too_old.into()),
                Err(error) => return Err(ResumeError::Upstream(error)),
            };
            let (done, answer) = oneshot::channel();
            if remember.send(Remember { past, done }).await.is_ok() {
                // Without an answer the logic was exchanged meanwhile, or the history moved: look again.
                let _ = answer.await;
            }
        }
    }

    /// Keeps a state for the later pages of a list.
    pub fn keep(&self, snapshot: &ViewSnapshot) {
        let kept = &mut self.published.lock().kept;
        if kept
            .back()
            .is_some_and(|(version, _)| *version == snapshot.version)
        {
            return;
        }
        kept.push_back((snapshot.version.clone(), snapshot.clone()));
        if kept.len() > KEPT {
            kept.pop_front();
        }
    }

    /// The state at a version, if it was kept or is the one of now.
    pub fn kept(&self, version: &ResourceVersion) -> Option<ViewSnapshot> {
        let published = self.published.lock();
        if published.content.version() == *version {
            return Some(published.snapshot());
        }
        let found = published.kept.iter().find(|(kept, _)| kept == version);
        found.map(|(_, snapshot)| snapshot.clone())
    }
}

/// Publishes another engine's content in the place of what was there.
///
/// With the same sources, `passed` is told before what is different.
fn exchange(
    published: &mut Published,
    engine: &Engine,
    same_sources: bool,
    mut passed: Vec<Arc<Change>>,
) {
    let version = engine.content.version();
    if same_sources {
        passed.extend(differences(&published.content, &engine.content));
        published.history.append(passed, version);
    } else {
        published.history.end();
        published.history = Arc::new(History::new(version, Bounds::default()));
        published.kept.clear();
    }
    published.generation += 1;
    published.suspended = engine.is_suspended();
    published.join = engine.join().clone();
    published.sources = engine.sources().to_vec();
    published.content = engine.content.clone();
}

/// What is different between two contents, as changes.
fn differences(old: &Content, new: &Content) -> Vec<Arc<Change>> {
    let version = new.version();
    let change =
        |before, after| Change::new(version.clone(), &new.positions, before, after).exchanged();
    let mut changes = Vec::new();
    for (key, object) in &new.objects {
        match old.objects.get(key) {
            Some(before) if before.same_but_version(object) => {}
            before => changes.push(change(before.cloned(), Some(object.clone()))),
        }
    }
    for (key, before) in &old.objects {
        if !new.objects.contains_key(key) {
            let gone = change(Some(before.clone()), None);
            changes.push(match new.failures.get(key) {
                Some(failure) => gone.failed(failure.clone()),
                None => gone,
            });
        }
    }
    changes.into_iter().map(Arc::new).collect()
}

/// Follows the sources, and puts in front of the history what is asked for.
async fn run(
    mut engine: Engine,
    mut asked: mpsc::Receiver<Remember>,
    published: Arc<Mutex<Published>>,
    mut generation: u64,
) {
    let publish = |engine: &Engine, generation: &mut u64| {
        let mut published = published.lock();
        let current = published.generation == *generation;
        if current {
            exchange(&mut published, engine, false, Vec::new());
            *generation = published.generation;
        }
        current
    };
    loop {
        if engine.is_suspended() {
            let (join, sources) = (engine.join().clone(), engine.sources().to_vec());
            let full = Engine::full(join, sources);
            tokio::pin!(full);
            engine = loop {
                tokio::select! {
                    engine = &mut full => break engine,
                    // Nobody can be answered now.
                    Some(unanswered) = asked.recv() => drop(unanswered),
                }
            };
            if !publish(&engine, &mut generation) {
                return;
            }
        }
        tokio::select! {
            news = engine.ready() => {
                if news == News::Lost {
                    engine = engine.suspend();
                    if !publish(&engine, &mut generation) {
                        return;
                    }
                    continue;
                }
                let batch = engine.take();
                let arrived = batch.arrived();
                let changes = engine.advance(batch).await;
                let mut published = published.lock();
                if published.generation != generation {
                    return;
                }
                if let Some(arrived) = arrived {
                    published.lag = arrived.elapsed();
                }
                published.content = engine.content.clone();
                // After the content: who is woken by the history finds it.
                published.history.append(changes, engine.content.version());
            }
            Some(Remember { past, done }) = asked.recv() => {
                let history = {
                    let published = published.lock();
                    if published.generation != generation {
                        return;
                    }
                    published.history.clone()
                };
                let floor = history.floor();
                if let Some(past) = past.up_to(&floor)
                    && let Ok(changes) = past.changes(&engine, &history).await
                {
                    // The logic may have been exchanged meanwhile, and then others append.
                    let published = published.lock();
                    if published.generation != generation {
                        return;
                    }
                    if history.floor() == floor {
                        history.prepend(changes, past.from());
                    }
                }
                let _ = done.send(());
            }
        }
    }
}
