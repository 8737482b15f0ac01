//! Cached reading: follows the sources and recombines only what their changes touch.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::select_all;
use imbl::OrdMap;
use joinery_object::{Change, Follower, Object, ObjectKey, ResourceVersion, Status};
use joinery_source::SourceCache;
use tracing::warn;

use crate::call::Patience;
use crate::compose::{Outcome, compose};
use crate::join::{JoinError, SharedJoin};
use crate::joined::{Input, Joined};

/// What a view shows at one position of its sources.
#[derive(Clone, Default)]
pub(crate) struct Content {
    pub(crate) objects: OrdMap<ObjectKey, Arc<Object>>,
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

/// One source's change, in the order in which the view takes them over.
struct Step {
    source: usize,
    /// The source's position after it.
    position: u64,
    /// The position that makes it news.
    cause: u64,
}

/// Changes of the sources that are taken over together. Of each object only the last state counts.
#[derive(Default)]
pub(crate) struct Batch {
    steps: Vec<Step>,
    inputs: Vec<Input>,
    /// For each input the steps that are in it.
    steps_of: Vec<Vec<usize>>,
    by_key: HashMap<(usize, ObjectKey), usize>,
    positions: Vec<u64>,
}

impl Batch {
    fn push(&mut self, source: usize, change: &Change) {
        let Some(key) = change.key() else { return };
        let step = self.steps.len();
        self.steps.push(Step {
            source,
            position: change.position().position(0),
            cause: change.cause(0),
        });
        self.add(source, key.clone(), change.new_object().cloned(), step);
    }

    fn add(&mut self, source: usize, key: ObjectKey, new: Option<Arc<Object>>, step: usize) {
        let input = *self.by_key.entry((source, key.clone())).or_insert_with(|| {
            self.inputs.push(Input {
                source,
                key,
                new: None,
            });
            self.steps_of.push(Vec::new());
            self.inputs.len() - 1
        });
        self.inputs[input].new = new;
        self.steps_of[input].push(step);
    }
}

/// The moving part of a cached view.
pub(crate) struct Engine {
    joined: Joined,
    sources: Vec<Arc<SourceCache>>,
    followers: Vec<Follower>,
    pub(crate) content: Content,
}

impl Engine {
    /// Waits for the sources, then relates and composes everything there is.
    pub(crate) async fn prepare(join: SharedJoin, sources: Vec<Arc<SourceCache>>) -> Self {
        let mut joined = Joined::new(join, Patience::Endless);
        let mut followers = Vec::with_capacity(sources.len());
        let mut positions = Vec::with_capacity(sources.len());
        let mut inputs = Vec::new();
        for (source, cache) in sources.iter().enumerate() {
            let (objects, position, follower) = loop {
                cache.synced().await;
                if let Some(subscribed) = cache.subscribe() {
                    break subscribed;
                }
            };
            inputs.extend(objects.into_iter().map(|(key, object)| Input {
                source,
                key,
                new: Some(object),
            }));
            positions.push(position);
            followers.push(follower);
        }
        let mut content = Content {
            positions,
            ..Content::default()
        };
        let version = content.version();
        // Patience is endless: there is an answer in the end.
        while joined.apply(inputs.clone()).await.is_err() {}
        drop(inputs);
        let primaries = joined.primaries();
        let outcomes = loop {
            if let Ok(outcomes) = compose(&joined, primaries.clone(), |_| version.clone()).await {
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
            content,
        }
    }

    pub(crate) fn join(&self) -> &SharedJoin {
        self.joined.join()
    }

    pub(crate) fn sources(&self) -> &[Arc<SourceCache>] {
        &self.sources
    }

    /// Waits until a source has something new.
    pub(crate) async fn ready(&mut self) {
        select_all(
            self.followers
                .iter_mut()
                .map(|follower| follower.ready().boxed()),
        )
        .await;
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
            return;
        };
        self.followers[source] = follower;
        let step = batch.steps.len();
        batch.steps.push(Step {
            source,
            position,
            cause: position,
        });
        let mut gone: BTreeMap<ObjectKey, Arc<Object>> = self
            .joined
            .objects(source)
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        for (key, object) in objects {
            let old = gone.remove(&key);
            if old.is_none_or(|old| old.resource_version() != object.resource_version()) {
                batch.add(source, key, Some(object), step);
            }
        }
        for key in gone.into_keys() {
            batch.add(source, key, None, step);
        }
        batch.positions[source] = position;
    }

    /// Takes over a batch and gives the changes of the view, in the order of their versions.
    pub(crate) async fn advance(&mut self, batch: Batch) -> Vec<Arc<Change>> {
        let dirty = loop {
            match self.joined.apply(batch.inputs.clone()).await {
                Ok(dirty) => break dirty,
                Err(JoinError::Busy(_) | JoinError::Trapped(_)) => {}
            }
        };
        // The version after each step, and for each primary the last step that touched it.
        let mut positions = self.content.positions.clone();
        let versions: Vec<ResourceVersion> = batch
            .steps
            .iter()
            .map(|step| {
                positions[step.source] = positions[step.source].max(step.position);
                ResourceVersion::of_positions(&positions)
            })
            .collect();
        let steps: HashMap<ObjectKey, BTreeSet<usize>> = dirty
            .into_iter()
            .map(|(key, inputs)| {
                let steps = inputs.iter().flat_map(|input| &batch.steps_of[*input]);
                (key, steps.copied().collect())
            })
            .collect();
        let last = |key: &ObjectKey| steps[key].last().copied().unwrap_or_default();
        let outcomes = loop {
            let version = |key: &ObjectKey| versions[last(key)].clone();
            if let Ok(outcomes) = compose(&self.joined, steps.keys().cloned(), version).await {
                break outcomes;
            }
        };
        let mut changes: BTreeMap<usize, Vec<Change>> = BTreeMap::new();
        for (key, outcome) in outcomes {
            let mut causes = vec![0; self.content.positions.len()];
            for step in &steps[&key] {
                let step = &batch.steps[*step];
                causes[step.source] = causes[step.source].max(step.cause);
            }
            let step = last(&key);
            if let Some(change) = self.record(key, outcome, versions[step].clone(), &causes) {
                changes.entry(step).or_default().push(change);
            }
        }
        self.content.positions = batch.positions;
        changes
            .into_values()
            .flat_map(|together| {
                let tied = together.len() > 1;
                together
                    .into_iter()
                    .map(move |change| if tied { change.tied() } else { change })
            })
            .map(Arc::new)
            .collect()
    }

    /// Writes an outcome into the content; none when nothing is different.
    fn record(
        &mut self,
        key: ObjectKey,
        outcome: Outcome,
        version: ResourceVersion,
        causes: &[u64],
    ) -> Option<Change> {
        let (objects, failures) = (&mut self.content.objects, &mut self.content.failures);
        match outcome {
            Ok(Some(new)) => {
                failures.remove(&key);
                let old = objects.get(&key).cloned();
                if old.as_ref().is_some_and(|old| old.same_but_version(&new)) {
                    return None;
                }
                objects.insert(key, new.clone());
                Some(Change::new(version, causes, old, Some(new)))
            }
            Ok(None) => {
                failures.remove(&key);
                let old = objects.remove(&key)?;
                Some(Change::new(version, causes, Some(old), None))
            }
            Err(failure) => {
                warn!(object = %key, %failure, "object is left out of its view");
                failures.insert(key.clone(), failure.clone());
                let old = objects.remove(&key)?;
                Some(Change::new(version, causes, Some(old), None).failed(failure))
            }
        }
    }
}
