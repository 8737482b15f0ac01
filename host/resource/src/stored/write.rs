//! What all writes have in common: schema, admission, and a commit that holds only if what it rests on still does.

use std::sync::Arc;
use std::time::Duration;

use joinery_object::{Cause, FieldValidation, Object, ObjectKey, ResourceVersion, Status};
use joinery_store::{Committed, Guard, GuardFailure, Op, TxnError};
use serde_json::Value;

use super::decode::{self, cannot_be_handled};
use super::lookup::GuardedLookup;
use super::metadata;
use super::resource::{Generation, StoredResource};
use super::storage::store_failure;
use crate::admit::{Review, Verdict};
use crate::resource::Caller;

/// How often admission is run again when what it read has changed before the commit.
pub(super) const ATTEMPTS: usize = 5;

/// How a commit ended.
pub(super) enum Outcome {
    /// It took place, or would have.
    Committed {
        /// The store's revision; of a dry run the present one.
        revision: u64,
    },
    /// A guard did not hold. What stood against it, where it is known.
    Lost(Option<GuardFailure>),
}

/// Bytes that an object may have: what a request may have, for no client could send back more.
const MAX_OBJECT: usize = 3 << 20;

/// What admission made of an object.
pub(super) struct Admitted {
    /// None: it goes as it came.
    pub(super) object: Option<Value>,
    pub(super) warnings: Vec<String>,
    /// What it read of the store.
    pub(super) guards: Vec<Guard>,
}

impl StoredResource {
    /// Fills in defaults and drops unknown fields, as the schema has it.
    ///
    /// Returns the words about each unknown field.
    pub(super) fn normalize(generation: &Generation, object: &mut Value) -> Vec<String> {
        let Some(schema) = &generation.schema else {
            return Vec::new();
        };
        schema.default(object);
        schema.prune(object)
    }

    /// What becomes of unknown fields in the body of a create or update.
    ///
    /// # Errors
    /// 400 if they are not to be tolerated.
    pub(super) fn judge_unknown(
        generation: &Generation,
        validation: FieldValidation,
        unknown: Vec<String>,
    ) -> Result<Vec<String>, Status> {
        match validation {
            FieldValidation::Ignore => Ok(Vec::new()),
            FieldValidation::Warn => Ok(unknown),
            FieldValidation::Strict if unknown.is_empty() => Ok(unknown),
            FieldValidation::Strict => {
                let definition = &generation.definition;
                let detail = strict_error(&unknown);
                Err(cannot_be_handled(definition, &definition.kind, &detail))
            }
        }
    }

    /// # Errors
    /// 422 with what `causes` and the schema find wrong.
    pub(super) fn validate(
        generation: &Generation,
        object: &Value,
        mut causes: Vec<Cause>,
    ) -> Result<(), Status> {
        if let Some(schema) = &generation.schema {
            let found = schema.validate(object).into_iter().map(|cause| Cause {
                reason: cause.reason.into(),
                message: cause.message,
                field: cause.field,
            });
            causes.extend(found);
        }
        if causes.is_empty() {
            return Ok(());
        }
        let definition = &generation.definition;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        Err(Status::invalid(
            &definition.gvr.group,
            &definition.kind,
            name,
            causes,
        ))
    }

    /// Asks the rules of the resource. `before` is the object of the review, which is its text.
    ///
    /// # Errors
    /// Their refusal.
    pub(super) async fn admit(
        &self,
        generation: &Generation,
        review: Review,
        before: Option<&Value>,
    ) -> Result<Admitted, Status> {
        let Some(admit) = &generation.admit else {
            return Ok(Admitted {
                object: None,
                warnings: Vec::new(),
                guards: Vec::new(),
            });
        };
        let lookup = Arc::new(GuardedLookup::new(self.storage.clone()));
        let given = review.object.clone();
        let Verdict { object, warnings } = admit.admit(self.gvr(), review, lookup.clone()).await?;
        let object = match (object, before) {
            // As it came: all that is checked below has been.
            (Some(object), Some(_)) if given.as_ref() == Some(&object) => None,
            (Some(text), Some(before)) => {
                check_made(&text, given.map_or(0, |given| given.len()))?;
                let mut object: Value = serde_json::from_slice(&text)
                    .ok()
                    .filter(Value::is_object)
                    .ok_or_else(|| {
                        Status::internal("admission returned something that is no JSON object")
                    })?;
                same_kind(&object, before)?;
                metadata::guard(&mut object, before);
                Some(object)
            }
            _ => None,
        };
        Ok(Admitted {
            object,
            warnings,
            guards: lookup.guards(),
        })
    }

    /// Commits if all guards hold. A dry run only asks whether they do.
    pub(super) async fn commit(
        &self,
        op: Op,
        guards: Vec<Guard>,
        dry_run: bool,
    ) -> Result<Outcome, Status> {
        let ops = if dry_run { Vec::new() } else { vec![op] };
        match self.storage.store().txn(ops, guards).await {
            Ok(Committed { revision, .. }) => Ok(Outcome::Committed { revision }),
            Err(TxnError::GuardFailed(failure)) => Ok(Outcome::Lost(Some(failure))),
            Err(TxnError::Store(
                joinery_store::StoreError::Compacted { .. }
                | joinery_store::StoreError::Future { .. },
            )) => Ok(Outcome::Lost(None)),
            Err(TxnError::Store(error)) => Err(store_failure(error)),
        }
    }

    /// Waits until reads show a write.
    pub(super) async fn visible(&self, revision: u64) {
        /// The write is durable; that it is not yet seen here is no reason to keep its client waiting for long.
        const PATIENCE: Duration = Duration::from_secs(5);
        if !self.cache.reached(revision, PATIENCE).await {
            tracing::warn!(resource = %self.gvr(), revision, "the watch cache trails a write");
        }
    }

    /// 409 of a write whose ground changed again and again.
    pub(super) fn contended(&self, key: &ObjectKey) -> Status {
        let message = format!(
            "what its admission rests on changed during each of {ATTEMPTS} attempts; please try again"
        );
        Status::conflict(self.gvr(), &key.name, &message).with_retry_after(1)
    }
}

/// Admission completes an object; it makes none of another kind of it. Of its metadata, what the host owns is put back afterwards.
fn same_kind(object: &Value, before: &Value) -> Result<(), Status> {
    for field in ["apiVersion", "kind"] {
        let (given, made) = (&before[field], &object[field]);
        if given != made {
            return Err(Status::internal(format!(
                "admission returned another object: its {field} is {made}, not {given}"
            )));
        }
    }
    Ok(())
}

/// # Errors
/// 500 for an object that admission has made too large: with `given` bytes it came.
pub(super) fn check_made(text: &[u8], given: usize) -> Result<(), Status> {
    if text.len() <= MAX_OBJECT.max(given) {
        return Ok(());
    }
    Err(Status::internal(format!(
        "admission made an object of {} bytes of it, at most {MAX_OBJECT} are stored",
        text.len()
    )))
}

/// # Errors
/// 413 for an object that is too large with what the host adds to it. One that had `before` bytes already may become smaller.
pub(super) fn check_size(text: &[u8], before: usize) -> Result<(), Status> {
    if text.len() <= MAX_OBJECT.max(before) {
        return Ok(());
    }
    Err(Status::too_large(format!(
        "the object has {} bytes with what the server adds to it, such as managedFields; limit is {MAX_OBJECT}",
        text.len()
    )))
}

/// As k8s.io/apimachinery/pkg/runtime words it.
pub(crate) fn strict_error(unknown: &[String]) -> String {
    format!("strict decoding error: {}", unknown.join(", "))
}

/// The object at a version.
pub(super) fn object_at(text: &[u8], revision: u64) -> Result<Arc<Object>, Status> {
    let text = bytes::Bytes::copy_from_slice(text);
    Object::parse_at(text, ResourceVersion::single(revision))
        .map(Arc::new)
        .map_err(Status::internal)
}

/// An object as JSON, its members sorted.
pub(super) fn text(object: &Value) -> Result<Vec<u8>, Status> {
    serde_json::to_vec(object).map_err(Status::internal)
}

/// An object as admission sees it, at its present version, as JSON. The object is then as it was: without one.
pub(super) fn text_at(object: &mut Value, revision: u64) -> Result<Vec<u8>, Status> {
    object["metadata"]["resourceVersion"] = revision.to_string().into();
    let text = text(object);
    decode::members(&mut object["metadata"]).remove("resourceVersion");
    text
}

/// An object as a patch sees it, at its present version.
pub(super) fn with_version(object: &Value, revision: u64) -> Value {
    let mut object = object.clone();
    object["metadata"]["resourceVersion"] = revision.to_string().into();
    object
}

/// Time of the request, as an object has it.
pub(super) fn now(caller: &Caller) -> String {
    metadata::timestamp(caller.now)
}
