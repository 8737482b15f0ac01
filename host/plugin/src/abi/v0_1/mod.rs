//! joinery:plugin@0.1.

use async_trait::async_trait;
use bytes::Bytes;
use joinery_object::{GroupVersionResource, ObjectKey, Status};
use joinery_resource::{Operation, Review, ServeRequest, Verdict};
use joinery_view::{CombineResult, Composed, Group, Selection, Side};
use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre, Linker};

use super::{Adapter, Answer, Call, Exported, Exports, Failure, Guest, as_many};
use crate::declared::Declared;
use crate::state::State;

mod describe;
mod host;
mod outbound;
mod serve;

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
                import joinery:plugin/http@0.1.0;
                export joinery:plugin/setup@0.1.0;
                export joinery:plugin/join@0.1.0;
                export joinery:plugin/admission@0.1.0;
                export joinery:plugin/verbs@0.1.0;
            }
        ",
        world: "joinery:host/plugin",
        imports: { default: async | trappable },
        exports: { default: async },
        ownership: Borrowing { duplicate_if_necessary: true },
    });
}

use bindings::exports::joinery::plugin::{admission, join, setup, verbs};
use bindings::joinery::plugin::{http, kubernetes, log, types};

/// The contract of wit/v0.1.
pub(super) struct V0_1;

impl Adapter for V0_1 {
    fn version(&self) -> &'static str {
        "0.1"
    }

    fn imports(&self) -> &'static [&'static str] {
        &["types", "log", "kubernetes", "http"]
    }

    fn wants(&self) -> &'static str {
        "joinery:plugin/setup@0.1.0 and at least one of joinery:plugin/join@0.1.0, joinery:plugin/admission@0.1.0 and \
         joinery:plugin/verbs@0.1.0"
    }

    fn exported(&self, interfaces: &[&str]) -> Option<Exported> {
        let has = |name| interfaces.contains(&name);
        let found = Exported {
            join: has("join"),
            admission: has("admission"),
            verbs: has("verbs"),
        };
        (has("setup") && (found.join || found.admission || found.verbs)).then_some(found)
    }

    fn link(&self, linker: &mut Linker<State>) -> wasmtime::Result<()> {
        host::link(linker)
    }

    fn find(
        &self,
        pre: &InstancePre<State>,
        exported: Exported,
    ) -> wasmtime::Result<Box<dyn Exports>> {
        Ok(Box::new(Indices {
            setup: setup::GuestIndices::new(pre)?,
            join: exported
                .join
                .then(|| join::GuestIndices::new(pre))
                .transpose()?,
            admission: exported
                .admission
                .then(|| admission::GuestIndices::new(pre))
                .transpose()?,
            verbs: exported
                .verbs
                .then(|| verbs::GuestIndices::new(pre))
                .transpose()?,
        }))
    }
}

/// Where a component's exports are.
struct Indices {
    setup: setup::GuestIndices,
    join: Option<join::GuestIndices>,
    admission: Option<admission::GuestIndices>,
    verbs: Option<verbs::GuestIndices>,
}

impl Exports for Indices {
    fn load(
        &self,
        store: &mut Store<State>,
        instance: &Instance,
    ) -> wasmtime::Result<Box<dyn Guest>> {
        Ok(Box::new(Loaded {
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
            verbs: self
                .verbs
                .as_ref()
                .map(|verbs| verbs.load(&mut *store, instance))
                .transpose()?,
        }))
    }
}

/// The exports of one instance.
struct Loaded {
    setup: setup::Guest,
    join: Option<join::Guest>,
    admission: Option<admission::Guest>,
    verbs: Option<verbs::Guest>,
}

impl Loaded {
    fn join(&self) -> wasmtime::Result<&join::Guest> {
        self.join
            .as_ref()
            .ok_or_else(|| wasmtime::Error::msg("no export joinery:plugin/join"))
    }
}

#[async_trait]
impl Guest for Loaded {
    async fn configure(
        &self,
        store: &mut Store<State>,
        settings: &str,
    ) -> wasmtime::Result<Result<(), String>> {
        self.setup.call_configure(store, settings).await
    }

    async fn describe(&self, store: &mut Store<State>) -> wasmtime::Result<Declared> {
        Ok(self.setup.call_describe(store).await?.into())
    }

    async fn keys(
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

    async fn query(
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

    async fn combine(
        &self,
        store: &mut Store<State>,
        resource: &GroupVersionResource,
        groups: &[Group],
    ) -> wasmtime::Result<Vec<CombineResult>> {
        // Borrowed all the way down: from the host's bytes into the guest's memory there is one copy.
        let lists: Vec<Vec<Lists<'_>>> = groups
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
            Err(failure) => Err(Failure::from(failure).status(resource, "", "")),
        };
        Ok(results.into_iter().map(result).collect())
    }

    async fn admit(
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
            Err(failure) => Err(Failure::from(failure).status(resource, kind, &review.key.name)),
        })
    }

    async fn serve(
        &self,
        store: &mut Store<State>,
        kind: &str,
        request: &ServeRequest,
        call: &Call,
    ) -> wasmtime::Result<Result<Answer, Status>> {
        let guest = self
            .verbs
            .as_ref()
            .ok_or_else(|| wasmtime::Error::msg("no export joinery:plugin/verbs"))?;
        serve::serve(guest, store, kind, request, call).await
    }
}

/// The objects of a branch, and the parents of each.
type Lists<'a> = (Vec<&'a [u8]>, Vec<&'a [u32]>);
