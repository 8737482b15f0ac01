//! A view as it is read: what it shows, what changed, and the exchange of its logic.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use imbl::OrdMap;
use joinery_object::{
    Bounds, Change, Follower, History, Object, ObjectKey, ResourceVersion, Status, TooOld,
};
use joinery_source::SourceCache;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::engine::{Content, Engine};
use crate::join::SharedJoin;
use crate::replay::{Replayed, replay};

/// So many states are kept for the later pages of lists. They share all that is the same, so they cost little.
const KEPT: usize = 256;

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
    pub objects: OrdMap<ObjectKey, Arc<Object>>,
    /// The primaries whose objects cannot be made, and why.
    pub failures: OrdMap<ObjectKey, Status>,
    /// All changes of the sources up to here are in it.
    pub version: ResourceVersion,
}

/// What a watch from an earlier version begins with.
pub struct Resumed {
    /// In order.
    pub events: Vec<Replayed>,
    /// The version reached with them.
    pub version: ResourceVersion,
    /// What comes after.
    pub follower: Follower,
}

struct Published {
    generation: u64,
    join: SharedJoin,
    sources: Vec<Arc<SourceCache>>,
    content: Content,
    history: Arc<History>,
    kept: VecDeque<(ResourceVersion, ViewSnapshot)>,
}

impl Published {
    fn snapshot(&self) -> ViewSnapshot {
        ViewSnapshot {
            objects: self.content.objects.clone(),
            failures: self.content.failures.clone(),
            version: self.content.version(),
        }
    }
}

/// A cached view. Follows its sources until it is dropped.
pub struct View {
    published: Arc<Mutex<Published>>,
    task: Mutex<JoinHandle<()>>,
}

impl Drop for View {
    fn drop(&mut self) {
        self.task.lock().abort();
    }
}

impl View {
    /// Begins to serve and to follow. Must be called in a tokio runtime.
    pub fn new(prepared: Prepared) -> Self {
        let engine = prepared.0;
        let history = History::new(engine.content.version(), Bounds::default());
        let published = Arc::new(Mutex::new(Published {
            generation: 0,
            join: engine.join().clone(),
            sources: engine.sources().to_vec(),
            content: engine.content.clone(),
            history: Arc::new(history),
            kept: VecDeque::new(),
        }));
        Self {
            task: Mutex::new(tokio::spawn(run(engine, published.clone(), 0))),
            published,
        }
    }

    /// Exchanges the logic in one step: all that is read afterwards comes from the new one, and watchers are told
    /// MODIFIED where its bytes differ. With other sources than before, the history begins anew and watchers get 410.
    pub async fn replace(&self, prepared: Prepared) {
        let mut engine = prepared.0;
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
                if !same || covers {
                    exchange(&mut published, &engine, same);
                    let mut task = self.task.lock();
                    task.abort();
                    *task = tokio::spawn(run(engine, self.published.clone(), published.generation));
                    return;
                }
                engine.take()
            };
            engine.advance(behind).await;
        }
    }

    /// The logic that composes now.
    pub fn join(&self) -> SharedJoin {
        self.published.lock().join.clone()
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
        let history = self.published.lock().history.clone();
        history.wait_for(version, patience).await
    }

    /// What one who has seen `version` lacks, and all that comes after.
    ///
    /// # Errors
    /// When some of it has been forgotten.
    pub fn since(
        &self,
        version: &ResourceVersion,
        selects: impl Fn(&Object) -> bool,
    ) -> Result<Resumed, TooOld> {
        let published = self.published.lock();
        let (missed, follower) = published.history.since(version)?;
        Ok(Resumed {
            events: replay(version, missed, selects),
            version: published.content.version(),
            follower,
        })
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
fn exchange(published: &mut Published, engine: &Engine, same_sources: bool) {
    let version = engine.content.version();
    if same_sources {
        let changes = differences(&published.content, &engine.content);
        published.history.append(changes, version);
    } else {
        published.history = Arc::new(History::new(version, Bounds::default()));
        published.kept.clear();
    }
    published.generation += 1;
    published.join = engine.join().clone();
    published.sources = engine.sources().to_vec();
    published.content = engine.content.clone();
}

/// What is different between two contents, as changes.
///
/// No source has changed, so no version tells who has seen them: whoever resumes is told again.
fn differences(old: &Content, new: &Content) -> Vec<Arc<Change>> {
    let (version, causes) = (new.version(), vec![u64::MAX; new.positions.len()]);
    let change = |before, after| Change::new(version.clone(), &causes, before, after);
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

async fn run(mut engine: Engine, published: Arc<Mutex<Published>>, generation: u64) {
    loop {
        engine.ready().await;
        let batch = engine.take();
        let changes = engine.advance(batch).await;
        let mut published = published.lock();
        if published.generation != generation {
            return;
        }
        published.content = engine.content.clone();
        // After the content: who is woken by the history finds it.
        published.history.append(changes, engine.content.version());
    }
}
