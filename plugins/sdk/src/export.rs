//! Between the traits and what wit-bindgen expects of a component: conversions, and the one configured value that an
//! instance holds.

use std::marker::PhantomData;
use std::sync::OnceLock;

use crate::bindings::admission::exports::joinery::plugin::admission;
use crate::bindings::admission::joinery::plugin::kubernetes as host;
use crate::bindings::join::exports::joinery::plugin::join;
use crate::bindings::setup::exports::joinery::plugin::setup;
use crate::bindings::setup::joinery::plugin::types;
use crate::bindings::verbs::exports::joinery::plugin::verbs;
use crate::bindings::verbs::joinery::plugin::http as outbound;
use crate::{
    Admission, Branch, Composed, Entry, Failure, Group, GroupVersionResource, Http, HttpError,
    HttpRequest, HttpResponse, Kubernetes, ListOptions, ListPage, ObjectKey, ObjectList, Operation,
    Outside, Plugin, Reach, Request, Review, Selection, Shape, Side, Subresource, User, Verbs,
    View,
};

/// Exports a [`View`] from the component.
#[macro_export]
macro_rules! export_view {
    ($logic:ty) => {
        $crate::component!($logic, join);
    };
}

/// Exports an [`Admission`] from the component.
#[macro_export]
macro_rules! export_admission {
    ($logic:ty) => {
        $crate::component!($logic, admission);
    };
}

/// Exports a [`Verbs`] from the component.
#[macro_export]
macro_rules! export_verbs {
    ($logic:ty) => {
        $crate::component!($logic, verbs);
    };
}

/// Exports a type that is a [`View`] and an [`Admission`]: a plugin that serves resources of both shapes.
#[macro_export]
macro_rules! export_view_and_admission {
    ($logic:ty) => {
        $crate::component!($logic, join, admission);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! component {
    ($logic:ty, $($interface:ident),+) => {
        #[allow(unsafe_code, reason = "the component's entry points are unmangled symbols")]
        const _: () = {
            impl $crate::Instance for $logic {
                fn cell() -> &'static ::std::sync::OnceLock<Self> {
                    static CELL: ::std::sync::OnceLock<$logic> = ::std::sync::OnceLock::new();
                    &CELL
                }
            }
            type Component = $crate::Exported<$logic>;
            $crate::bindings::setup::export!(Component with_types_in $crate::bindings::setup);
            $($crate::bindings::$interface::export!(Component with_types_in $crate::bindings::$interface);)+
        };
    };
}

/// Where an instance keeps what `configure` made.
pub trait Instance: Plugin {
    /// Empty until `configure`.
    fn cell() -> &'static OnceLock<Self>;
}

/// The component around a plugin's logic.
pub struct Exported<T>(PhantomData<T>);

fn configure<T: Instance>(settings: &str) -> Result<(), String> {
    T::cell()
        .set(T::configure(settings)?)
        .map_err(|_| "configured twice".to_owned())
}

/// The configured value. The contract has `configure` first; a host that breaks it gets a trap.
fn logic<T: Instance>() -> &'static T {
    match T::cell().get() {
        Some(logic) => logic,
        None => panic!("called before configure"),
    }
}

impl<T: Instance> setup::Guest for Exported<T> {
    fn configure(settings: String) -> Result<(), String> {
        configure::<T>(&settings)
    }

    fn describe() -> setup::Description {
        let description = logic::<T>().describe();
        let resource = |r: crate::ApiResource| setup::ApiResource {
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
            columns: r
                .columns
                .into_iter()
                .map(|c| setup::Column {
                    name: c.name,
                    type_: c.kind,
                    format: c.format,
                    description: c.description,
                    json_path: c.json_path,
                    priority: c.priority,
                })
                .collect(),
            selectable_fields: r.selectable_fields,
            subresources: r
                .subresources
                .into_iter()
                .map(|s| match s {
                    Subresource::Status => setup::Subresource::Status,
                    Subresource::Scale(s) => setup::Subresource::Scale(setup::Scale {
                        spec_replicas_path: s.spec_replicas_path,
                        status_replicas_path: s.status_replicas_path,
                        label_selector_path: s.label_selector_path,
                    }),
                })
                .collect(),
            shape: match r.shape {
                Shape::Stored => setup::Shape::Stored,
                Shape::View(v) => setup::Shape::View(setup::View {
                    primary: v.primary,
                    relations: v
                        .relations
                        .into_iter()
                        .map(|r| setup::Relation {
                            name: r.name,
                            source: r.source,
                            parent: r.parent,
                            reach: match r.reach {
                                Reach::SameNamespace => setup::Reach::SameNamespace,
                                Reach::AnyNamespace => setup::Reach::AnyNamespace,
                            },
                            limit: r.limit,
                        })
                        .collect(),
                }),
                Shape::Served(verbs) => setup::Shape::Served(verbs),
            },
            options: r.options,
        };
        let source = |s: crate::Source| setup::Source {
            name: s.name,
            gvr: s.gvr.into(),
            label_selector: s.label_selector,
            field_selector: s.field_selector,
            reads: s.reads,
            optional: s.optional,
            options: s.options,
        };
        setup::Description {
            resources: description.resources.into_iter().map(resource).collect(),
            sources: description.sources.into_iter().map(source).collect(),
        }
    }
}

impl<T: Instance + View> join::Guest for Exported<T> {
    fn keys(relation: String, side: join::Side, objects: Vec<Vec<u8>>) -> Vec<Vec<String>> {
        let side = match side {
            join::Side::Parent => Side::Parent,
            join::Side::Child => Side::Child,
        };
        objects
            .iter()
            .map(|object| logic::<T>().keys(&relation, side, object))
            .collect()
    }

    fn query(relation: String, keys: Vec<String>) -> join::Selection {
        match logic::<T>().query(&relation, &keys) {
            Selection::All => join::Selection::All,
            Selection::Selector {
                label_selector,
                field_selector,
            } => join::Selection::Selector(join::Selector {
                label_selector,
                field_selector,
            }),
            Selection::Names(names) => {
                join::Selection::Names(names.into_iter().map(Into::into).collect())
            }
        }
    }

    fn combine(
        resource: String,
        groups: Vec<join::Group>,
    ) -> Vec<Result<Option<join::Composed>, types::Failure>> {
        let one = |group: join::Group| {
            let composed = logic::<T>().combine(&resource, &group.into())?;
            Ok(composed.map(Into::into))
        };
        groups.into_iter().map(one).collect()
    }
}

impl From<join::Group> for Group {
    fn from(group: join::Group) -> Self {
        let branch = |b: join::Branch| Branch {
            objects: b.objects,
            parents: b.parents,
            omitted: b.omitted,
        };
        Self {
            primary: group.primary,
            branches: group.branches.into_iter().map(branch).collect(),
        }
    }
}

impl From<Composed> for join::Composed {
    fn from(composed: Composed) -> Self {
        let insert = |i: &crate::Insert| join::Insert {
            at: i.at,
            input: i.input.0,
        };
        Self {
            text: composed.text,
            inserts: composed.inserts.iter().map(insert).collect(),
        }
    }
}

impl<T: Instance + Admission> admission::Guest for Exported<T> {
    fn admit(
        resource: String,
        review: admission::Review,
    ) -> Result<admission::Verdict, types::Failure> {
        let review = Review {
            operation: match review.operation {
                admission::Operation::Create => Operation::Create,
                admission::Operation::Update => Operation::Update,
                admission::Operation::Delete => Operation::Delete,
            },
            subresource: review.subresource,
            key: ObjectKey {
                namespace: review.key.namespace,
                name: review.key.name,
            },
            object: review.object,
            old_object: review.old_object,
            user: review.user.into(),
            dry_run: review.dry_run,
            now: review.now,
        };
        let verdict = logic::<T>().admit(&resource, &review, &Host)?;
        Ok(admission::Verdict {
            object: verdict.object,
            warnings: verdict.warnings,
        })
    }
}

impl From<types::User> for User {
    fn from(user: types::User) -> Self {
        Self {
            name: user.name,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
        }
    }
}

/// What the host provides to a verb.
const OUTSIDE: Outside<'static> = Outside {
    kubernetes: &Host,
    http: &Host,
};

impl From<verbs::Request> for Request {
    fn from(request: verbs::Request) -> Self {
        Self {
            resource: request.resource,
            namespace: request.namespace,
            user: request.user.into(),
            dry_run: request.dry_run,
            now: request.now,
        }
    }
}

impl From<Entry> for verbs::Entry {
    fn from(entry: Entry) -> Self {
        Self {
            object: entry.object,
            etag: entry.etag,
        }
    }
}

impl<T: Instance + Verbs> verbs::Guest for Exported<T> {
    fn get(request: verbs::Request, name: String) -> Result<verbs::Entry, types::Failure> {
        Ok(logic::<T>().get(&request.into(), &name, &OUTSIDE)?.into())
    }

    fn list(
        request: verbs::Request,
        label_selector: String,
        field_selector: String,
        limit: u32,
        next: Option<String>,
    ) -> Result<verbs::Page, types::Failure> {
        let page = ListPage {
            label_selector,
            field_selector,
            limit,
            next,
        };
        let page = logic::<T>().list(&request.into(), &page, &OUTSIDE)?;
        Ok(verbs::Page {
            entries: page.entries.into_iter().map(Into::into).collect(),
            next: page.next,
        })
    }

    fn create(request: verbs::Request, object: Vec<u8>) -> Result<verbs::Entry, types::Failure> {
        let entry = logic::<T>().create(&request.into(), &object, &OUTSIDE)?;
        Ok(entry.into())
    }

    fn update(
        request: verbs::Request,
        name: String,
        object: Vec<u8>,
        etag: Option<String>,
    ) -> Result<verbs::Entry, types::Failure> {
        let (request, etag) = (request.into(), etag.as_deref());
        let entry = logic::<T>().update(&request, &name, &object, etag, &OUTSIDE)?;
        Ok(entry.into())
    }

    fn delete(
        request: verbs::Request,
        name: String,
        etag: Option<String>,
    ) -> Result<(), types::Failure> {
        let (request, etag) = (request.into(), etag.as_deref());
        logic::<T>().delete(&request, &name, etag, &OUTSIDE)?;
        Ok(())
    }
}

impl Http for Host {
    fn send(&self, request: &HttpRequest) -> Result<HttpResponse, HttpError> {
        let request = outbound::Request {
            method: request.method.clone(),
            url: request.url.clone(),
            headers: request.headers.clone(),
            body: request.body.clone(),
            timeout_ms: request.timeout_ms,
        };
        match outbound::send(&request) {
            Ok(answer) => Ok(HttpResponse {
                status: answer.status,
                headers: answer.headers,
                body: answer.body,
            }),
            Err(outbound::Error::Denied(message)) => Err(HttpError::Denied(message)),
            Err(outbound::Error::Invalid(message)) => Err(HttpError::Invalid(message)),
            Err(outbound::Error::Timeout) => Err(HttpError::Timeout),
            Err(outbound::Error::TooLarge(message)) => Err(HttpError::TooLarge(message)),
            Err(outbound::Error::Failed(message)) => Err(HttpError::Failed(message)),
        }
    }
}

/// The `kubernetes` interface that the host provides.
struct Host;

impl Kubernetes for Host {
    fn get(&self, gvr: &GroupVersionResource, key: &ObjectKey) -> Result<Option<Vec<u8>>, Failure> {
        Ok(host::get(&gvr.clone().into(), &key.clone().into())?)
    }

    fn list(
        &self,
        gvr: &GroupVersionResource,
        options: &ListOptions,
    ) -> Result<ObjectList, Failure> {
        let options = host::ListOptions {
            namespace: options.namespace.clone(),
            label_selector: options.label_selector.clone(),
            field_selector: options.field_selector.clone(),
            limit: options.limit,
        };
        let list = host::list(&gvr.clone().into(), &options)?;
        Ok(ObjectList {
            items: list.items,
            truncated: list.truncated,
        })
    }
}

impl From<GroupVersionResource> for types::GroupVersionResource {
    fn from(gvr: GroupVersionResource) -> Self {
        Self {
            group: gvr.group,
            version: gvr.version,
            resource: gvr.resource,
        }
    }
}

impl From<ObjectKey> for types::ObjectKey {
    fn from(key: ObjectKey) -> Self {
        Self {
            namespace: key.namespace,
            name: key.name,
        }
    }
}

impl From<Failure> for types::Failure {
    fn from(failure: Failure) -> Self {
        let cause = |c: crate::Cause| types::Cause {
            reason: c.reason,
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

impl From<types::Failure> for Failure {
    fn from(failure: types::Failure) -> Self {
        let cause = |c: types::Cause| crate::Cause {
            reason: c.reason,
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
