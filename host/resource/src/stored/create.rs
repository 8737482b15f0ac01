//! create.

use std::sync::Arc;

use joinery_object::{Object, ObjectKey, Status, WriteOptions};
use joinery_store::{Guard, GuardFailure, Op};
use serde_json::Value;

use super::apply::writer;
use super::decode::{self, Decoded};
use super::envelope::Envelope;
use super::metadata::{self, ObjectMeta};
use super::names;
use super::namespaces;
use super::resource::{Generation, StoredResource};
use super::write::{ATTEMPTS, Outcome, check_made, check_size, now, object_at, text};
use crate::admit::{Operation, Review};
use crate::resource::{Caller, Definition, Written};

/// So many generated names are tried.
const NAMES: usize = 8;

/// What is to be created must be what the path says, if that names it.
fn settle(
    definition: &Definition,
    decoded: &mut Decoded,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Result<(), Status> {
    if !matches!(decoded.meta.resource_version.as_str(), "" | "0") {
        return Err(Status::bad_request(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    decode::settle_namespace(definition, decoded, namespace)?;
    let Some(name) = name else { return Ok(()) };
    if decoded.meta.name.is_empty() {
        set_name(decoded, name);
    }
    decode::check_key(&decoded.meta, &ObjectKey::new(namespace, name))
}

/// A create that is ready but for its name.
pub(super) struct Draft<'a> {
    pub(super) caller: &'a Caller,
    pub(super) generation: &'a Generation,
    /// With its owners.
    pub(super) decoded: Decoded,
    pub(super) warnings: Vec<String>,
    pub(super) dry_run: bool,
}

/// How an attempt to create an object of one name ended.
pub(super) enum Attempt {
    Created(Written),
    /// There is one of this name.
    Exists,
}

impl StoredResource {
    pub(super) async fn write_new(
        &self,
        caller: &Caller,
        namespace: Option<&str>,
        name: Option<&str>,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let generation = self.generation();
        let definition = &generation.definition;
        let mut decoded = decode::body(definition, body)?;
        let mut strict = std::mem::take(&mut decoded.duplicates);
        strict.extend(Self::normalize(&generation, &mut decoded.value));
        let mut warnings = Self::judge_unknown(&generation, options.field_validation, strict)?;
        let settled = settle(definition, &mut decoded, namespace, name);
        let repeated = settled.and_then(|()| decoded.dedup_owners());
        warnings.extend(repeated.map_err(|status| status.with_warnings(&warnings))?);
        metadata::wipe(&mut decoded.value);
        if definition.status_subresource {
            decode::members(&mut decoded.value).remove("status");
        }
        let writer = writer(caller, None, options);
        self.track(&generation, None, &mut decoded.value, &writer);
        let generated = decoded.meta.name.is_empty() && !decoded.meta.generate_name.is_empty();
        let mut draft = Draft {
            caller,
            generation: &generation,
            decoded,
            warnings,
            dry_run: options.dry_run,
        };
        for _ in 0..if generated { NAMES } else { 1 } {
            if generated {
                let name = names::generate(&draft.decoded.meta.generate_name);
                set_name(&mut draft.decoded, &name);
            }
            let attempt = self.create_named(&draft).await;
            let attempt = attempt.map_err(|status| status.with_warnings(&draft.warnings));
            if let Attempt::Created(written) = attempt? {
                return Ok(written);
            }
        }
        let name = &draft.decoded.meta.name;
        let exists = if generated {
            Status::generate_name_conflict(self.gvr(), name)
        } else {
            Status::already_exists(self.gvr(), name)
        };
        Err(exists.with_warnings(&draft.warnings))
    }

    pub(super) async fn create_named(&self, draft: &Draft<'_>) -> Result<Attempt, Status> {
        let Draft {
            caller,
            generation,
            decoded,
            ..
        } = draft;
        let meta = &decoded.meta;
        let namespace = Some(meta.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let key = ObjectKey::new(namespace, &meta.name);
        let mut object = decoded.value.clone();
        let members = decode::members(&mut object["metadata"]);
        members.insert("uid".to_owned(), uuid::Uuid::new_v4().to_string().into());
        members.insert("creationTimestamp".to_owned(), now(caller).into());
        if self.rules.generation {
            members.insert("generation".to_owned(), 1.into());
        }
        for _ in 0..ATTEMPTS {
            let mut guards = Vec::new();
            let mut envelope = Envelope {
                namespace_uid: String::new(),
                written: caller.now,
            };
            if let Some(namespace) = namespace {
                let namespaces = &**self.storage.namespaces();
                let found =
                    namespaces::for_create(namespaces, self.gvr(), namespace, &meta.name).await?;
                envelope.namespace_uid = found.uid;
                guards.extend(found.guard);
            }
            Self::validate(generation, &object, meta.causes(&self.rules))?;
            let store_key = self
                .store_key(&key)
                .map_err(|error| Status::bad_request(error.to_string()))?;
            guards.insert(
                0,
                Guard::KeyAtRevision {
                    key: store_key.clone(),
                    revision: None,
                },
            );
            let reviewed = text(&object)?;
            let size = reviewed.len();
            check_size(&reviewed, 0)?;
            let admitted = self
                .admit(
                    generation,
                    Review {
                        operation: Operation::Create,
                        subresource: None,
                        key: key.clone(),
                        object: Some(reviewed.into()),
                        old_object: None,
                        user: caller.user.clone(),
                        dry_run: draft.dry_run,
                        now: caller.now,
                    },
                    Some(&object),
                )
                .await?;
            guards.extend(admitted.guards);
            let object = match admitted.object {
                Some(changed) => {
                    self.check_admitted(generation, &changed)?;
                    changed
                }
                None => object.clone(),
            };
            let text = text(&object)?;
            check_made(&text, size)?;
            let op = Op::Put {
                key: store_key.clone(),
                value: envelope.seal(&text),
            };
            match self.commit(op, guards, draft.dry_run).await? {
                Outcome::Committed { revision } => {
                    self.visible(revision).await;
                    let mut warnings = draft.warnings.clone();
                    warnings.extend(meta.finalizer_warnings(&[]));
                    warnings.extend(admitted.warnings);
                    let object = if draft.dry_run {
                        // Nothing has this version.
                        Arc::new(Object::unversioned(text.into()).map_err(Status::internal)?)
                    } else {
                        object_at(&text, revision)?
                    };
                    return Ok(Attempt::Created(Written {
                        object,
                        created: true,
                        removed: false,
                        warnings,
                    }));
                }
                Outcome::Lost(Some(GuardFailure::Key { index: 0, .. })) => {
                    return Ok(Attempt::Exists);
                }
                Outcome::Lost(_) => {}
            }
        }
        Err(self.contended(&key))
    }

    /// What admission returned must be valid too.
    pub(super) fn check_admitted(
        &self,
        generation: &Generation,
        object: &Value,
    ) -> Result<(), Status> {
        let meta = ObjectMeta::read(object).map_err(|error| {
            Status::internal(format!(
                "admission returned an object with wrong metadata: {error}"
            ))
        })?;
        Self::validate(generation, object, meta.causes(&self.rules)).map_err(|mut status| {
            // The client's own object was valid.
            status.message.push_str(" (as admission made the object)");
            tracing::warn!(resource = %self.gvr(), %status, "admission made an object invalid");
            status
        })
    }
}

fn set_name(decoded: &mut Decoded, name: &str) {
    decode::members(&mut decoded.value["metadata"]).insert("name".to_owned(), name.into());
    decoded.meta.name = name.to_owned();
}
