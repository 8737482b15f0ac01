//! A runtime for the components.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use joinery_object::GroupVersionResource;
use joinery_plugin::{
    Compile, Generation, HostSettings, LoadError, PluginFile, Policy, Runtime, RuntimeOptions,
};
use joinery_view::{Group, SharedJoin};
use serde_json::{Value, json};

pub(crate) use crate::components::{compiler_program, guest, guest_path};

/// The program that compiles, built as an example beside the tests.
pub(crate) fn compiler() -> Compile {
    Compile::Child {
        program: compiler_program(),
        args: Vec::new(),
    }
}

/// One runtime for all tests that do not need one of their own: compiling takes longest.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        Runtime::new(RuntimeOptions {
            max_memory: RuntimeOptions::MAX_MEMORY,
            cache_dir: None,
            compile: compiler(),
            workers: Some(2),
            policy: Policy::allow_all(),
        })
        .unwrap()
    })
}

pub(crate) fn settings(value: Value) -> HostSettings {
    HostSettings::parse(&value.to_string()).unwrap()
}

pub(crate) async fn load(name: &str, value: Value) -> Result<Arc<Generation>, LoadError> {
    load_bytes(name, guest(name), settings(value)).await
}

pub(crate) async fn load_bytes(
    name: &str,
    bytes: Bytes,
    settings: HostSettings,
) -> Result<Arc<Generation>, LoadError> {
    runtime().load(PluginFile::new(name, bytes, settings)).await
}

/// The view of the misbehaving guest, with these settings of the host's.
pub(crate) async fn things(value: Value) -> (Arc<Generation>, SharedJoin) {
    let generation = load("test_guest", value).await.unwrap();
    let join = generation
        .join(&GroupVersionResource::new(
            "test.example.com",
            "v1",
            "things",
        ))
        .unwrap();
    (generation, join)
}

pub(crate) fn object(name: &str) -> Bytes {
    json!({"metadata": {"name": name}}).to_string().into()
}

/// A primary of that name without children.
pub(crate) fn group(name: &str) -> Group {
    Group {
        primary: object(name),
        branches: Vec::new(),
    }
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}
