//! What the operator allows.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use joinery_object::{GroupVersionResource, ObjectKey, Status};
use joinery_plugin::{
    Generation, Grants, HostSettings, LoadError, PluginFile, Policy, Runtime, RuntimeOptions,
    SigningKey, TrustedKeys,
};
use joinery_resource::{Lookup, LookupList, Operation, Review, User};
use serde_json::json;

use crate::guests::{compiler, guest};

fn runtime(policy: Policy) -> Runtime {
    Runtime::new(RuntimeOptions {
        max_memory: RuntimeOptions::MAX_MEMORY,
        cache_dir: None,
        compile: compiler(),
        workers: Some(1),
        policy,
    })
    .unwrap()
}

fn granting(text: &str) -> Runtime {
    runtime(Policy {
        trusted_keys: None,
        grants: Grants::parse(text).unwrap(),
    })
}

async fn load(runtime: &Runtime, name: &str) -> Result<Arc<Generation>, LoadError> {
    let plugin = PluginFile::new(name, guest(name), HostSettings::default());
    runtime.load(plugin).await
}

#[tokio::test]
async fn what_is_not_granted_is_refused_and_named() {
    let error = load(&granting(""), "combined_tasks").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the operator has not granted it what it asks for: to claim resources in group \
         \"aggregated.tasks.example.com\"; to read the source \"events\"; to read the source \"tasks.tasks.example.com\"; \
         grants are the file of --plugin-grants"
    );
    let of_another = "plugins: {other: {groups: ['*'], sources: ['*']}}";
    assert!(load(&granting(of_another), "combined_tasks").await.is_err());
    let half = "plugins: {combined_tasks: {groups: ['*.example.com'], sources: [events]}}";
    let error = load(&granting(half), "combined_tasks").await.unwrap_err();
    assert!(
        matches!(&error, LoadError::NotGranted(denied) if denied == &["to read the source \"tasks.tasks.example.com\""]),
        "{error}"
    );
}

#[tokio::test]
async fn settings_open_nothing_that_the_grants_do_not() {
    let granted = "groups: ['*'], sources: ['*']";
    let definer = json!({"security": "definer"});
    let anywhere = json!({"settings": {"anyNamespace": true}, "anyNamespace": ["uses", "further"]});
    for (settings, more, words) in [
        (&definer, "", "security: definer"),
        (
            &anywhere,
            ", anyNamespace: [uses]",
            "relation \"further\" reaches into any namespace",
        ),
    ] {
        let grants = format!("plugins: {{test_guest: {{{granted}{more}}}}}");
        let settings = HostSettings::parse(&settings.to_string()).unwrap();
        let plugin = PluginFile::new("test_guest", guest("test_guest"), settings);
        let error = granting(&grants)
            .load(plugin)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(words), "{error}");
    }
    for (settings, more) in [
        (definer, "definer: true"),
        (anywhere, "anyNamespace: ['*']"),
    ] {
        let grants = format!("plugins: {{test_guest: {{{granted}, {more}}}}}");
        let settings = HostSettings::parse(&settings.to_string()).unwrap();
        let plugin = PluginFile::new("test_guest", guest("test_guest"), settings);
        granting(&grants).load(plugin).await.unwrap();
    }
}

#[tokio::test]
async fn no_grant_opens_the_groups_of_kubernetes() {
    let runtime = runtime(Policy::allow_all());
    let settings = HostSettings::parse(r#"{"settings":{"group":"metrics.k8s.io"}}"#).unwrap();
    let plugin = PluginFile::new("test_guest", guest("test_guest"), settings);
    let error = runtime.load(plugin).await.unwrap_err().to_string();
    assert!(error.contains("belongs to Kubernetes"), "{error}");
}

#[tokio::test]
async fn the_bundled_plugins_get_along_with_what_the_manifests_grant_them() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/base/plugin-grants.yaml");
    let runtime = runtime(Policy {
        trusted_keys: None,
        grants: Grants::read(&path).unwrap(),
    });
    for name in ["combined_tasks", "cluster_task", "custom_task"] {
        let generation = load(&runtime, name).await.unwrap();
        if name == "custom_task" {
            assert_eq!(looked_up(&generation).await, Ok(()));
        }
    }
    assert!(load(&runtime, "test_guest").await.is_err());
}

#[tokio::test]
async fn rules_look_up_only_what_is_granted() {
    let groups = "plugins: {custom_task: {groups: [aggregated.tasks.example.com]}}";
    let runtime = granting(groups);
    let generation = load(&runtime, "custom_task").await.unwrap();
    let status = looked_up(&generation).await.unwrap_err();
    assert_eq!(status.code, 403);
    assert_eq!(
        status.message,
        "clustertasks.aggregated.tasks.example.com is forbidden: the operator has not granted plugin custom_task the source \
         \"clustertasks.aggregated.tasks.example.com\""
    );
}

/// Creates a CustomTask that refers to a ClusterTask.
async fn looked_up(generation: &Generation) -> Result<(), Status> {
    let object =
        json!({"metadata": {"name": "a"}, "spec": {"clusterTaskRef": {"name": "nightly"}}});
    let review = Review {
        operation: Operation::Create,
        subresource: None,
        key: ObjectKey::new(Some("default"), "a"),
        object: Some(object.to_string().into()),
        old_object: None,
        user: User::default(),
        dry_run: false,
        now: 0,
    };
    let gvr = GroupVersionResource::new("aggregated.tasks.example.com", "v1", "customtasks");
    let verdict = generation
        .admit()
        .admit(&gvr, review, Arc::new(Nightly))
        .await;
    verdict.map(|_| ())
}

struct Nightly;

#[async_trait]
impl Lookup for Nightly {
    async fn get(&self, _: &GroupVersionResource, _: &ObjectKey) -> Result<Option<Bytes>, Status> {
        let task = json!({"metadata": {"name": "nightly"}, "spec": {"priority": 7}});
        Ok(Some(task.to_string().into()))
    }

    async fn list(
        &self,
        _: &GroupVersionResource,
        _: &LookupList,
    ) -> Result<(Vec<Bytes>, bool), Status> {
        Ok((Vec::new(), false))
    }
}

#[tokio::test]
async fn with_trusted_keys_only_what_they_signed_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("me.key");
    let status = std::process::Command::new("openssl")
        .args(["genpkey", "-algorithm", "ed25519", "-out"])
        .arg(&key)
        .status();
    assert!(status.unwrap().success());
    let key = SigningKey::read(&key).unwrap();
    let public = dir.path().join("me.pem");
    std::fs::write(&public, key.public_pem()).unwrap();
    let runtime = runtime(Policy {
        trusted_keys: Some(TrustedKeys::read(&public).unwrap()),
        grants: Grants::everything(),
    });
    let mut plugin = PluginFile::new("p", guest("cluster_task"), HostSettings::default());
    let error = runtime.load(plugin.clone()).await.unwrap_err().to_string();
    assert!(
        error.starts_with("not trusted: it is not signed: "),
        "{error}"
    );
    plugin.signature = key.sign(&plugin.digest);
    runtime.load(plugin.clone()).await.unwrap();

    // A good signature of something else, and a digest that is not the component's.
    plugin.bytes = guest("custom_task");
    let error = runtime.load(plugin).await.unwrap_err();
    assert!(matches!(error, LoadError::Signature(_)), "{error}");
}
