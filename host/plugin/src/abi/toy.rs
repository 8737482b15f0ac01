//! A second adapter, for tests: that of the toy contract in tests/wit/v0.2.

use async_trait::async_trait;
use bytes::Bytes;
use joinery_object::{GroupVersionResource, Status};
use joinery_resource::{Review, ServeRequest, Verdict};
use joinery_view::{CombineResult, Group, Selection, Side};
use wasmtime::Store;
use wasmtime::component::{HasSelf, Instance, InstancePre, Linker};

use super::{Adapter, Answer, Call, Exported, Exports, Guest};
use crate::declared::{Declared, DeclaredResource, DeclaredShape};
use crate::output::Level;
use crate::state::State;

mod bindings {
    #![allow(missing_docs, unreachable_pub, dead_code)]
    #![allow(
        unsafe_code,
        reason = "bindgen! names functions by the types that it has checked"
    )]
    wasmtime::component::bindgen!({
        path: "tests/wit/v0.2",
        world: "joinery:plugin/toy",
        imports: { default: async | trappable },
        exports: { default: async },
    });
}

use bindings::exports::joinery::plugin::{admission, setup};
use bindings::joinery::plugin::log;

/// The toy contract.
pub(super) struct Toy;

impl Adapter for Toy {
    fn version(&self) -> &'static str {
        "0.2"
    }

    fn imports(&self) -> &'static [&'static str] {
        &["log"]
    }

    fn wants(&self) -> &'static str {
        "joinery:plugin/setup@0.2.0 and joinery:plugin/admission@0.2.0"
    }

    fn exported(&self, interfaces: &[&str]) -> Option<Exported> {
        let has = |name| interfaces.contains(&name);
        (has("setup") && has("admission")).then_some(Exported {
            join: false,
            admission: true,
            verbs: false,
        })
    }

    fn link(&self, linker: &mut Linker<State>) -> wasmtime::Result<()> {
        log::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
    }

    fn find(&self, pre: &InstancePre<State>, _: Exported) -> wasmtime::Result<Box<dyn Exports>> {
        Ok(Box::new(Indices {
            setup: setup::GuestIndices::new(pre)?,
            admission: admission::GuestIndices::new(pre)?,
        }))
    }
}

impl log::Host for State {
    async fn write(&mut self, message: String) -> wasmtime::Result<()> {
        self.output.record(Level::Info, &message, &[]);
        Ok(())
    }
}

struct Indices {
    setup: setup::GuestIndices,
    admission: admission::GuestIndices,
}

impl Exports for Indices {
    fn load(
        &self,
        store: &mut Store<State>,
        instance: &Instance,
    ) -> wasmtime::Result<Box<dyn Guest>> {
        Ok(Box::new(Loaded {
            setup: self.setup.load(&mut *store, instance)?,
            admission: self.admission.load(&mut *store, instance)?,
        }))
    }
}

struct Loaded {
    setup: setup::Guest,
    admission: admission::Guest,
}

fn no(export: &str) -> wasmtime::Error {
    wasmtime::Error::msg(format!("the toy contract has no {export}"))
}

#[async_trait]
impl Guest for Loaded {
    async fn configure(
        &self,
        store: &mut Store<State>,
        settings: &str,
    ) -> wasmtime::Result<Result<(), String>> {
        let configured = self.setup.call_configure(store, settings).await?;
        Ok(configured.map_err(|refusal| format!("{}: {}", refusal.field, refusal.message)))
    }

    async fn describe(&self, store: &mut Store<State>) -> wasmtime::Result<Declared> {
        let resource = |r: setup::ApiResource| DeclaredResource {
            group: r.group,
            version: r.version,
            kind: r.kind,
            list_kind: None,
            plural: r.plural,
            singular: None,
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: matches!(r.scope, setup::Scope::Namespaced),
            schema: r.schema,
            columns: Vec::new(),
            selectable_fields: Vec::new(),
            status: false,
            scale: false,
            shape: DeclaredShape::Stored,
            options: Vec::new(),
        };
        let described = self.setup.call_describe(store).await?;
        Ok(Declared {
            resources: described.into_iter().map(resource).collect(),
            sources: Vec::new(),
        })
    }

    async fn keys(
        &self,
        _: &mut Store<State>,
        _: &str,
        _: Side,
        _: &[Bytes],
    ) -> wasmtime::Result<Vec<Vec<String>>> {
        Err(no("join"))
    }

    async fn query(
        &self,
        _: &mut Store<State>,
        _: &str,
        _: &[String],
    ) -> wasmtime::Result<Selection> {
        Err(no("join"))
    }

    async fn combine(
        &self,
        _: &mut Store<State>,
        _: &GroupVersionResource,
        _: &[Group],
    ) -> wasmtime::Result<Vec<CombineResult>> {
        Err(no("join"))
    }

    async fn admit(
        &self,
        store: &mut Store<State>,
        _: &GroupVersionResource,
        _: &str,
        review: &Review,
    ) -> wasmtime::Result<Result<Verdict, Status>> {
        let asked = admission::Review {
            name: review.key.name.to_string(),
            object: review.object.as_ref().map(|object| object.to_vec()),
            purpose: "to show that two contracts get along".to_owned(),
        };
        let decided = self.admission.call_decide(store, &asked).await?;
        Ok(match decided {
            Ok(object) => Ok(Verdict {
                object: Some(object.into()),
                warnings: Vec::new(),
            }),
            Err(message) => Err(Status::bad_request(message)),
        })
    }

    async fn serve(
        &self,
        _: &mut Store<State>,
        _: &str,
        _: &ServeRequest,
        _: &Call,
    ) -> wasmtime::Result<Result<Answer, Status>> {
        Err(no("verbs"))
    }
}
