//! Server-side apply, and who owns the fields that any write changes.
//!
//! Follows k8s.io/apiserver/pkg/endpoints/handlers (patch.go, fieldmanager). Otherwise is: a uid or resourceVersion in
//! the configuration is compared before anything is merged (a conflict of fields is not told beside another uid), and does
//! not get into kubectl's last-applied annotation.

use std::borrow::Cow;

use joinery_apply::Writer;
use joinery_object::{ObjectKey, Status, WriteOptions};
use serde_json::Value;

use super::create::{Attempt, Draft};
use super::decode::{self, Decoded};
use super::metadata;
use super::resource::{Generation, StoredResource};
use super::update::Current;
use crate::resource::{Caller, Written};

/// What a manager wants of an object.
pub(super) struct Configuration {
    /// Without the preconditions.
    value: Value,
    /// It must be this object.
    uid: Option<String>,
    /// It must be as it was at this version.
    resource_version: Option<String>,
    /// Take fields from other managers.
    force: bool,
}

impl Configuration {
    /// Reads the body of an apply patch, as JSON.
    ///
    /// # Errors
    /// 400 if it is no object.
    pub(super) fn read(body: &[u8], force: bool) -> Result<Self, Status> {
        let wrong = |detail: &str| Status::bad_request(format!("error decoding YAML: {detail}"));
        let mut value: Value =
            serde_json::from_slice(body).map_err(|error| wrong(&error.to_string()))?;
        let Some(members) = value.as_object_mut() else {
            return Err(wrong("the configuration must be an object"));
        };
        let mut metadata = members.get_mut("metadata").and_then(Value::as_object_mut);
        // One of another type stays, and is refused with all else that is not as the schema has it.
        let mut take = |name: &str| {
            let metadata = metadata.as_deref_mut()?;
            let text = metadata.get(name)?.as_str()?.to_owned();
            metadata.remove(name);
            Some(text).filter(|text| !text.is_empty())
        };
        Ok(Self {
            uid: take("uid"),
            resource_version: take("resourceVersion").filter(|version| version != "0"),
            value,
            force,
        })
    }
}

/// Who a request's fields belong to.
pub(super) fn writer<'a>(
    caller: &Caller,
    subresource: Option<&'a str>,
    options: &'a WriteOptions,
) -> Writer<'a> {
    Writer {
        manager: options.field_manager.as_deref().unwrap_or_default(),
        subresource,
        now: caller.now,
    }
}

/// A stored object as the present schema has it: what it drops is nobody's change, and what it fills in neither.
fn as_read<'a>(generation: &Generation, stored: &'a Value) -> Cow<'a, Value> {
    if generation.schema.is_none() {
        return Cow::Borrowed(stored);
    }
    let mut object = stored.clone();
    StoredResource::normalize(generation, &mut object);
    Cow::Owned(object)
}

impl StoredResource {
    /// Brings the owners of an object up to date that is about to be created, or to replace `live`.
    pub(super) fn track(
        &self,
        generation: &Generation,
        live: Option<&Value>,
        object: &mut Value,
        writer: &Writer<'_>,
    ) {
        let live = live.map(|live| as_read(generation, live));
        let live = live.as_deref();
        if let Err(error) = generation.manager.update(live, object, writer) {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            tracing::warn!(resource = %self.gvr(), name, %error, "an object is stored without managedFields");
        }
    }

    /// The object with what a manager wants of it, its fields and owners; what the request may not write is as it was.
    pub(super) fn applied(
        &self,
        generation: &Generation,
        key: &ObjectKey,
        current: &Current,
        configuration: &Configuration,
        writer: &Writer<'_>,
    ) -> Result<Value, Status> {
        self.refuse_other_uid(generation, current, configuration.uid.as_deref())?;
        match &configuration.resource_version {
            Some(version) if *version != current.revision.to_string() => {
                return Err(Status::modified(self.gvr(), &key.name));
            }
            _ => {}
        }
        let live = as_read(generation, &current.value);
        let Configuration { value, force, .. } = configuration;
        let object = generation
            .manager
            .apply(Some(&*live), value, writer, *force)?;
        let object = self.of_configuration(generation, key, object)?.value;
        let is_status = writer.subresource.is_some();
        let mut kept = Self::keep_rest(generation, object.clone(), &current.value, is_status);
        metadata::give_owners(&mut kept, &object);
        Ok(kept)
    }

    /// Creates the object that a manager wants. None: there has come to be one.
    ///
    /// # Errors
    /// 409 if the configuration is about a certain object, by its uid, and those of a create. ⚠ A resourceVersion does not count.
    pub(super) async fn apply_new(
        &self,
        caller: &Caller,
        generation: &Generation,
        key: &ObjectKey,
        configuration: &Configuration,
        options: &WriteOptions,
    ) -> Result<Option<Written>, Status> {
        if let Some(uid) = &configuration.uid {
            let message = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(Status::conflict(self.gvr(), &key.name, &message));
        }
        let Configuration { value, force, .. } = configuration;
        let writer = writer(caller, None, options);
        let object = generation.manager.apply(None, value, &writer, *force)?;
        let mut decoded = self.of_configuration(generation, key, object)?;
        metadata::wipe(&mut decoded.value);
        if generation.definition.status_subresource {
            decode::members(&mut decoded.value).remove("status");
        }
        let draft = Draft {
            caller,
            generation,
            decoded,
            warnings: Vec::new(),
            dry_run: options.dry_run,
        };
        match self.create_named(&draft).await? {
            Attempt::Created(written) => Ok(Some(written)),
            Attempt::Exists => Ok(None),
        }
    }

    /// What an apply led to must be the object of the path. Unknown fields of the configuration have been refused.
    fn of_configuration(
        &self,
        generation: &Generation,
        key: &ObjectKey,
        object: Value,
    ) -> Result<Decoded, Status> {
        let definition = &generation.definition;
        let mut decoded = decode::object(definition, object)?;
        if decoded.meta.name.is_empty() {
            return Err(Status::bad_request(format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                key.name
            )));
        }
        decode::check_key(&decoded.meta, key)?;
        decode::settle_namespace(definition, &mut decoded, key.namespace.as_deref())?;
        if let Some(schema) = &generation.schema {
            schema.default_but_keep_nulls(&mut decoded.value);
            schema.prune(&mut decoded.value);
        }
        Ok(decoded)
    }
}
