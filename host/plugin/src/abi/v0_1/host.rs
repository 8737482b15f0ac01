//! What a guest may ask of the host, and what the two tell each other of failures.

use bytes::Bytes;
use joinery_object::{Cause, Details, GroupVersionResource, ObjectKey, Status, reason};
use joinery_resource::LookupList;
use wasmtime::component::{HasSelf, Linker};

use super::{http, kubernetes, log, types};
use crate::output::Level;
use crate::state::{Lookups, State};

/// Most causes that a failure may have; the rest is cut.
const MAX_CAUSES: usize = 100;
/// Longest message of a failure, in bytes.
const MAX_MESSAGE: usize = 8 << 10;

/// Gives plugins what they may import of the contract.
pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    log::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    kubernetes::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    http::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

/// A guest's failure as a Status about one object.
pub(super) fn status(
    failure: types::Failure,
    resource: &GroupVersionResource,
    kind: &str,
    name: &str,
) -> Status {
    let (code, reason) = match failure.reason.as_str() {
        "BadRequest" => (400, reason::BAD_REQUEST),
        "Forbidden" => (403, reason::FORBIDDEN),
        "NotFound" => (404, reason::NOT_FOUND),
        "AlreadyExists" => (409, reason::ALREADY_EXISTS),
        "Conflict" => (409, reason::CONFLICT),
        "Expired" => (410, reason::EXPIRED),
        "RequestEntityTooLarge" => (413, reason::REQUEST_ENTITY_TOO_LARGE),
        "Invalid" => (422, reason::INVALID),
        "TooManyRequests" => (429, reason::TOO_MANY_REQUESTS),
        "ServerTimeout" => (500, reason::SERVER_TIMEOUT),
        "ServiceUnavailable" => (503, reason::SERVICE_UNAVAILABLE),
        "Timeout" => (504, reason::TIMEOUT),
        _ => (500, reason::INTERNAL_ERROR),
    };
    let cause = |c: types::Cause| Cause {
        reason: c.reason.into(),
        message: c.message,
        field: c.field,
    };
    let mut message = failure.message;
    message.truncate(message.floor_char_boundary(MAX_MESSAGE));
    Status::failure(code, reason, message).with_details(Details {
        name: name.to_owned(),
        group: resource.group.to_string(),
        kind: if code == 422 {
            kind.to_owned()
        } else {
            resource.resource.to_string()
        },
        causes: failure
            .causes
            .into_iter()
            .take(MAX_CAUSES)
            .map(cause)
            .collect(),
        retry_after_seconds: failure.retry_after_seconds.unwrap_or_default(),
        ..Details::default()
    })
}

/// The other way: what a look-up was refused with.
fn failure(status: Status) -> types::Failure {
    let retry_after_seconds = status.retry_after_seconds();
    let details = status.details.map(|details| *details).unwrap_or_default();
    let cause = |c: Cause| types::Cause {
        reason: c.reason.into_owned(),
        message: c.message,
        field: c.field,
    };
    types::Failure {
        reason: status.reason.into_owned(),
        message: status.message,
        causes: details.causes.into_iter().map(cause).collect(),
        retry_after_seconds,
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

impl State {
    fn lookups(&self) -> wasmtime::Result<Lookups> {
        let lookups = self.lookups.clone();
        lookups.ok_or_else(|| {
            wasmtime::Error::msg("joinery:plugin/kubernetes may be called within admit only")
        })
    }
}

impl From<types::GroupVersionResource> for GroupVersionResource {
    fn from(gvr: types::GroupVersionResource) -> Self {
        Self::new(&gvr.group, &gvr.version, &gvr.resource)
    }
}
