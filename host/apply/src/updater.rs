//! How owners change with an object, of whatever operation: `merge.Updater` of k8s.io/structured-merge-diff.

use serde_json::Value;

use crate::conflict::Conflict;
use crate::managed::{Managed, ManagerId, Owned};
use crate::set::FieldSet;
use crate::typed::{self, Comparison, TypedError};
use crate::types::Types;
use crate::value;

/// The fields that an operation can write at all; the others are reset, so they are nobody's by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writable {
    All,
    /// The resource itself, where status is a subresource.
    AllButStatus,
    /// The subresource status.
    OnlyStatus,
}

impl Writable {
    fn of(self, set: FieldSet) -> FieldSet {
        match self {
            Self::All => set,
            Self::OnlyStatus => set.only("status"),
            Self::AllButStatus => set.recursive_difference(&set.only("status")),
        }
    }
}

/// Why an apply does not go through.
pub(crate) enum Refused {
    Conflicts(Vec<Conflict>),
    /// The objects are not of the types that the schema gives them.
    Typed(TypedError),
}

impl From<TypedError> for Refused {
    fn from(error: TypedError) -> Self {
        Self::Typed(error)
    }
}

pub(crate) struct Updater<'a> {
    pub(crate) types: &'a Types,
    pub(crate) api_version: &'a str,
    pub(crate) writable: Writable,
}

impl Updater<'_> {
    /// What an update has changed and added; `managed` loses what it took.
    pub(crate) fn update(
        &self,
        live: &Value,
        new: &Value,
        managed: &mut Managed,
    ) -> Result<FieldSet, TypedError> {
        self.reconcile(managed);
        let Comparison {
            removed,
            modified,
            added,
        } = self.compare(live, new)?;
        let mut set = modified;
        set.extend(&added);
        for owned in managed.values_mut() {
            owned.set = owned.set.difference(&set).difference(&removed);
        }
        managed.retain(|_, owned| !owned.set.is_empty());
        Ok(self.writable.of(set))
    }

    /// The object with a configuration applied. None: it is as it was. `managed` has the applier's new set.
    ///
    /// # Errors
    /// Fields that others own, unless `force` takes them.
    pub(crate) fn apply(
        &self,
        live: &Value,
        config: &Value,
        managed: &mut Managed,
        applier: &ManagerId,
        force: bool,
    ) -> Result<Option<Value>, Refused> {
        self.reconcile(managed);
        let merged = typed::merge(self.types, live, config)?;
        let set = self.writable.of(typed::field_set(self.types, config));
        let last = managed.remove(applier);
        let owned = Owned {
            set,
            api_version: self.api_version.to_owned(),
            time: last.as_ref().and_then(|last| last.time),
        };
        managed.insert(applier.clone(), owned);
        let new = match last {
            Some(last) if !last.set.is_empty() => self.prune(&merged, managed, &last.set),
            _ => merged,
        };
        let comparison = self.compare(live, &new)?;
        self.take(&comparison, managed, applier, force)?;
        Ok((!value::equal(live, &new)).then_some(new))
    }

    /// Takes from the others what an applier has changed, added and removed.
    fn take(
        &self,
        comparison: &Comparison,
        managed: &mut Managed,
        applier: &ManagerId,
        force: bool,
    ) -> Result<(), Refused> {
        let changed = comparison.modified.union(&comparison.added);
        let others = || managed.iter().filter(|(id, _)| *id != applier);
        if !force {
            let mut conflicts = Vec::new();
            for (id, owned) in others() {
                for path in owned.set.intersection(&changed).paths() {
                    let manager = id.clone();
                    conflicts.push(Conflict { manager, path });
                }
            }
            if !conflicts.is_empty() {
                return Err(Refused::Conflicts(conflicts));
            }
        }
        for (id, owned) in managed.iter_mut() {
            if id != applier {
                let set = owned.set.difference(&changed);
                owned.set = set.difference(&comparison.removed);
            }
        }
        managed.retain(|_, owned| !owned.set.is_empty());
        Ok(())
    }

    /// Drops entries of other versions, which have no meaning any more, and follows a change of the schema.
    fn reconcile(&self, managed: &mut Managed) {
        managed.retain(|_, owned| owned.api_version == self.api_version);
        for owned in managed.values_mut() {
            if let Some(set) = typed::reconcile(self.types, &owned.set) {
                owned.set = set;
            }
        }
    }

    fn compare(&self, live: &Value, new: &Value) -> Result<Comparison, TypedError> {
        let comparison = typed::compare(self.types, live, new)?;
        Ok(Comparison {
            removed: self.writable.of(comparison.removed),
            modified: self.writable.of(comparison.modified),
            added: self.writable.of(comparison.added),
        })
    }

    /// Removes what the applier applied last time and not this time, unless somebody else owns it.
    fn prune(&self, merged: &Value, managed: &Managed, last: &FieldSet) -> Value {
        let types = self.types;
        let named = |set: &FieldSet| set.with_named_fields(types, Some(types.root()));
        let last = named(last);
        let pruned = typed::remove_items(types, merged, &last);

        // Back comes what somebody owns. Removing an item removed all in it.
        let in_merged = named(&typed::field_set(types, merged));
        let mut keep = named(&typed::field_set(types, &pruned));
        let mut owned = FieldSet::default();
        managed.values().for_each(|one| owned.extend(&one.set));
        keep.extend(&named(&owned));
        let pruned = typed::remove_items(types, merged, &in_merged.difference(&keep));

        // Back comes what nobody owns: it was not the applier's to remove.
        let in_pruned = named(&typed::field_set(types, &pruned));
        let gone = in_merged.difference(&in_pruned).intersection(&last);
        typed::remove_items(types, merged, &gone)
    }
}
