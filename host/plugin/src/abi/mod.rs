//! Between the host's types and those of the contract: one module, with one [`Adapter`], a version of it.
//!
//! A component says by the names of its exports which contract it was written for (`joinery:plugin/setup@0.1.0`); the host
//! picks the adapter, and beyond this module nothing knows of versions. A second version is a module beside [`v0_1`] and
//! a line in [`adapters`].

mod failure;
mod v0_1;
mod verbs;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod toy;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use joinery_object::{GroupVersionResource, Status};
use joinery_resource::{Review, ServeRequest, Verdict};
use joinery_view::{CombineResult, Group, Selection, Side};
use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre, Linker};

use crate::declared::Declared;
use crate::state::State;

use self::failure::Failure;
pub(crate) use self::verbs::{Answer, Call};

/// The contracts that this host speaks, from the oldest to the newest.
pub(crate) fn adapters() -> Adapters {
    [Arc::new(v0_1::V0_1) as Arc<dyn Adapter>].into()
}

/// By rising version.
pub(crate) type Adapters = Arc<[Arc<dyn Adapter>]>;

/// Interfaces of a component, exported or to be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exported {
    pub(crate) join: bool,
    pub(crate) admission: bool,
    pub(crate) verbs: bool,
}

/// One version of the contract.
pub(crate) trait Adapter: Send + Sync {
    /// What the versions of its interfaces have in common, as semver counts compatibility: `0.1`.
    fn version(&self) -> &'static str;

    /// The interfaces that it lets a component import.
    fn imports(&self) -> &'static [&'static str];

    /// What a component must export, for people.
    fn wants(&self) -> &'static str;

    /// Which shapes a component with these exported interfaces can serve; none when they do not make a plugin.
    fn exported(&self, interfaces: &[&str]) -> Option<Exported>;

    /// Gives components what they may import.
    fn link(&self, linker: &mut Linker<State>) -> wasmtime::Result<()>;

    /// Finds a component's exports.
    fn find(
        &self,
        pre: &InstancePre<State>,
        exported: Exported,
    ) -> wasmtime::Result<Box<dyn Exports>>;
}

/// Where a component's exports are.
pub(crate) trait Exports: Send + Sync {
    /// Those of one instance; an error when their types are not the contract's.
    fn load(
        &self,
        store: &mut Store<State>,
        instance: &Instance,
    ) -> wasmtime::Result<Box<dyn Guest>>;
}

/// One instance, asked in the host's own types. What it fails with is a trap, or a breach of the contract.
#[async_trait]
pub(crate) trait Guest: Send + Sync {
    /// The inner error is the guest's: it refuses its settings.
    async fn configure(
        &self,
        store: &mut Store<State>,
        settings: &str,
    ) -> wasmtime::Result<Result<(), String>>;

    async fn describe(&self, store: &mut Store<State>) -> wasmtime::Result<Declared>;

    /// As many as there are objects.
    async fn keys(
        &self,
        store: &mut Store<State>,
        relation: &str,
        side: Side,
        objects: &[Bytes],
    ) -> wasmtime::Result<Vec<Vec<String>>>;

    async fn query(
        &self,
        store: &mut Store<State>,
        relation: &str,
        keys: &[String],
    ) -> wasmtime::Result<Selection>;

    /// As many as there are groups.
    async fn combine(
        &self,
        store: &mut Store<State>,
        resource: &GroupVersionResource,
        groups: &[Group],
    ) -> wasmtime::Result<Vec<CombineResult>>;

    /// `kind` is that of the resource, for the details of a refusal.
    async fn admit(
        &self,
        store: &mut Store<State>,
        resource: &GroupVersionResource,
        kind: &str,
        review: &Review,
    ) -> wasmtime::Result<Result<Verdict, Status>>;

    /// `kind` is that of the resource, for the details of a refusal.
    async fn serve(
        &self,
        store: &mut Store<State>,
        kind: &str,
        request: &ServeRequest,
        call: &Call,
    ) -> wasmtime::Result<Result<Answer, Status>>;
}

/// Whether a version such as `0.1.3` is one of this contract (`0.1`).
pub(crate) fn is_of(version: &str, contract: &str) -> bool {
    version
        .strip_prefix(contract)
        .is_some_and(|rest| rest.starts_with('.'))
}

/// For people: `joinery:plugin@0.1 and @0.2`.
pub(crate) fn speaks(adapters: &[Arc<dyn Adapter>]) -> String {
    let versions: Vec<_> = adapters.iter().map(|a| a.version()).collect();
    format!("joinery:plugin@{}", versions.join(" and @"))
}

/// The answer to a batch has one result an input.
fn as_many(function: &str, found: usize, wanted: usize) -> wasmtime::Result<()> {
    if found == wanted {
        return Ok(());
    }
    Err(wasmtime::Error::msg(format!(
        "{function} gave {found} results for {wanted} inputs"
    )))
}
