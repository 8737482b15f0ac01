//! joinery:plugin@0.1.

use bytes::Bytes;
use joinery_object::{Cause, Details, GroupVersionResource, ObjectKey, Status, reason};
use joinery_resource::{LookupList, Operation, Review, Verdict};
use joinery_view::{CombineResult, Composed, Group, Selection, Side};
use wasmtime::Store;
use wasmtime::component::{HasSelf, Instance, InstancePre, Linker};

use crate::declared::{
    Declared, DeclaredColumn, DeclaredRelation, DeclaredResource, DeclaredShape, DeclaredSource,
};
use crate::inspect::Exported;
use crate::output::Level;
use crate::state::State;

mod bindings {
    #![allow(missing_docs, unreachable_pub)]
    #![allow(
        unsafe_code,
        reason = "bindgen! names functions by the types that it has checked"
    )]
    wasmtime::component::bindgen!({
        path: "../../wit/v0.1",
        inline: "
            package joinery:host;
            world plugin {
                import joinery:plugin/log@0.1.0;
                import joinery:plugin/kubernetes@0.1.0;
                export joinery:plugin/setup@0.1.0;
                export joinery:plugin/join@0.1.0;
                export joinery:plugin/admission@0.1.0;
            }
        ",
        world: "joinery:host/plugin",
        imports: { default: async | trappable },
        exports: { default: async },
        ownership: Borrowing { duplicate_if_necessary: true },
    });
}

use bindings::exports::joinery::plugin::{admission, join, setup};
use bindings::joinery::plugin::{kubernetes, log, types};

/// Most causes that a failure may have; the rest is cut.
const MAX_CAUSES: usize = 100;
/// Longest message of a failure, in bytes.
const MAX_MESSAGE: usize = 8 << 10;

/// Gives plugins what they may import of the contract.
pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    log::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    kubernetes::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

/// Where a component's exports are.
pub(crate) struct Indices {
    setup: setup::GuestIndices,
    join: Option<join::GuestIndices>,
    admission: Option<admission::GuestIndices>,
}

impl Indices {
    /// Finds what the component exports.
    pub(crate) fn new(pre: &InstancePre<State>, exported: Exported) -> wasmtime::Result<Self> {
        Ok(Self {
            setup: setup::GuestIndices::new(pre)?,
            join: exported
                .join
                .then(|| join::GuestIndices::new(pre))
                .transpose()?,
            admission: exported
                .admission
                .then(|| admission::GuestIndices::new(pre))
                .transpose()?,
        })
    }

    /// The exports of one instance; an error when their types are not the contract's.
    pub(crate) fn load(
        &self,
        store: &mut Store<State>,
        instance: &Instance,
    ) -> wasmtime::Result<Exports> {
        Ok(Exports {
            setup: self.setup.load(&mut *store, instance)?,
            join: self
                .join
                .as_ref()
                .map(|join| join.load(&mut *store, instance))
                .transpose()?,
            admission: self
                .admission
                .as_ref()
                .map(|a| a.load(&mut *store, instance))
                .transpose()?,
        })
    }
}

/// The exports of one instance.
pub(crate) struct Exports {
    setup: setup::Guest,
    join: Option<join::Guest>,
    admission: Option<admission::Guest>,
}

impl Exports {
    pub(crate) async fn configure(
        &self,
        store: &mut Store<State>,
        settings: &str,
    ) -> wasmtime::Result<Result<(), String>> {
        self.setup.call_configure(store, settings).await
    }

    pub(crate) async fn describe(&self, store: &mut Store<State>) -> wasmtime::Result<Declared> {
        Ok(self.setup.call_describe(store).await?.into())
    }

    fn join(&self) -> wasmtime::Result<&join::Guest> {
        self.join
            .as_ref()
            .ok_or_else(|| wasmtime::Error::msg("no export joinery:plugin/join"))
    }

    pub(crate) async fn keys(
        &self,
        store: &mut Store<State>,
        relation: &str,
        side: Side,
        objects: &[Bytes],
    ) -> wasmtime::Result<Vec<Vec<String>>> {
        let side = match side {
            Side::Parent => join::Side::Parent,
            Side::Child => join::Side::Child,
        };
        let borrowed: Vec<&[u8]> = objects.iter().map(AsRef::as_ref).collect();
        let keys = self
            .join()?
            .call_keys(store, relation, side, &borrowed)
            .await?;
        as_many("keys", keys.len(), objects.len())?;
        Ok(keys)
    }

    pub(crate) async fn query(
        &self,
        store: &mut Store<State>,
        relation: &str,
        keys: &[String],
    ) -> wasmtime::Result<Selection> {
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        Ok(
            match self.join()?.call_query(store, relation, &keys).await? {
                join::Selection::All => Selection::All,
                join::Selection::Selector(join::Selector {
                    label_selector,
                    field_selector,
                }) => Selection::Selector {
                    label_selector,
                    field_selector,
                },
                join::Selection::Names(names) => {
                    let key = |k: &types::ObjectKeyResult| {
                        ObjectKey::new(k.namespace.as_deref(), &k.name)
                    };
                    Selection::Names(names.iter().map(key).collect())
                }
            },
        )
    }

    pub(crate) async fn combine(
        &self,
        store: &mut Store<State>,
        resource: &GroupVersionResource,
        groups: &[Group],
    ) -> wasmtime::Result<Vec<CombineResult>> {
        // Borrowed all the way down: from the host's bytes into the guest's memory there is one copy.
        let lists: Vec<Vec<(Vec<&[u8]>, Vec<&[u32]>)>> = groups
            .iter()
            .map(|group| {
                group
                    .branches
                    .iter()
                    .map(|branch| {
                        (
                            branch.objects.iter().map(AsRef::as_ref).collect(),
                            branch.parents.iter().map(Vec::as_slice).collect(),
                        )
                    })
                    .collect()
            })
            .collect();
        let branches: Vec<Vec<join::Branch<'_>>> = groups
            .iter()
            .zip(&lists)
            .map(|(group, lists)| {
                group
                    .branches
                    .iter()
                    .zip(lists)
                    .map(|(branch, (objects, parents))| join::Branch {
                        objects,
                        parents,
                        omitted: branch.omitted,
                    })
                    .collect()
            })
            .collect();
        let borrowed: Vec<join::Group<'_>> = groups
            .iter()
            .zip(&branches)
            .map(|(group, branches)| join::Group {
                primary: &group.primary,
                branches,
            })
            .collect();
        let results = self
            .join()?
            .call_combine(store, &resource.resource, &borrowed)
            .await?;
        as_many("combine", results.len(), groups.len())?;
        let composed = |composed: join::Composed| Composed {
            text: composed.text.into(),
            inserts: composed
                .inserts
                .into_iter()
                .map(|insert| (insert.at, insert.input))
                .collect(),
        };
        let result = |result: Result<Option<join::Composed>, types::Failure>| match result {
            Ok(object) => Ok(object.map(composed)),
            Err(failure) => Err(status(failure, resource, "", "")),
        };
        Ok(results.into_iter().map(result).collect())
    }

    /// `kind` is that of the resource, for the details of a refusal.
    pub(crate) async fn admit(
        &self,
        store: &mut Store<State>,
        resource: &GroupVersionResource,
        kind: &str,
        review: &Review,
    ) -> wasmtime::Result<Result<Verdict, Status>> {
        let guest = self
            .admission
            .as_ref()
            .ok_or_else(|| wasmtime::Error::msg("no export joinery:plugin/admission"))?;
        let groups: Vec<&str> = review.user.groups.iter().map(String::as_str).collect();
        let values: Vec<Vec<&str>> = review
            .user
            .extra
            .iter()
            .map(|(_, values)| values.iter().map(String::as_str).collect())
            .collect();
        let extra: Vec<(&str, &[&str])> = review
            .user
            .extra
            .iter()
            .zip(&values)
            .map(|((key, _), values)| (key.as_str(), values.as_slice()))
            .collect();
        let borrowed = admission::Review {
            operation: match review.operation {
                Operation::Create => admission::Operation::Create,
                Operation::Update => admission::Operation::Update,
                Operation::Delete => admission::Operation::Delete,
            },
            subresource: review.subresource.as_deref(),
            key: types::ObjectKeyParam {
                namespace: review.key.namespace.as_deref(),
                name: &review.key.name,
            },
            object: review.object.as_deref(),
            old_object: review.old_object.as_deref(),
            user: types::User {
                name: &review.user.name,
                uid: Some(review.user.uid.as_str()).filter(|uid| !uid.is_empty()),
                groups: &groups,
                extra: &extra,
            },
            dry_run: review.dry_run,
            now: review.now,
        };
        let admitted = guest
            .call_admit(store, &resource.resource, borrowed)
            .await?;
        Ok(match admitted {
            Ok(verdict) => Ok(Verdict {
                object: verdict.object.map(Into::into),
                warnings: verdict.warnings,
            }),
            Err(failure) => Err(status(failure, resource, kind, &review.key.name)),
        })
    }
}

fn as_many(function: &str, found: usize, wanted: usize) -> wasmtime::Result<()> {
    if found == wanted {
        return Ok(());
    }
    Err(wasmtime::Error::msg(format!(
        "{function} gave {found} results for {wanted} inputs"
    )))
}

impl From<setup::Description> for Declared {
    fn from(description: setup::Description) -> Self {
        Self {
            resources: description.resources.into_iter().map(Into::into).collect(),
            sources: description.sources.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<setup::ApiResource> for DeclaredResource {
    fn from(r: setup::ApiResource) -> Self {
        let column = |c: setup::Column| DeclaredColumn {
            name: c.name,
            kind: c.type_,
            format: c.format,
            description: c.description,
            json_path: c.json_path,
            priority: c.priority,
        };
        let relation = |r: setup::Relation| DeclaredRelation {
            name: r.name,
            source: r.source,
            parent: r.parent,
            any_namespace: matches!(r.reach, setup::Reach::AnyNamespace),
            limit: r.limit,
        };
        Self {
            group: r.group,
            version: r.version,
            kind: r.kind,
            list_kind: r.list_kind,
            plural: r.plural,
            singular: r.singular,
            short_names: r.short_names,
            categories: r.categories,
            namespaced: r.namespaced,
            schema: r.schema,
            columns: r.columns.into_iter().map(column).collect(),
            selectable_fields: r.selectable_fields,
            status: r
                .subresources
                .iter()
                .any(|s| matches!(s, setup::Subresource::Status)),
            scale: r
                .subresources
                .iter()
                .any(|s| matches!(s, setup::Subresource::Scale(_))),
            shape: match r.shape {
                setup::Shape::Stored => DeclaredShape::Stored,
                setup::Shape::View(view) => DeclaredShape::View {
                    primary: view.primary,
                    relations: view.relations.into_iter().map(relation).collect(),
                },
                setup::Shape::Served(_) => DeclaredShape::Served,
            },
            options: r.options.into_iter().map(|(name, _)| name).collect(),
        }
    }
}

impl From<setup::Source> for DeclaredSource {
    fn from(s: setup::Source) -> Self {
        Self {
            name: s.name,
            group: s.gvr.group,
            version: s.gvr.version,
            resource: s.gvr.resource,
            label_selector: s.label_selector,
            field_selector: s.field_selector,
            reads: s.reads,
            optional: s.optional,
            options: s.options.into_iter().map(|(name, _)| name).collect(),
        }
    }
}

/// A guest's failure as a Status about one object.
fn status(
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
    fn lookups(&self) -> wasmtime::Result<crate::state::Lookups> {
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
