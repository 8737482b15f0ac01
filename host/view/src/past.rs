//! The time before a view began, from upstream's memory: so that who watched through a restart need not list again.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::try_join_all;
use joinery_object::{Change, EventType, History, Object, ObjectKey, ResourceVersion};
use joinery_source::{SourceCache, UpstreamError};

use crate::call::Patience;
use crate::claim::{Step, Touched, claims};
use crate::compose::{compose, tombstone};
use crate::engine::Engine;
use crate::join::JoinError;
use crate::joined::{Input, Joined};

/// A busy plugin is asked so often before a watcher must list again.
const TRIES: u32 = 50;

/// What the sources had before a view's history begins.
#[derive(Debug)]
pub(crate) struct Past {
    /// Nothing of what came after this is missing.
    from: Vec<u64>,
    /// Where the history begins.
    floor: Vec<u64>,
    /// Source by source, each in order.
    changes: Vec<(usize, EventType, Arc<Object>)>,
}

impl Past {
    /// Asks upstream for all that came after `version` and not after `floor`.
    ///
    /// # Errors
    /// [`UpstreamError::Expired`] when upstream has forgotten it too.
    pub(crate) async fn fetch(
        sources: &[Arc<SourceCache>],
        version: &ResourceVersion,
        floor: &ResourceVersion,
    ) -> Result<Self, UpstreamError> {
        let asked = sources
            .iter()
            .enumerate()
            .map(|(index, source)| async move {
                let (after, to) = (version.position(index), floor.position(index));
                match after {
                    _ if after >= to => Ok(Vec::new()),
                    0 => Err(UpstreamError::Expired(format!(
                        "the version says nothing of {}",
                        source.spec().gvr
                    ))),
                    _ => source.past(after, to).await,
                }
            });
        let answers = try_join_all(asked).await?;
        let floor = floor.positions().to_vec();
        let changes = answers
            .into_iter()
            .enumerate()
            .flat_map(|(index, changes)| {
                let of_source = move |(kind, object)| (index, kind, object);
                changes.into_iter().map(of_source)
            });
        Ok(Self {
            from: (0..floor.len())
                .map(|i| version.position(i).min(floor[i]))
                .collect(),
            changes: changes.collect(),
            floor,
        })
    }

    /// Where the history begins with this in front of it.
    pub(crate) fn from(&self) -> ResourceVersion {
        ResourceVersion::of_positions(&self.from)
    }

    /// What is still missing when the history begins elsewhere by now. None if there would be a gap.
    pub(crate) fn up_to(mut self, floor: &ResourceVersion) -> Option<Self> {
        for (index, reached) in self.floor.iter_mut().enumerate() {
            let now = floor.position(index);
            if now > *reached {
                return None;
            }
            *reached = now;
            self.from[index] = self.from[index].min(now);
        }
        let floor = &self.floor;
        self.changes
            .retain(|(source, _, object)| object.resource_version().position(0) <= floor[*source]);
        Some(self)
    }

    /// What it means for the view: changes that come before all of its history.
    ///
    /// What its objects looked like then is not known, only that they were touched. So they are told as they were when
    /// the history began.
    ///
    /// # Errors
    /// When the plugin is busy.
    pub(crate) async fn changes(
        &self,
        engine: &Engine,
        history: &History,
    ) -> Result<Vec<Arc<Change>>, JoinError> {
        let mut first_of: HashMap<(usize, &ObjectKey), EventType> = HashMap::new();
        let mut gone: HashMap<&ObjectKey, Input> = HashMap::new();
        let mut inputs = Vec::with_capacity(self.changes.len());
        let mut unknown_before = Vec::with_capacity(self.changes.len());
        for (source, kind, object) in &self.changes {
            let (source, key) = (*source, object.key());
            let known = first_of.contains_key(&(source, key));
            first_of.entry((source, key)).or_insert(*kind);
            unknown_before.push(!known && *kind == EventType::Modified);
            let input = Input::now(source, object.clone());
            if source == 0 && *kind == EventType::Deleted {
                gone.insert(key, input.clone());
            }
            inputs.push(input);
        }
        let touched: Touched = engine.joined.touched_by(&inputs, &unknown_before).await?;
        let steps: Vec<Step> = self
            .changes
            .iter()
            .map(|(source, _, object)| Step {
                source: *source,
                position: object.resource_version().position(0),
            })
            .collect();
        let version = self.from();
        let gone: Vec<Input> = gone
            .into_iter()
            .filter(|(key, _)| touched.contains_key(*key))
            .map(|(_, input)| input)
            .collect();
        let last_seen = alone(engine, &gone, &version).await?;
        let mut at_floor = at_floor(history, &touched);
        let changes = claims(&self.from, &steps, &self.floor, &touched)
            .into_iter()
            .map(|(key, claim)| {
                let now = at_floor
                    .remove(&key)
                    .unwrap_or_else(|| engine.content.objects.get(&key).cloned());
                // Where the primary was made meanwhile, those who come from before that did not have it, and others did.
                let made = first_of.get(&(0, &key)) == Some(&EventType::Added);
                let went = made && now.is_none();
                let old = match &now {
                    Some(now) if !made => Some(now.clone()),
                    None if last_seen.contains_key(&key) => last_seen.get(&key).cloned(),
                    _ => Some(tombstone(engine.join().spec(), &key, &version)),
                };
                let new = now.map(|now| Arc::new(now.at(claim.after.clone())));
                let change = Change::new(claim.after, &self.floor, old, new).merged();
                Arc::new(if went { change.silent() } else { change })
            });
        Ok(changes.collect())
    }
}

/// Objects of primaries that are gone, as they can still be shown: with nothing that was related to them.
async fn alone(
    engine: &Engine,
    primaries: &[Input],
    version: &ResourceVersion,
) -> Result<HashMap<ObjectKey, Arc<Object>>, JoinError> {
    let mut joined = Joined::new(engine.join().clone(), Patience::Tries(TRIES));
    joined.apply(primaries).await?;
    let keys = primaries
        .iter()
        .map(|input| (input.key.clone(), version.clone()));
    let outcomes = compose(&joined, keys.collect()).await?;
    Ok(outcomes
        .into_iter()
        .filter_map(|(key, outcome)| Some((key, outcome.ok()??)))
        .collect())
}

/// What these primaries were when the history began, where they changed since.
fn at_floor(history: &History, touched: &Touched) -> HashMap<ObjectKey, Option<Arc<Object>>> {
    let mut found = HashMap::new();
    history.each(|change| {
        if let Some(key) = change.key().filter(|key| touched.contains_key(*key)) {
            // A tombstone is no object that was there.
            let old = change.old().filter(|old| !old.uid().is_empty()).cloned();
            found.entry(key.clone()).or_insert(old);
        }
        found.len() < touched.len()
    });
    found
}
