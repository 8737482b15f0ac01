//! Cached reading: follows the sources and recombines only what their changes touch.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt;
use futures::future::select_all;
use imbl::OrdMap;
use joinery_object::{Change, Follower, Object, ObjectKey, Objects, ResourceVersion, Status};
use joinery_source::SourceCache;
use tracing::warn;

use crate::call::Patience;
use crate::claim::{Claim, Step, Touched, claims};
use crate::compose::{Outcome, compose, tombstone};
use crate::join::{JoinError, SharedJoin};
use crate::joined::{Input, Joined};

/// What a view shows at one position of its sources.
#[derive(Clone, Default)]
pub(crate) struct Content {
    pub(crate) objects: Objects,
    /// The primaries whose objects cannot be made, and why.
    pub(crate) failures: OrdMap<ObjectKey, Status>,
    /// One position per source.
    pub(crate) positions: Vec<u64>,
}

impl Content {
    pub(crate) fn version(&self) -> ResourceVersion {
        ResourceVersion::of_positions(&self.positions)
    }
}

/// Changes of the sources that are taken over together. Of each object only the last state counts.
#[derive(Default)]
pub(crate) struct Batch {
    steps: Vec<Step>,
    inputs: Vec<Input>,
    /// For each input the steps that are in it.
    steps_of: Vec<Vec<usize>>,
    by_key: HashMap<(usize, ObjectKey), usize>,
    /// Source, and between which positions changes of it were not seen.
    holes: Vec<(usize, u64, u64)>,
    positions: Vec<u64>,
    /// When the oldest change in it became known here.
    arrived: Option<Instant>,
}

impl Batch {
    /// When the oldest change in it became known here; none when there is none.
    pub(crate) fn arrived(&self) -> Option<Instant> {
        self.arrived
    }

    fn push(&mut self, source: usize, change: &Change) {
        self.arrived.get_or_insert(change.at());
        if let Some(to) = change.hole_up_to(0) {
            self.holes.push((source, change.position().position(0), to));
        }
        if let Some(key) = change.key() {
            let position = change.position().position(0);
            self.add(source, position, key.clone(), change.new_object().cloned());
        }
    }

    fn add(&mut self, source: usize, position: u64, key: ObjectKey, new: Option<Arc<Object>>) {
        let step = self.steps.len();
        self.steps.push(Step { source, position });
        let input = *self.by_key.entry((source, key.clone())).or_insert_with(|| {
            self.inputs.push(Input {
                source,
                key,
                new: None,
                passed: Vec::new(),
            });
            self.steps_of.push(Vec::new());
            self.inputs.len() - 1
        });
        let before = std::mem::replace(&mut self.inputs[input].new, new);
        self.inputs[input].passed.extend(before);
        self.steps_of[input].push(step);
    }
}

/// What a source has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// Something changed.
    Changes,
    /// It is too large to be held.
    Lost,
}

/// The moving part of a cached view.
pub(crate) struct Engine {
    pub(crate) joined: Joined,
    sources: Vec<Arc<SourceCache>>,
    /// None while a source is too large to be held.
    followers: Vec<Follower>,
    /// A source has let go of its objects, and the end of its history has been met already: nothing more wakes.
    lost: bool,
    pub(crate) content: Content,
}

impl Engine {
    /// Waits for the sources, then relates and composes everything there is. With a source that is too large to be held,
    /// there is nothing.
    pub(crate) async fn prepare(join: SharedJoin, sources: Vec<Arc<SourceCache>>) -> Self {
        for source in &sources {
            source.settled().await;
            if source.state().too_large {
                return Self::suspended(join, sources);
            }
        }
        Self::full(join, sources).await
    }

    /// With nothing in it.
    fn suspended(join: SharedJoin, sources: Vec<Arc<SourceCache>>) -> Self {
        Self {
            joined: Joined::new(join, Patience::Endless),
            followers: Vec::new(),
            lost: false,
            content: Content {
                positions: vec![0; sources.len()],
                ..Content::default()
            },
            sources,
        }
    }

    /// Whether it holds nothing because a source is too large.
    pub(crate) fn is_suspended(&self) -> bool {
        self.followers.is_empty()
    }

    /// Waits for all sources, however long that takes, then relates and composes everything there is.
    pub(crate) async fn full(join: SharedJoin, sources: Vec<Arc<SourceCache>>) -> Self {
        let mut joined = Joined::new(join, Patience::Endless);
        let mut followers = Vec::with_capacity(sources.len());
        let mut positions = Vec::with_capacity(sources.len());
        let mut inputs = Vec::new();
        for (source, cache) in sources.iter().enumerate() {
            let (objects, position, follower) = cache.subscribed().await;
            inputs.extend(
                objects
                    .into_iter()
                    .map(|(_, object)| Input::now(source, object)),
            );
            positions.push(position);
            followers.push(follower);
        }
        let mut content = Content {
            positions,
            ..Content::default()
        };
        let version = content.version();
        // Patience is endless: there is an answer in the end.
        while joined.apply(&inputs).await.is_err() {}
        drop(inputs);
        let primaries: Vec<_> = joined
            .primaries()
            .into_iter()
            .map(|key| (key, version.clone()))
            .collect();
        let outcomes = loop {
            if let Ok(outcomes) = compose(&joined, primaries.clone()).await {
                break outcomes;
            }
        };
        for (key, outcome) in outcomes {
            match outcome {
                Ok(Some(object)) => {
                    content.objects.insert(key, object);
                }
                Ok(None) => {}
                Err(failure) => {
                    warn!(object = %key, %failure, "object is left out of its view");
                    content.failures.insert(key, failure);
                }
            }
        }
        Self {
            joined,
            sources,
            followers,
            lost: false,
            content,
        }
    }

    pub(crate) fn join(&self) -> &SharedJoin {
        self.joined.join()
    }

    pub(crate) fn sources(&self) -> &[Arc<SourceCache>] {
        &self.sources
    }

    /// Lets go of everything.
    pub(crate) fn suspend(self) -> Self {
        let join = self.join().clone();
        Self::suspended(join, self.sources)
    }

    /// Waits until a source has something new, or has let go of its objects.
    pub(crate) async fn ready(&mut self) -> News {
        if self.lost {
            return News::Lost;
        }
        let lost = select_all(self.sources.iter().map(|source| source.lost().boxed()));
        let changed = select_all(
            self.followers
                .iter_mut()
                .map(|follower| follower.ready().boxed()),
        );
        tokio::select! {
            biased;
            _ = lost => News::Lost,
            _ = changed => News::Changes,
        }
    }

    /// All that the sources have had since the last call.
    pub(crate) fn take(&mut self) -> Batch {
        let mut batch = Batch {
            positions: self.content.positions.clone(),
            ..Batch::default()
        };
        for source in 0..self.followers.len() {
            match self.followers[source].take() {
                Ok((changes, position)) => {
                    for change in changes {
                        batch.push(source, &change);
                    }
                    batch.positions[source] = position.position(0);
                }
                Err(_) => self.catch_up(source, &mut batch),
            }
        }
        batch
    }

    /// The source has forgotten changes that this view has not seen yet: compares all objects instead.
    fn catch_up(&mut self, source: usize, batch: &mut Batch) {
        let Some((objects, position, follower)) = self.sources[source].subscribe() else {
            self.lost = true;
            return;
        };
        self.followers[source] = follower;
        // None of these may be claimed before all are told.
        let reached = self.content.positions[source];
        batch.holes.push((source, reached, position));
        let mut gone: BTreeMap<ObjectKey, Arc<Object>> = self
            .joined
            .objects(source)
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        for (key, object) in objects {
            let old = gone.remove(&key);
            if old.is_none_or(|old| old.resource_version() != object.resource_version()) {
                batch.add(source, reached, key, Some(object));
            }
        }
        for key in gone.into_keys() {
            batch.add(source, reached, key, None);
        }
        batch.positions[source] = position;
    }

    /// Takes over a batch and gives the changes of the view, in the order of their versions.
    pub(crate) async fn advance(&mut self, batch: Batch) -> Vec<Arc<Change>> {
        let dirty = loop {
            match self.joined.apply(&batch.inputs).await {
                Ok(dirty) => break dirty,
                Err(JoinError::Busy(_) | JoinError::Trapped(_)) => {}
            }
        };
        let touched: Touched = dirty
            .into_iter()
            .map(|(key, inputs)| {
                let steps = inputs.iter().flat_map(|input| &batch.steps_of[*input]);
                (key, steps.copied().collect())
            })
            .collect();
        let start = &self.content.positions;
        let claims = claims(start, &batch.steps, &batch.positions, &touched);
        let versions: Vec<_> = claims
            .iter()
            .map(|(key, claim)| (key.clone(), claim.after.clone()))
            .collect();
        let mut outcomes: HashMap<ObjectKey, Outcome> = loop {
            if let Ok(outcomes) = compose(&self.joined, versions.clone()).await {
                break outcomes.into_iter().collect();
            }
        };
        let mut changes: Vec<_> = batch.holes.iter().map(|hole| self.hole(*hole)).collect();
        self.content.positions = batch.positions;
        for (key, claim) in claims {
            let Some(outcome) = outcomes.remove(&key) else {
                continue;
            };
            let several = touched[&key].len() > 1;
            self.record(key, outcome, &claim, several, &mut changes);
        }
        changes
    }

    /// The place of changes of a source that were not seen.
    fn hole(&self, (source, from, to): (usize, u64, u64)) -> Arc<Change> {
        let version = |position| {
            let mut positions = self.content.positions.clone();
            positions[source] = position;
            ResourceVersion::of_positions(&positions)
        };
        Arc::new(Change::hole(version(from), &version(to)))
    }

    /// Writes an outcome into the content, and adds what watchers are told of it.
    fn record(
        &mut self,
        key: ObjectKey,
        outcome: Outcome,
        claim: &Claim,
        several: bool,
        changes: &mut Vec<Arc<Change>>,
    ) {
        let causes = self.content.positions.clone();
        let change =
            |version: &ResourceVersion, old, new| Change::new(version.clone(), &causes, old, new);
        let (objects, failures) = (&mut self.content.objects, &mut self.content.failures);
        let before = objects.get(&key).cloned();
        let at = &claim.after;
        let told = match (before, outcome) {
            (Some(old), Ok(Some(new))) if old.same_but_version(&new) => {
                failures.remove(&key);
                change(at, Some(old), Some(new)).silent()
            }
            (before, Ok(Some(new))) => {
                failures.remove(&key);
                objects.insert(key, new.clone());
                let (gone, old) = match before {
                    // Another object of the same name is not the same object changed.
                    Some(old) if old.uid() != new.uid() => (Some(old), None),
                    old => (None, old),
                };
                if gone.is_some() {
                    changes.push(Arc::new(change(&claim.before, gone, None)));
                }
                change(at, old, Some(new))
            }
            (Some(old), Ok(None)) => {
                failures.remove(&key);
                objects.remove(&key);
                change(at, Some(old), None)
            }
            (before, Err(failure)) => {
                warn!(object = %key, %failure, "object is left out of its view");
                failures.insert(key.clone(), failure.clone());
                objects.remove(&key);
                match before {
                    Some(old) => change(at, Some(old), None).failed(failure),
                    None => unseen(self.joined.join(), &key, at, &causes),
                }
            }
            (None, Ok(None)) => {
                failures.remove(&key);
                unseen(self.joined.join(), &key, at, &causes)
            }
        };
        changes.push(Arc::new(if several { told.of_several() } else { told }));
    }
}

/// There was no object here before, and there is none now: news only to one who saw one elsewhere.
fn unseen(join: &SharedJoin, key: &ObjectKey, version: &ResourceVersion, causes: &[u64]) -> Change {
    let old = tombstone(join.spec(), key, version);
    Change::new(version.clone(), causes, Some(old), None)
        .merged()
        .silent()
}
