//! What a guest may ask of the host, and what the two tell each other of failures.

use bytes::Bytes;
use joinery_object::{Cause, GroupVersionResource, ObjectKey, Status};
use joinery_resource::LookupList;
use wasmtime::component::{HasSelf, Linker};

use super::super::Failure;
use super::{http, kubernetes, log, types};
use crate::output::Level;
use crate::state::State;

/// Gives plugins what they may import of the contract.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    log::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    kubernetes::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    http::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

impl From<types::Failure> for Failure {
    fn from(failure: types::Failure) -> Self {
        let cause = |c: types::Cause| Cause {
            reason: c.reason.into(),
            message: c.message,
            field: c.field,
        };
        Self {
            reason: failure.reason,
            message: failure.message,
            causes: failure.causes.into_iter().map(cause).collect(),
            retry_after_seconds: failure.retry_after_seconds,
        }
    }
}

/// What a look-up was refused with.
fn failure(status: Status) -> types::Failure {
    let failure = Failure::of(status);
    let cause = |c: Cause| types::Cause {
        reason: c.reason.into_owned(),
        message: c.message,
        field: c.field,
    };
    types::Failure {
        reason: failure.reason,
        message: failure.message,
        causes: failure.causes.into_iter().map(cause).collect(),
        retry_after_seconds: failure.retry_after_seconds,
    }
}

impl log::Host for State {
    async fn write(
        &mut self,
        level: log::Level,
        message: String,
        fields: Vec<(String, String)>,
    ) -> wasmtime::Result<()> {
        let level = match level {
            log::Level::Debug => Level::Debug,
            log::Level::Info => Level::Info,
            log::Level::Warn => Level::Warn,
            log::Level::Error => Level::Error,
        };
        self.output.record(level, &message, &fields);
        Ok(())
    }
}

impl types::Host for State {}

impl kubernetes::Host for State {
    async fn get(
        &mut self,
        gvr: types::GroupVersionResource,
        key: types::ObjectKeyResult,
    ) -> wasmtime::Result<Result<Option<Vec<u8>>, types::Failure>> {
        let lookups = self.lookups()?;
        let key = ObjectKey::new(key.namespace.as_deref(), &key.name);
        let found = lookups
            .host
            .spawn(async move { lookups.lookup.get(&gvr.into(), &key).await })
            .await?;
        Ok(found.map(|object| object.map(Into::into)).map_err(failure))
    }

    async fn list(
        &mut self,
        gvr: types::GroupVersionResource,
        options: kubernetes::ListOptions,
    ) -> wasmtime::Result<Result<kubernetes::ObjectList, types::Failure>> {
        let lookups = self.lookups()?;
        let options = LookupList {
            namespace: options.namespace,
            label_selector: options.label_selector,
            field_selector: options.field_selector,
            limit: options.limit,
        };
        let found = lookups
            .host
            .spawn(async move { lookups.lookup.list(&gvr.into(), &options).await })
            .await?;
        let list = |(items, truncated): (Vec<Bytes>, bool)| kubernetes::ObjectList {
            items: items.into_iter().map(Into::into).collect(),
            truncated,
        };
        Ok(found.map(list).map_err(failure))
    }
}

impl From<types::GroupVersionResource> for GroupVersionResource {
    fn from(gvr: types::GroupVersionResource) -> Self {
        Self::new(&gvr.group, &gvr.version, &gvr.resource)
    }
}
