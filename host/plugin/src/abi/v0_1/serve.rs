//! The verbs of a resource that the guest answers itself.

use joinery_object::Status;
use joinery_resource::{Entry, EntryPage, ServeRequest, User};
use wasmtime::Store;

use super::super::{Answer, Call, Failure};
use super::{types, verbs};
use crate::state::State;

/// Entries that are asked for in one page.
const PAGE: u32 = 500;

fn entry(entry: verbs::Entry) -> Entry {
    Entry {
        object: entry.object.into(),
        etag: entry.etag,
    }
}

/// The parts of a user that are borrowed lists.
struct Lists<'a> {
    groups: Vec<&'a str>,
    values: Vec<Vec<&'a str>>,
}

impl<'a> Lists<'a> {
    fn of(user: &'a User) -> Self {
        let values = user.extra.iter();
        Self {
            groups: user.groups.iter().map(String::as_str).collect(),
            values: values
                .map(|(_, values)| values.iter().map(String::as_str).collect())
                .collect(),
        }
    }
}

/// Asks the guest. `kind` is that of the resource, for the details of a refusal.
pub(super) async fn serve(
    guest: &verbs::Guest,
    store: &mut Store<State>,
    kind: &str,
    request: &ServeRequest,
    call: &Call,
) -> wasmtime::Result<Result<Answer, Status>> {
    let lists = Lists::of(&request.user);
    let extra: Vec<(&str, &[&str])> = request
        .user
        .extra
        .iter()
        .zip(&lists.values)
        .map(|((key, _), values)| (key.as_str(), values.as_slice()))
        .collect();
    let asked = || verbs::Request {
        resource: &request.resource.resource,
        namespace: request.namespace.as_deref(),
        user: types::User {
            name: &request.user.name,
            uid: Some(request.user.uid.as_str()).filter(|uid| !uid.is_empty()),
            groups: &lists.groups,
            extra: &extra,
        },
        dry_run: request.dry_run,
        now: request.now,
    };
    let (name, answer) = match call {
        Call::Get { name } => {
            let found = guest.call_get(store, asked(), name).await?;
            (name.as_str(), found.map(|e| Answer::Entry(entry(e))))
        }
        Call::List {
            label_selector,
            field_selector,
            next,
        } => {
            let found = guest
                .call_list(
                    store,
                    asked(),
                    label_selector,
                    field_selector,
                    PAGE,
                    next.as_deref(),
                )
                .await?;
            let page = |page: verbs::Page| {
                Answer::Page(EntryPage {
                    entries: page.entries.into_iter().map(entry).collect(),
                    next: page.next,
                })
            };
            ("", found.map(page))
        }
        Call::Create { object } => {
            let made = guest.call_create(store, asked(), object).await?;
            ("", made.map(|e| Answer::Entry(entry(e))))
        }
        Call::Update { name, object, etag } => {
            let etag = etag.as_deref();
            let made = guest
                .call_update(store, asked(), name, object, etag)
                .await?;
            (name.as_str(), made.map(|e| Answer::Entry(entry(e))))
        }
        Call::Delete { name, etag } => {
            let gone = guest
                .call_delete(store, asked(), name, etag.as_deref())
                .await?;
            (name.as_str(), gone.map(|()| Answer::Done))
        }
    };
    Ok(answer.map_err(|failure| Failure::from(failure).status(&request.resource, kind, name)))
}
