//! delete and deletecollection.

use futures::StreamExt;
use joinery_object::{DeleteOptions, ListOptions, ObjectKey, PropagationPolicy, Status, reason};
use joinery_store::Op;
use serde_json::Value;

use super::decode::members;
use super::metadata::{FOREGROUND, ORPHAN};
use super::resource::StoredResource;
use super::update::Current;
use super::write::{ATTEMPTS, Outcome, now, object_at, text, text_at};
use crate::admit::{Operation, Review};
use crate::resource::{Caller, List, Written};

/// So many objects of a collection are deleted at once: the store commits them together.
const CONCURRENT: usize = 64;

impl StoredResource {
    pub(super) async fn write_delete(
        &self,
        caller: &Caller,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<Written, Status> {
        let generation = self.generation();
        for _ in 0..ATTEMPTS {
            let mut current = self.stored(key).await?;
            self.check_preconditions(&current, options)?;
            let old_object = text_at(&mut current.value, current.revision)?.into();
            let admitted = self
                .admit(
                    &generation,
                    Review {
                        operation: Operation::Delete,
                        subresource: None,
                        key: key.clone(),
                        object: None,
                        old_object: Some(old_object),
                        user: caller.user.clone(),
                        dry_run: options.dry_run,
                        now: caller.now,
                    },
                    None,
                )
                .await?;
            let mut object = current.value.clone();
            self.set_propagation(&mut object, options.propagation_policy);
            let removed = !(self.rules.pending)(&object);
            if removed {
                object = current.value.clone();
            } else {
                self.mark(&mut object, caller);
            }
            let changed = text(&object)?;
            if !removed && changed == current.text {
                // It is being deleted already.
                return written(&changed, current.revision, false, admitted.warnings);
            }
            let op = if removed {
                Op::Delete {
                    key: current.store_key.clone(),
                }
            } else {
                self.put_marked(&current, &changed, caller.now)
            };
            let mut guards = vec![current.guard()];
            guards.extend(admitted.guards);
            if let Outcome::Committed { revision } =
                self.commit(op, guards, options.dry_run).await?
            {
                self.visible(revision).await;
                // What was removed is shown as it was.
                let shown = if removed || options.dry_run {
                    current.revision
                } else {
                    revision
                };
                return written(&changed, shown, removed, admitted.warnings);
            }
        }
        Err(self.contended(key))
    }

    pub(super) async fn write_delete_all(
        &self,
        caller: &Caller,
        namespace: Option<&str>,
        selection: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<List, Status> {
        // As upstream: what such a list shows is deleted, a page of it where it has pages.
        let mut list = self.read_list(namespace, selection).await?;
        let objects = std::mem::take(&mut list.items);
        let mut deletes = futures::stream::iter(objects)
            .map(|object| async move {
                let written = self.write_delete(caller, object.key(), options).await;
                (object, written)
            })
            .buffered(CONCURRENT);
        let mut failure = None;
        while let Some((object, outcome)) = deletes.next().await {
            match outcome {
                // As upstream: the objects as they were found, also those that their finalizers hold.
                Ok(written) => {
                    list.warnings.extend(written.warnings);
                    list.items.push(object);
                }
                // Somebody else was faster.
                Err(status) if status.is(reason::NOT_FOUND) => {}
                Err(status) => failure = failure.or(Some(status)),
            }
        }
        match failure {
            Some(status) => Err(status),
            None => Ok(list),
        }
    }

    fn check_preconditions(
        &self,
        current: &Current,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let meta = &current.meta;
        let wanted = &options.preconditions;
        let failed = if let Some(uid) = wanted.uid.as_ref().filter(|uid| **uid != meta.uid) {
            format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been \
                 deleted and then recreated",
                meta.uid
            )
        } else if let Some(version) = wanted
            .resource_version
            .as_ref()
            .filter(|version| **version != current.revision.to_string())
        {
            format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). \
                 The object might have been modified",
                current.revision
            )
        } else {
            return Ok(());
        };
        // ⚠ The kind stands where the plural should.
        let generation = self.generation();
        let mut of = self.gvr().clone();
        of.resource = generation.definition.kind.as_str().into();
        Err(Status::conflict(&of, &meta.name, &failed))
    }

    /// The garbage collector's finalizers say what shall become of the objects that this one owns.
    fn set_propagation(&self, object: &mut Value, policy: Option<PropagationPolicy>) {
        let Some(policy) = policy.filter(|_| self.storage.has_garbage_collector()) else {
            return;
        };
        let added = match policy {
            PropagationPolicy::Orphan => Some(ORPHAN),
            PropagationPolicy::Foreground => Some(FOREGROUND),
            PropagationPolicy::Background => None,
        };
        let metadata = members(&mut object["metadata"]);
        let mut finalizers: Vec<Value> = metadata
            .get("finalizers")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        finalizers.retain(|finalizer| {
            let name = finalizer.as_str().unwrap_or_default();
            !matches!(name, ORPHAN | FOREGROUND) || Some(name) == added
        });
        if let Some(added) = added
            && !finalizers.iter().any(|finalizer| finalizer == added)
        {
            finalizers.push(added.into());
        }
        if finalizers.is_empty() {
            metadata.remove("finalizers");
        } else {
            metadata.insert("finalizers".to_owned(), finalizers.into());
        }
    }

    /// Marks an object that its finalizers hold.
    fn mark(&self, object: &mut Value, caller: &Caller) {
        let metadata = members(&mut object["metadata"]);
        if !metadata.contains_key("deletionTimestamp") {
            metadata.insert("deletionTimestamp".to_owned(), now(caller).into());
            if let Some(generation) = metadata.get("generation").and_then(Value::as_i64)
                && generation > 0
            {
                metadata.insert("generation".to_owned(), (generation + 1).into());
            }
        }
        metadata.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
        (self.rules.terminate)(object);
    }

    fn put_marked(&self, current: &Current, text: &[u8], now: u64) -> Op {
        let envelope = super::envelope::Envelope {
            written: now,
            ..current.envelope.clone()
        };
        Op::Put {
            key: current.store_key.clone(),
            value: envelope.seal(text),
        }
    }
}

fn written(
    text: &[u8],
    revision: u64,
    removed: bool,
    warnings: Vec<String>,
) -> Result<Written, Status> {
    Ok(Written {
        object: object_at(text, revision)?,
        created: false,
        removed,
        warnings,
    })
}
