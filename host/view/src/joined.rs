//! The objects of all sources and how they are related: what cached and live reading have in common.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use joinery_object::{Object, ObjectKey};
use tracing::warn;

use crate::call::{Patience, in_batches};
use crate::index::{JoinKey, RelationIndex};
use crate::join::{Branch, Group, JoinError, Reach, SharedJoin, Side, ViewSpec};
use crate::project::Projection;

/// An object of a source became another one, or went.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    /// Index into [`ViewSpec::sources`]; 0 is the primary.
    pub(crate) source: usize,
    pub(crate) key: ObjectKey,
    pub(crate) new: Option<Arc<Object>>,
    /// What it was in between: primaries that are related to that only may be known so elsewhere.
    pub(crate) passed: Vec<Arc<Object>>,
}

impl Input {
    /// An object as it is now.
    pub(crate) fn now(source: usize, object: Arc<Object>) -> Self {
        Self {
            source,
            key: object.key().clone(),
            new: Some(object),
            passed: Vec::new(),
        }
    }
}

struct Entry {
    object: Arc<Object>,
    /// What the guest reads of it.
    read: Bytes,
}

/// A primary and all that is related to it.
pub(crate) struct Related {
    pub(crate) group: Group,
    /// What the inserts of the result may refer to: the primary, then the branches' objects, counted through.
    pub(crate) inputs: Vec<Arc<Object>>,
}

/// The objects of all sources, with the keys that relate them.
pub(crate) struct Joined {
    join: SharedJoin,
    projections: Vec<Projection>,
    sources: Vec<HashMap<ObjectKey, Entry>>,
    relations: Vec<RelationIndex>,
    patience: Patience,
}

/// The primaries that changes have touched, each with the changes (by index) that touched it, in order.
pub(crate) type Dirty = BTreeMap<ObjectKey, BTreeSet<usize>>;

impl Joined {
    /// Nothing yet, of this join.
    pub(crate) fn new(join: SharedJoin, patience: Patience) -> Self {
        let spec = join.spec();
        let projections = spec
            .sources
            .iter()
            .enumerate()
            .map(|(source, spec)| {
                // `combine` shows the primary's version in its result.
                let also: &[&str] = if source == 0 {
                    &["/metadata/resourceVersion"]
                } else {
                    &[]
                };
                Projection::new(&spec.reads, also)
            })
            .collect();
        Self {
            projections,
            sources: spec.sources.iter().map(|_| HashMap::new()).collect(),
            relations: spec
                .relations
                .iter()
                .map(|_| RelationIndex::default())
                .collect(),
            join,
            patience,
        }
    }

    pub(crate) fn join(&self) -> &SharedJoin {
        &self.join
    }

    pub(crate) fn patience(&self) -> Patience {
        self.patience
    }

    /// The keys of all primaries.
    pub(crate) fn primaries(&self) -> BTreeSet<ObjectKey> {
        self.sources[0].keys().cloned().collect()
    }

    /// All objects of a source.
    pub(crate) fn objects(
        &self,
        source: usize,
    ) -> impl Iterator<Item = (&ObjectKey, &Arc<Object>)> {
        self.sources[source]
            .iter()
            .map(|(key, entry)| (key, &entry.object))
    }

    /// Takes over changes and says which primaries they touch, through the old keys or the new.
    ///
    /// Of several changes of one object only the last may be given.
    ///
    /// # Errors
    /// [`JoinError::Busy`]; nothing has been taken over then.
    pub(crate) async fn apply(&mut self, inputs: &[Input]) -> Result<Dirty, JoinError> {
        let reads = self.reads(inputs);
        let keys = self.keys(inputs, &reads).await?;

        let mut dirty = self.passed(inputs).await?;
        self.touched(inputs, &mut dirty);
        for ((relation, side, input), keys) in keys {
            let index = &mut self.relations[relation];
            let index = match side {
                Side::Parent => &mut index.parents,
                Side::Child => &mut index.children,
            };
            index.set(&inputs[input].key, keys);
        }
        for (input, read) in inputs.iter().zip(reads) {
            let source = &mut self.sources[input.source];
            match (&input.new, read) {
                (Some(object), Some(read)) => {
                    let object = object.clone();
                    source.insert(input.key.clone(), Entry { object, read });
                }
                _ => {
                    source.remove(&input.key);
                }
            }
        }
        self.touched(inputs, &mut dirty);
        Ok(dirty)
    }

    /// The primaries that were touched in between, as they were related before.
    async fn passed(&self, inputs: &[Input]) -> Result<Dirty, JoinError> {
        let mut of = Vec::new();
        let mut between = Vec::new();
        for (at, input) in inputs.iter().enumerate() {
            for object in &input.passed {
                of.push(at);
                between.push(Input::now(input.source, object.clone()));
            }
        }
        let known_before = vec![false; between.len()];
        let touched = self.touched_by(&between, &known_before).await?;
        let of_inputs = |places: BTreeSet<usize>| places.into_iter().map(|at| of[at]).collect();
        let touched = touched.into_iter();
        Ok(touched
            .map(|(key, places)| (key, of_inputs(places)))
            .collect())
    }

    /// The primaries that changes of the past have touched, from what is related now.
    ///
    /// What an object was related to before its first change is not known where `unknown_before` says so: all primaries
    /// in its reach may have been touched.
    ///
    /// # Errors
    /// [`JoinError::Busy`], when patience is at an end.
    pub(crate) async fn touched_by(
        &self,
        inputs: &[Input],
        unknown_before: &[bool],
    ) -> Result<Dirty, JoinError> {
        let keys = self.keys(inputs, &self.reads(inputs)).await?;
        let mut dirty = Dirty::new();
        for (at, input) in inputs.iter().enumerate() {
            if input.source == 0 {
                dirty.entry(input.key.clone()).or_default().insert(at);
            }
        }
        for ((relation, side, at), keys) in keys {
            if side == Side::Parent {
                continue;
            }
            let mut touch = |primary: &ObjectKey| {
                dirty.entry(primary.clone()).or_default().insert(at);
            };
            for key in &keys {
                self.primaries_of(relation, key, &mut touch);
            }
            if unknown_before[at] {
                self.in_reach(relation, &inputs[at].key).for_each(touch);
            }
        }
        Ok(dirty)
    }

    /// The primaries that a child of a relation can be related to.
    fn in_reach(&self, relation: usize, child: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        let relations = &self.join.spec().relations;
        let mut above = Some(relation);
        let mut same_namespace = true;
        while let Some(index) = above {
            same_namespace &= relations[index].reach == Reach::SameNamespace;
            above = relations[index].parent;
        }
        let primaries = self.sources[0].keys();
        primaries.filter(move |key| !same_namespace || key.namespace == child.namespace)
    }

    /// What the guest reads of each object.
    fn reads(&self, inputs: &[Input]) -> Vec<Option<Bytes>> {
        let read = |input: &Input| {
            let object = input.new.as_ref()?;
            self.projections[input.source]
                .apply(&object.bytes())
                .inspect_err(|error| warn!(object = %input.key, %error, "object is left out"))
                .ok()
        };
        inputs.iter().map(read).collect()
    }

    /// Asks for the keys of all changed objects, one call per relation and side.
    async fn keys(
        &self,
        inputs: &[Input],
        reads: &[Option<Bytes>],
    ) -> Result<Vec<((usize, Side, usize), Vec<JoinKey>)>, JoinError> {
        let spec = self.join.spec();
        let mut all = Vec::new();
        for (index, relation) in spec.relations.iter().enumerate() {
            for side in [Side::Parent, Side::Child] {
                let source = side_source(spec, index, side);
                let mut asked = Vec::new();
                let mut objects = Vec::new();
                for (input, read) in reads.iter().enumerate() {
                    if inputs[input].source != source {
                        continue;
                    }
                    match read {
                        Some(read) => {
                            asked.push(input);
                            objects.push(read.clone());
                        }
                        None => all.push(((index, side, input), Vec::new())),
                    }
                }
                let call = |objects| self.join.keys(index, side, objects);
                let answers = in_batches(objects, self.patience, call).await?;
                for (input, answer) in asked.into_iter().zip(answers) {
                    let keys = answer.unwrap_or_else(|why| {
                        warn!(
                            relation = relation.name, object = %inputs[input].key, why,
                            "the plugin gave no keys for an object: it is related to nothing"
                        );
                        Vec::new()
                    });
                    let namespace = match relation.reach {
                        Reach::SameNamespace => inputs[input].key.namespace.clone(),
                        Reach::AnyNamespace => None,
                    };
                    let keys = keys
                        .into_iter()
                        .map(|key| JoinKey {
                            namespace: namespace.clone(),
                            key: key.into(),
                        })
                        .collect();
                    all.push(((index, side, input), keys));
                }
            }
        }
        Ok(all)
    }

    /// Adds the primaries that are related to the inputs as the indexes stand.
    fn touched(&self, inputs: &[Input], dirty: &mut Dirty) {
        let spec = self.join.spec();
        for (at, input) in inputs.iter().enumerate() {
            if input.source == 0 {
                dirty.entry(input.key.clone()).or_default().insert(at);
            }
            for (index, relation) in spec.relations.iter().enumerate() {
                if relation.source == input.source {
                    for key in self.relations[index].children.keys(&input.key) {
                        self.primaries_of(index, key, &mut |primary| {
                            dirty.entry(primary.clone()).or_default().insert(at);
                        });
                    }
                }
            }
        }
    }

    /// Calls with all primaries above the parents that have a key.
    fn primaries_of(&self, relation: usize, key: &JoinKey, found: &mut dyn FnMut(&ObjectKey)) {
        for parent in self.relations[relation].parents.objects(key) {
            match self.join.spec().relations[relation].parent {
                None => found(parent),
                // The parents are children of the relation above.
                Some(above) => {
                    for key in self.relations[above].children.keys(parent) {
                        self.primaries_of(above, key, found);
                    }
                }
            }
        }
    }

    /// The keys of all parents of a relation.
    pub(crate) fn parent_keys(&self, relation: usize) -> BTreeSet<String> {
        let source = side_source(self.join.spec(), relation, Side::Parent);
        let index = &self.relations[relation].parents;
        self.sources[source]
            .keys()
            .flat_map(|object| index.keys(object))
            .map(|key| key.key.to_string())
            .collect()
    }

    /// A primary with all its related objects. None when there is no such primary.
    pub(crate) fn related(&self, key: &ObjectKey) -> Option<Related> {
        let spec = self.join.spec();
        let primary = self.sources[0].get(key)?;
        let mut inputs = vec![primary.object.clone()];
        let mut branches: Vec<Branch> = Vec::with_capacity(spec.relations.len());
        let mut members: Vec<Vec<ObjectKey>> = Vec::with_capacity(spec.relations.len());
        let mut room = self.join.related_bytes();
        for (index, relation) in spec.relations.iter().enumerate() {
            let of_primary = [key.clone()];
            let parents: &[ObjectKey] = match relation.parent {
                None => &of_primary,
                Some(above) => &members[above],
            };
            let mut children: BTreeMap<&ObjectKey, BTreeSet<u32>> = BTreeMap::new();
            for (position, parent) in parents.iter().enumerate() {
                for key in self.relations[index].parents.keys(parent) {
                    for child in self.relations[index].children.objects(key) {
                        children.entry(child).or_default().insert(position as u32);
                    }
                }
            }
            let source = &self.sources[relation.source];
            let omitted = keep_latest(&mut children, relation.limit as usize, &mut room, |child| {
                let entry = source.get(child);
                entry.map_or(("", 0), |entry| (entry.object.created(), entry.read.len()))
            });
            let mut branch = Branch {
                omitted,
                ..Branch::default()
            };
            let mut names = Vec::with_capacity(children.len());
            for (child, parents) in children {
                let Some(entry) = source.get(child) else {
                    continue;
                };
                branch.objects.push(entry.read.clone());
                if relation.parent.is_some() {
                    branch.parents.push(parents.into_iter().collect());
                }
                inputs.push(entry.object.clone());
                names.push(child.clone());
            }
            branches.push(branch);
            members.push(names);
        }
        Some(Related {
            group: Group {
                primary: primary.read.clone(),
                branches,
            },
            inputs,
        })
    }
}

/// The source whose objects stand on a side of a relation.
pub(crate) fn side_source(spec: &ViewSpec, relation: usize, side: Side) -> usize {
    let relation = &spec.relations[relation];
    match side {
        Side::Child => relation.source,
        Side::Parent => relation
            .parent
            .map_or(0, |above| spec.relations[above].source),
    }
}

/// Leaves the `limit` children that were created last, as far as they find `room` in bytes, and says how many are gone.
/// Which those are depends on the objects alone: every replica, each list and each watch leaves out the same.
fn keep_latest<'a>(
    children: &mut BTreeMap<&'a ObjectKey, BTreeSet<u32>>,
    limit: usize,
    room: &mut usize,
    child: impl Fn(&ObjectKey) -> (&'a str, usize),
) -> u64 {
    let bytes: usize = children.keys().map(|key| child(key).1).sum();
    if (limit == 0 || children.len() <= limit) && bytes <= *room {
        *room -= bytes;
        return 0;
    }
    let mut by_age: Vec<&ObjectKey> = children.keys().copied().collect();
    // RFC 3339 in UTC sorts as text; of the same second, the name decides.
    by_age.sort_by(|a, b| child(b).0.cmp(child(a).0).then_with(|| b.cmp(a)));
    let mut gone = match limit {
        0 => Vec::new(),
        limit => by_age.split_off(limit.min(by_age.len())),
    };
    for key in by_age {
        match room.checked_sub(child(key).1) {
            Some(rest) => *room = rest,
            None => gone.push(key),
        }
    }
    for key in &gone {
        children.remove(key);
    }
    gone.len() as u64
}
