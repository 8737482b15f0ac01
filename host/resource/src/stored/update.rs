//! update and patch, of the resource itself and of its subresource `status`.

use bytes::Bytes;
use joinery_apply::{Writer, keep_times};
use joinery_object::{
    Cause, FieldValidation, ObjectKey, Status, WriteOptions, json_patch, merge_patch,
    strategic_merge_patch,
};
use joinery_store::{Guard, Key, Op, Versioned};
use serde_json::Value;

use super::apply::{Configuration, writer};
use super::decode::{self, Decoded, members};
use super::envelope::Envelope;
use super::metadata::{self, IMMUTABLE, ObjectMeta};
use super::resource::{Generation, StoredResource};
use super::storage::store_failure;
use super::write::{
    ATTEMPTS, Outcome, check_made, check_size, object_at, strict_error, text, text_at, with_version,
};
use crate::admit::{Operation, Review};
use crate::resource::{Caller, PatchType, Written};

const STATUS: &str = "status";

/// What a request makes of an object.
pub(super) enum Body {
    /// The object as it shall be.
    Object(Bytes),
    JsonPatch(Bytes),
    MergePatch(Bytes),
    StrategicPatch(Bytes),
    Apply(Configuration),
}

/// A stored object that is about to change.
pub(super) struct Current {
    pub(super) store_key: Key,
    pub(super) envelope: Envelope,
    /// Without resourceVersion.
    pub(super) value: Value,
    pub(super) meta: ObjectMeta,
    pub(super) text: Bytes,
    pub(super) revision: u64,
}

impl Current {
    fn read(store_key: Key, stored: &Versioned) -> Result<Self, Status> {
        let (envelope, text) = Envelope::open(&stored.value).map_err(Status::internal)?;
        let value: Value = serde_json::from_slice(&text).map_err(Status::internal)?;
        let meta = ObjectMeta::read(&value).map_err(Status::internal)?;
        Ok(Self {
            store_key,
            envelope,
            value,
            meta,
            text,
            revision: stored.revision,
        })
    }

    /// It must still be this one when the write is committed.
    pub(super) fn guard(&self) -> Guard {
        Guard::KeyAtRevision {
            key: self.store_key.clone(),
            revision: Some(self.revision),
        }
    }

    /// Who says which object he means must mean this one.
    ///
    /// # Errors
    /// 409 for another uid.
    pub(super) fn check_uid(
        &self,
        resource: &StoredResource,
        uid: Option<&str>,
    ) -> Result<(), Status> {
        match uid {
            Some(uid) if uid != self.meta.uid => {
                let message = format!(
                    "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                    self.meta.uid
                );
                Err(Status::conflict(resource.gvr(), &self.meta.name, &message))
            }
            _ => Ok(()),
        }
    }
}

impl StoredResource {
    /// The object as the store has it now.
    ///
    /// # Errors
    /// 404 when there is none.
    pub(super) async fn stored(&self, key: &ObjectKey) -> Result<Current, Status> {
        let store_key = self.store_key(key).map_err(|_| self.not_found(key))?;
        let stored = self.storage.store().get(&store_key).await;
        match stored.map_err(store_failure)? {
            Some(stored) => Current::read(store_key, &stored),
            None => Err(self.not_found(key)),
        }
    }

    pub(super) async fn write_change(
        &self,
        caller: &Caller,
        key: &ObjectKey,
        subresource: Option<&str>,
        body: &Body,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let generation = self.generation();
        let is_status = match subresource {
            None => false,
            Some(STATUS) if generation.definition.status_subresource => true,
            Some(_) => return Err(Status::path_not_found()),
        };
        let writer = writer(caller, subresource, options);
        for _ in 0..ATTEMPTS {
            let mut current = match self.stored(key).await {
                Ok(current) => current,
                Err(missing) => {
                    match body {
                        // A body that is wrong in itself is so whether or not there is something to change.
                        Body::Object(body) => {
                            let decoded = decode::body(&generation.definition, body)?;
                            decode::check_key(&decoded.meta, key)?;
                        }
                        Body::Apply(configuration) if missing.code == 404 && !is_status => {
                            let created = self
                                .apply_new(caller, &generation, key, configuration, options)
                                .await?;
                            match created {
                                Some(created) => return Ok(created),
                                None => continue,
                            }
                        }
                        _ => {}
                    }
                    return Err(missing);
                }
            };
            let (mut object, mut warnings) =
                self.changed(&generation, key, &current, body, options, &writer)?;
            self.set_generation(&generation, &mut object, &current.value);
            let meta = ObjectMeta::read(&object).map_err(Status::internal)?;
            let causes = meta.update_causes(&current.meta, &self.rules);
            let warned = |status: Status| status.with_warnings(&warnings);
            Self::validate(&generation, &object, causes).map_err(warned)?;

            let old_object = text_at(&mut current.value, current.revision)?;
            let reviewed = text_at(&mut object, current.revision)?;
            let size = reviewed.len();
            // What is going must not be held up: who takes a finalizer off it may own a field by that.
            if current.meta.deletion_timestamp.is_none() {
                check_size(&reviewed, old_object.len()).map_err(warned)?;
            }
            let admitted = self
                .admit(
                    &generation,
                    Review {
                        operation: Operation::Update,
                        subresource: subresource.map(str::to_owned),
                        key: key.clone(),
                        object: Some(reviewed.into()),
                        old_object: Some(old_object.into()),
                        user: caller.user.clone(),
                        dry_run: options.dry_run,
                        now: caller.now,
                    },
                    Some(&object),
                )
                .await
                .map_err(warned)?;
            warnings.extend(meta.finalizer_warnings(&current.meta.finalizers));
            warnings.extend(admitted.warnings);
            if let Some(mut changed) = admitted.object {
                members(&mut changed["metadata"]).remove("resourceVersion");
                if is_status {
                    // Also admission writes only the status of a status.
                    changed = with_status_of(object, &changed);
                }
                self.set_generation(&generation, &mut changed, &current.value);
                self.check_admitted(&generation, &changed)?;
                object = changed;
            }
            keep_times(&mut object, &current.value);
            let changed = text(&object)?;
            check_made(&changed, size)?;
            if changed == current.text {
                return Ok(Written {
                    object: object_at(&changed, current.revision)?,
                    created: false,
                    removed: false,
                    warnings,
                });
            }
            let mut guards = vec![current.guard()];
            guards.extend(admitted.guards);
            let op = self.put_or_delete(&current, &object, &changed, caller.now);
            if let Outcome::Committed { revision } =
                self.commit(op, guards, options.dry_run).await?
            {
                self.visible(revision).await;
                let revision = if options.dry_run {
                    current.revision
                } else {
                    revision
                };
                return Ok(Written {
                    object: object_at(&changed, revision)?,
                    created: false,
                    removed: false,
                    warnings,
                });
            }
        }
        Err(self.contended(key))
    }

    /// What is stored of an object that changed: nothing, if only its last finalizer held it.
    pub(super) fn put_or_delete(
        &self,
        current: &Current,
        object: &Value,
        text: &[u8],
        now: u64,
    ) -> Op {
        let going = current.meta.deletion_timestamp.is_some();
        let key = current.store_key.clone();
        if going && !(self.rules.pending)(object) {
            return Op::Delete { key };
        }
        let envelope = Envelope {
            written: now,
            ..current.envelope.clone()
        };
        Op::Put {
            key,
            value: envelope.seal(text),
        }
    }

    /// The object as the request wants it, with all that the request may not write as it is, its owners, and warnings.
    fn changed(
        &self,
        generation: &Generation,
        key: &ObjectKey,
        current: &Current,
        body: &Body,
        options: &WriteOptions,
        writer: &Writer<'_>,
    ) -> Result<(Value, Vec<String>), Status> {
        let definition = &generation.definition;
        let is_patch = !matches!(body, Body::Object(_));
        let mut decoded = match body {
            Body::Object(body) => decode::body(definition, body)?,
            Body::JsonPatch(patch) => {
                let mut object = with_version(&current.value, current.revision);
                json_patch(&mut object, patch)?;
                decode::object(definition, patched(object)?)?
            }
            Body::MergePatch(patch) => {
                let mut object = with_version(&current.value, current.revision);
                merge_patch(&mut object, patch)?;
                decode::object(definition, patched(object)?)?
            }
            Body::StrategicPatch(patch) => {
                let mut object = with_version(&current.value, current.revision);
                strategic_merge_patch(&mut object, patch)?;
                decode::object(definition, patched(object)?)?
            }
            Body::Apply(configuration) => {
                let object = self.applied(generation, key, current, configuration, writer)?;
                return Ok((object, Vec::new()));
            }
        };
        match body {
            Body::MergePatch(patch) => {
                decoded.duplicates = decode::strict_of_patch(PatchType::Merge, patch);
            }
            Body::JsonPatch(patch) => {
                decoded.duplicates = decode::strict_of_patch(PatchType::Json, patch);
            }
            _ => {}
        }
        let mut strict = std::mem::take(&mut decoded.duplicates);
        strict.extend(Self::normalize(generation, &mut decoded.value));
        // As upstream: this comes before all else, so that also a refusal for another reason has the warnings.
        let mut warnings = if is_patch && options.field_validation == FieldValidation::Strict {
            refuse_unknown_in_patch(&decoded.value, strict)?
        } else {
            Self::judge_unknown(generation, options.field_validation, strict)?
        };
        self.settle(generation, key, current, &mut decoded, is_patch)
            .map_err(|status| status.with_warnings(&warnings))?;
        let mut object = decoded.value;
        warnings.extend(metadata::dedup_owners(&mut object));
        let is_status = writer.subresource.is_some();
        let mut object = Self::keep_rest(generation, object, &current.value, is_status);
        self.track(generation, Some(&current.value), &mut object, writer);
        Ok((object, warnings))
    }

    /// The object must be the one of the path, and the one that is there.
    fn settle(
        &self,
        generation: &Generation,
        key: &ObjectKey,
        current: &Current,
        decoded: &mut Decoded,
        is_patch: bool,
    ) -> Result<(), Status> {
        decode::check_key(&decoded.meta, key)?;
        decode::settle_namespace(&generation.definition, decoded, key.namespace.as_deref())?;
        let uid = Some(decoded.meta.uid.as_str()).filter(|uid| !uid.is_empty());
        if is_patch {
            // A patch is of the object that is there: to write another uid into it is to change it.
            self.refuse_other_uid(generation, current, uid)?;
        } else {
            current.check_uid(self, uid)?;
        }
        self.check_version(decoded, current)?;
        self.refuse_end(generation, decoded, current)
    }

    /// The object with all that a request may not write as it was.
    pub(super) fn keep_rest(
        generation: &Generation,
        mut object: Value,
        before: &Value,
        is_status: bool,
    ) -> Value {
        members(&mut object["metadata"]).remove("resourceVersion");
        metadata::carry_over(&mut object, before);
        if is_status {
            with_status_of(before.clone(), &object)
        } else if generation.definition.status_subresource {
            with_status_of(object, before)
        } else {
            object
        }
    }

    pub(super) fn refuse_other_uid(
        &self,
        generation: &Generation,
        current: &Current,
        uid: Option<&str>,
    ) -> Result<(), Status> {
        let Some(uid) = uid.filter(|uid| *uid != current.meta.uid) else {
            return Ok(());
        };
        let cause = Cause::invalid("metadata.uid", uid, IMMUTABLE);
        let (group, kind) = (&self.gvr().group, &generation.definition.kind);
        Err(Status::invalid(
            group,
            kind,
            &current.meta.name,
            vec![cause],
        ))
    }

    /// Who writes that an object is to be deleted is told that this is done by deleting it.
    fn refuse_end(
        &self,
        generation: &Generation,
        decoded: &Decoded,
        current: &Current,
    ) -> Result<(), Status> {
        let causes = decoded.meta.end_causes(&current.meta);
        if causes.is_empty() {
            return Ok(());
        }
        let (group, kind) = (&self.gvr().group, &generation.definition.kind);
        Err(Status::invalid(group, kind, &current.meta.name, causes))
    }

    /// Optimistic concurrency: who read another version must read again.
    fn check_version(&self, decoded: &Decoded, current: &Current) -> Result<(), Status> {
        match decoded.meta.resource_version.as_str() {
            "" | "0" if self.rules.unconditional_update => Ok(()),
            "" | "0" => Err(Status::invalid(
                &self.gvr().group,
                // ⚠ The plural stands where the kind should.
                &self.gvr().resource,
                &decoded.meta.name,
                vec![Cause::invalid(
                    "metadata.resourceVersion",
                    0,
                    "must be specified for an update",
                )],
            )),
            version if version == current.revision.to_string() => Ok(()),
            _ => Err(Status::modified(self.gvr(), &decoded.meta.name)),
        }
    }

    /// The generation rises with every change but those of metadata, and of a status that has its own subresource.
    pub(super) fn set_generation(&self, generation: &Generation, new: &mut Value, old: &Value) {
        if !self.rules.generation {
            return;
        }
        let ignored = |name: &str| {
            name == "metadata" || (name == STATUS && generation.definition.status_subresource)
        };
        let before = old["metadata"]["generation"].as_i64().unwrap_or_default();
        let relevant = |member: &(&String, &Value)| !ignored(member.0);
        let (was, is) = (old.as_object(), new.as_object());
        let was = was.into_iter().flatten().filter(relevant);
        let after = if is.into_iter().flatten().filter(relevant).eq(was) {
            before
        } else {
            before + 1
        };
        members(&mut new["metadata"]).insert("generation".to_owned(), after.into());
    }
}

/// `object` with the status of another.
fn with_status_of(mut object: Value, other: &Value) -> Value {
    match other.get(STATUS) {
        Some(status) => object[STATUS] = status.clone(),
        None => {
            members(&mut object).remove(STATUS);
        }
    }
    object
}

fn patched(object: Value) -> Result<Value, Status> {
    if object.is_object() {
        Ok(object)
    } else {
        Err(Status::unprocessable("the patch leaves no object"))
    }
}

/// What becomes of unknown fields in a patch that is read strictly.
///
/// # Errors
/// 422 if there are any.
pub(crate) fn refuse_unknown_in_patch(
    object: &Value,
    unknown: Vec<String>,
) -> Result<Vec<String>, Status> {
    if unknown.is_empty() {
        return Ok(unknown);
    }
    let cause = Cause::invalid("patch", object.to_string(), &strict_error(&unknown));
    // ⚠ Upstream does not say of which object.
    Err(Status::invalid("", "", "", vec![cause]))
}
