//! Two versions of the contract in one host.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use joinery_object::{GroupVersionResource, ObjectKey, Status};
use joinery_resource::{Lookup, LookupList, Operation, Review, User};
use serde_json::{Value, json};

use super::toy::Toy;
use super::v0_1::V0_1;
use super::*;
use crate::{
    Compile, Generation, HostSettings, LoadError, PluginFile, Policy, Runtime, RuntimeOptions,
};

#[path = "../../tests/it/components.rs"]
mod components;

fn options() -> RuntimeOptions {
    RuntimeOptions {
        max_memory: RuntimeOptions::MAX_MEMORY,
        cache_dir: None,
        compile: Compile::Child {
            program: components::compiler_program(),
            args: Vec::new(),
        },
        workers: Some(2),
        policy: Policy::allow_all(),
    }
}

/// A host that speaks 0.1 and the toy contract.
fn both() -> Runtime {
    Runtime::speaking(
        [Arc::new(V0_1) as Arc<dyn Adapter>, Arc::new(Toy)].into(),
        options(),
    )
    .unwrap()
}

async fn load(runtime: &Runtime, name: &str) -> Result<Arc<Generation>, LoadError> {
    load_bytes(runtime, components::guest(name)).await
}

async fn load_bytes(runtime: &Runtime, bytes: Bytes) -> Result<Arc<Generation>, LoadError> {
    let plugin = PluginFile::new("p", bytes, HostSettings::default());
    runtime.load(plugin).await
}

fn component(text: &str) -> Bytes {
    wat::parse_str(text).unwrap().into()
}

/// Nothing is there.
struct Nothing;

#[async_trait]
impl Lookup for Nothing {
    async fn get(&self, _: &GroupVersionResource, _: &ObjectKey) -> Result<Option<Bytes>, Status> {
        Ok(None)
    }

    async fn list(
        &self,
        _: &GroupVersionResource,
        _: &LookupList,
    ) -> Result<(Vec<Bytes>, bool), Status> {
        Ok((Vec::new(), false))
    }
}

/// What a plugin makes of an object that is created.
async fn admitted(generation: &Generation, resource: &str) -> Value {
    let review = Review {
        operation: Operation::Create,
        subresource: None,
        key: ObjectKey::new(Some("default"), "one"),
        object: Some(json!({"metadata": {"name": "one"}}).to_string().into()),
        old_object: None,
        user: User::default(),
        dry_run: false,
        now: 0,
    };
    let resources = &generation.description().resources;
    let found = resources
        .iter()
        .find(|r| &*r.definition.gvr.resource == resource);
    let gvr = &found.unwrap().definition.gvr;
    let verdict = generation
        .admit()
        .admit(gvr, review, Arc::new(Nothing))
        .await;
    serde_json::from_slice(&verdict.unwrap().object.unwrap()).unwrap()
}

#[tokio::test]
async fn plugins_of_two_contracts_run_side_by_side_and_each_answers() {
    let runtime = both();
    let old = load(&runtime, "test_guest").await.unwrap();
    let new = load(&runtime, "toy_guest").await.unwrap();
    let names = |generation: &Generation| -> Vec<String> {
        let resources = generation.description().resources.iter();
        resources.map(|r| r.definition.gvr.to_string()).collect()
    };
    assert_eq!(
        names(&old),
        ["test.example.com/v1, things", "test.example.com/v1, items"]
    );
    assert_eq!(names(&new), ["toy.example.com/v1, toys"]);
    assert!(new.description().resources[0].definition.namespaced);
    for _ in 0..3 {
        let (item, toy) = tokio::join!(admitted(&old, "items"), admitted(&new, "toys"));
        assert_eq!(
            (&item["operation"], &item["now"]),
            (&json!("Create"), &json!(0))
        );
        assert_eq!(
            toy,
            json!({"name": "one", "purpose": "to show that two contracts get along"})
        );
    }
}

#[tokio::test]
async fn a_contract_that_the_host_does_not_speak_is_refused_by_the_names_of_those_it_does() {
    let newer = component(
        r#"(component (instance $i) (export "joinery:plugin/setup@0.3.0" (instance $i))
        (export "joinery:plugin/admission@0.3.0" (instance $i)))"#,
    );
    let error = load_bytes(&both(), newer).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "written for joinery:plugin/setup@0.3.0: this host speaks joinery:plugin@0.1 and @0.2, so either needs another \
         version"
    );
    assert!(!error.may_pass());
    // As it is released, the host does not know of the toy.
    let released = Runtime::new(options()).unwrap();
    let error = load(&released, "toy_guest").await.unwrap_err().to_string();
    assert!(
        error.starts_with("written for joinery:plugin/")
            && error.ends_with(
                "@0.2.0: this host speaks joinery:plugin@0.1, so either needs another version"
            ),
        "{error}"
    );
}

#[tokio::test]
async fn a_component_speaks_one_contract_in_all_that_it_exports_and_imports() {
    let runtime = both();
    for (text, words) in [
        (
            r#"(component (instance $i) (export "joinery:plugin/setup@0.1.0" (instance $i))
            (export "joinery:plugin/admission@0.2.0" (instance $i)))"#,
            "exports joinery:plugin/setup@0.1.0, joinery:plugin/admission@0.2.0: a plugin speaks one version of the contract",
        ),
        (
            r#"(component (import "joinery:plugin/log@0.2.0" (instance)) (instance $i)
            (export "joinery:plugin/setup@0.1.0" (instance $i)) (export "joinery:plugin/admission@0.1.0" (instance $i)))"#,
            "imports joinery:plugin/log@0.2.0: a plugin may import joinery:plugin/types, log, kubernetes, http @0.1, and",
        ),
        (
            r#"(component (instance $i) (export "joinery:plugin/setup@0.2.0" (instance $i)))"#,
            "exports joinery:plugin/setup@0.2.0: a plugin exports joinery:plugin/setup@0.2.0 and joinery:plugin/admission@0.2.0",
        ),
        (
            r#"(component (instance $i) (export "joinery:plugin/setup@0.2.0" (instance $i))
            (export "joinery:plugin/admission@0.2.7" (instance $i)))"#,
            "does not fit the contract joinery:plugin@0.2: ",
        ),
    ] {
        let error = load_bytes(&runtime, component(text))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(words), "{words}: {error}");
    }
}
