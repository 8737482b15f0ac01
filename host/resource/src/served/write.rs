//! What is done before and after the plugin writes.

use bytes::Bytes;
use joinery_object::{
    Cause, DeleteOptions, FieldValidation, ObjectKey, Status, WriteOptions, json_patch,
    merge_patch, reason,
};
use serde_json::Value;

use super::{Current, Shared};
use crate::resource::{Caller, PatchType, Written};
use crate::serve::Entry;
use crate::stored::decode::{self, Decoded};
use crate::stored::metadata::{self, ObjectMeta};
use crate::stored::{Rules, names, namespaces};

/// How often a patch is made again when somebody else was faster.
const ATTEMPTS: usize = 5;

impl Shared {
    pub(super) async fn write_new(
        &self,
        current: &Current,
        caller: &Caller,
        namespace: Option<&str>,
        name: Option<&str>,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let definition = &current.definition;
        let mut decoded = decode::body(definition, body)?;
        if !matches!(decoded.meta.resource_version.as_str(), "" | "0") {
            return Err(Status::bad_request(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        decode::settle_namespace(definition, &mut decoded, namespace)?;
        let generated = match name {
            Some(name) if decoded.meta.name.is_empty() => Some(name.to_owned()),
            None if decoded.meta.name.is_empty() && !decoded.meta.generate_name.is_empty() => {
                Some(names::generate(&decoded.meta.generate_name))
            }
            _ => None,
        };
        if let Some(generated) = generated {
            decode::members(&mut decoded.value["metadata"])
                .insert("name".to_owned(), generated.clone().into());
            decoded.meta.name = generated;
        }
        if let Some(name) = name {
            decode::check_key(&decoded.meta, &ObjectKey::new(namespace, name))?;
        }
        metadata::wipe(&mut decoded.value);
        let strict = std::mem::take(&mut decoded.duplicates);
        let mut warnings = normalize(
            current,
            &mut decoded.value,
            strict,
            options.field_validation,
            false,
        )?;
        warnings.extend(decoded.dedup_owners()?);
        let warned = |status: Status| status.with_warnings(&warnings);
        let causes = decoded.meta.causes(&Rules::default());
        validate(current, &decoded.value, causes).map_err(warned)?;
        if let Some(namespace) = namespace {
            let name = &decoded.meta.name;
            namespaces::for_create(&*self.namespaces, &definition.gvr, namespace, name)
                .await
                .map_err(warned)?;
        }
        let request = Self::request(current, caller, namespace, options.dry_run);
        let entry = current.serve.create(request, text(&decoded.value)?).await;
        let entry = entry.map_err(warned)?;
        warnings.extend(decoded.meta.finalizer_warnings(&[]));
        let written = Written {
            created: true,
            warnings,
            ..self.wrote(current, &entry, namespace, &decoded.meta.name, options)?
        };
        Ok(written)
    }

    pub(super) async fn write_change(
        &self,
        current: &Current,
        caller: &Caller,
        key: &ObjectKey,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let decoded = decode::body(&current.definition, body)?;
        decode::check_key(&decoded.meta, key)?;
        let (before, etag) = self.read_one(current, caller, key).await?;
        let unconditional = matches!(decoded.meta.resource_version.as_str(), "" | "0");
        if !unconditional && decoded.meta.resource_version != before.resource_version().to_string()
        {
            return Err(Status::modified(&current.definition.gvr, &key.name));
        }
        let etag = Some(etag).filter(|_| !unconditional);
        let before = serde_json::from_slice(&before.bytes()).map_err(Status::internal)?;
        self.change(current, caller, key, decoded, &before, etag, options, false)
            .await
    }

    pub(super) async fn write_patch(
        &self,
        current: &Current,
        caller: &Caller,
        key: &ObjectKey,
        patch: PatchType,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let apply = match patch {
            PatchType::Json => json_patch,
            PatchType::Merge => merge_patch,
            // Who owns which field is kept with objects that this host stores, and nowhere else.
            PatchType::Strategic | PatchType::Apply => {
                return Err(Status::unsupported_media_type(&[
                    "application/json-patch+json",
                    "application/merge-patch+json",
                ]));
            }
        };
        let mut attempt = 0;
        loop {
            attempt += 1;
            let (object, etag) = self.read_one(current, caller, key).await?;
            let before: Value =
                serde_json::from_slice(&object.bytes()).map_err(Status::internal)?;
            let mut patched = before.clone();
            apply(&mut patched, body)?;
            if !patched.is_object() {
                return Err(Status::unprocessable("the patch leaves no object"));
            }
            let mut decoded = decode::object(&current.definition, patched)?;
            decoded.duplicates = decode::strict_of_patch(patch, body);
            decode::check_key(&decoded.meta, key)?;
            let version = object.resource_version().to_string();
            if decoded.meta.resource_version != version {
                return Err(Status::modified(&current.definition.gvr, &key.name));
            }
            let etag = Some(etag);
            match self
                .change(current, caller, key, decoded, &before, etag, options, true)
                .await
            {
                Err(status) if status.is(reason::CONFLICT) && attempt < ATTEMPTS => {}
                outcome => return outcome,
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "each is a part of one request, and this is its only reader"
    )]
    async fn change(
        &self,
        current: &Current,
        caller: &Caller,
        key: &ObjectKey,
        mut decoded: Decoded,
        before: &Value,
        etag: Option<String>,
        options: &WriteOptions,
        is_patch: bool,
    ) -> Result<Written, Status> {
        let definition = &current.definition;
        let namespace = key.namespace.as_deref();
        decode::settle_namespace(definition, &mut decoded, namespace)?;
        let old = ObjectMeta::read(before).map_err(Status::internal)?;
        if !decoded.meta.uid.is_empty() && decoded.meta.uid != old.uid {
            let message = format!(
                "Precondition failed: UID in precondition: {}, UID in object meta: {}",
                decoded.meta.uid, old.uid
            );
            return Err(Status::conflict(&definition.gvr, &key.name, &message));
        }
        let repeated = decoded.dedup_owners()?;
        let mut object = decoded.value;
        metadata::carry_over(&mut object, before);
        decode::members(&mut object["metadata"]).remove("resourceVersion");
        let (strict, validation) = (decoded.duplicates, options.field_validation);
        let mut warnings = normalize(current, &mut object, strict, validation, is_patch)?;
        warnings.extend(repeated);
        let warned = |status: Status| status.with_warnings(&warnings);
        let causes = decoded.meta.causes(&Rules::default());
        validate(current, &object, causes).map_err(warned)?;
        let request = Self::request(current, caller, namespace, options.dry_run);
        let update = current
            .serve
            .update(request, key.name.to_string(), text(&object)?, etag);
        let entry = update.await.map_err(warned)?;
        warnings.extend(decoded.meta.finalizer_warnings(&old.finalizers));
        Ok(Written {
            warnings,
            ..self.wrote(current, &entry, namespace, &key.name, options)?
        })
    }

    pub(super) async fn write_delete(
        &self,
        current: &Current,
        caller: &Caller,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<Written, Status> {
        let gvr = &current.definition.gvr;
        let (object, etag) = self.read_one(current, caller, key).await?;
        let version = object.resource_version().to_string();
        let preconditions = &options.preconditions;
        for (what, wanted, found) in [
            ("UID", &preconditions.uid, object.uid()),
            (
                "ResourceVersion",
                &preconditions.resource_version,
                version.as_str(),
            ),
        ] {
            if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != found) {
                let message = format!(
                    "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
                );
                return Err(Status::conflict(gvr, &key.name, &message));
            }
        }
        let conditional = preconditions.uid.is_some() || preconditions.resource_version.is_some();
        let namespace = key.namespace.as_deref();
        let request = Self::request(current, caller, namespace, options.dry_run);
        let etag = Some(etag).filter(|_| conditional);
        let name = key.name.to_string();
        current.serve.delete(request, name, etag).await?;
        if !options.dry_run {
            self.observed.saw(self.observed.ticket(), key, None);
        }
        Ok(Written {
            object,
            created: false,
            removed: true,
            warnings: Vec::new(),
        })
    }

    /// What the plugin made of a write, with a version of ours.
    fn wrote(
        &self,
        current: &Current,
        entry: &Entry,
        namespace: Option<&str>,
        name: &str,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let object = Self::object(current, entry, namespace, Some(name))?;
        let key = object.key().clone();
        let object = if options.dry_run {
            std::sync::Arc::new(object)
        } else {
            // What was read while the plugin wrote is older, whatever it says.
            let ticket = self.observed.ticket();
            let known = self.observed.saw(ticket, &key, Some(object));
            known.ok_or_else(|| Status::not_found(&current.definition.gvr, name))?
        };
        Ok(Written {
            object,
            created: false,
            removed: false,
            warnings: Vec::new(),
        })
    }
}

fn text(object: &Value) -> Result<Bytes, Status> {
    let text = serde_json::to_vec(object).map_err(Status::internal)?;
    Ok(text.into())
}

/// Fills in defaults and drops unknown fields; gives the warnings about these, and about what else is `strict` to be refused.
fn normalize(
    current: &Current,
    object: &mut Value,
    strict: Vec<String>,
    validation: FieldValidation,
    is_patch: bool,
) -> Result<Vec<String>, Status> {
    current.schema.default(object);
    let mut unknown = strict;
    unknown.extend(current.schema.prune(object));
    match validation {
        FieldValidation::Strict if is_patch => {
            crate::stored::refuse_unknown_in_patch(object, unknown)
        }
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(unknown),
        FieldValidation::Strict if unknown.is_empty() => Ok(unknown),
        FieldValidation::Strict => {
            let detail = crate::stored::strict_error(&unknown);
            let definition = &current.definition;
            Err(decode::cannot_be_handled(
                definition,
                &definition.kind,
                &detail,
            ))
        }
    }
}

fn validate(current: &Current, object: &Value, mut causes: Vec<Cause>) -> Result<(), Status> {
    let found = current.schema.validate(object).into_iter();
    causes.extend(found.map(|cause| Cause {
        reason: cause.reason.into(),
        message: cause.message,
        field: cause.field,
    }));
    if causes.is_empty() {
        return Ok(());
    }
    let definition = &current.definition;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    Err(Status::invalid(
        &definition.gvr.group,
        &definition.kind,
        name,
        causes,
    ))
}
