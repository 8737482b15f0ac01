//! Server-side apply, and the owners that every write leaves.

use std::sync::Arc;

use async_trait::async_trait;
use joinery_object::{GroupVersionResource, PatchOptions, Status, WriteOptions, reason};
use joinery_resource::{
    Admit, Caller, Lookup, PatchType, Resource, Review, StoredResource, Verdict, Written,
};
use serde_json::{Value, json};

use crate::support::{
    Host, NOW, Speak, admin, bytes, json as value, key, list_options, version, widget,
};

/// Seconds after the first write of a test, so that its times tell the writes apart.
fn at(seconds: u64) -> Caller {
    Caller {
        now: NOW + seconds * 1000,
        ..admin()
    }
}

fn by(manager: &str) -> WriteOptions {
    WriteOptions {
        field_manager: Some(manager.to_owned()),
        ..WriteOptions::default()
    }
}

fn patch_by(manager: &str, force: bool) -> PatchOptions {
    PatchOptions {
        write: by(manager),
        force,
    }
}

/// Applies to the object that the configuration names.
async fn apply(
    resource: &StoredResource,
    manager: &str,
    configuration: Value,
) -> Result<Written, Status> {
    let options = patch_by(manager, false);
    apply_with(resource, at(5), None, configuration, &options).await
}

async fn apply_with(
    resource: &StoredResource,
    caller: Caller,
    subresource: Option<&str>,
    configuration: Value,
    options: &PatchOptions,
) -> Result<Written, Status> {
    let name = configuration["metadata"]["name"].as_str().unwrap();
    let (key, body) = (resource.at(name), bytes(&configuration));
    resource
        .patch(&caller, &key, subresource, PatchType::Apply, body, options)
        .await
}

async fn create(resource: &StoredResource, manager: &str, object: Value) -> Value {
    let written = resource
        .create(
            &admin(),
            Some("default"),
            None,
            bytes(&object),
            &by(manager),
        )
        .await;
    value(&written.unwrap().object)
}

async fn merge_by(
    resource: &StoredResource,
    manager: &str,
    subresource: Option<&str>,
    patch: Value,
) -> Value {
    let (key, options) = (key("a"), patch_by(manager, false));
    let written = resource
        .patch(
            &at(2),
            &key,
            subresource,
            PatchType::Merge,
            bytes(&patch),
            &options,
        )
        .await;
    value(&written.unwrap().object)
}

/// Each owner in words, and what it owns.
fn owners(object: &Value) -> Vec<(String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array();
    let entries = entries.into_iter().flatten().map(|entry| {
        let member = |name: &str| entry[name].as_str().unwrap_or_default();
        assert_eq!(member("fieldsType"), "FieldsV1");
        let words = ["manager", "operation", "subresource", "time"].map(member);
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        (words.join(" "), entry["fieldsV1"].clone())
    });
    entries.collect()
}

#[tokio::test]
async fn every_write_says_who_owns_what() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let mut object = widget("a", json!({"color": "red"}));
    object["status"] = json!({"seen": 1});
    let created = create(&widgets, "maker", object).await;
    let maker =
        |time: &str, fields: Value| (format!("maker Update 2026-01-01T00:00:{time}Z"), fields);
    assert_eq!(
        owners(&created),
        [maker(
            "00",
            json!({"f:spec": {".": {}, "f:color": {}, "f:size": {}}})
        )]
    );
    let mut changed = created;
    changed["spec"]["color"] = "blue".into();
    let updated = widgets
        .update(&at(1), &key("a"), None, bytes(&changed), &by("painter"))
        .await
        .unwrap();
    let painter = (
        "painter Update 2026-01-01T00:00:01Z".to_owned(),
        json!({"f:spec": {"f:color": {}}}),
    );
    let maker = maker("00", json!({"f:spec": {".": {}, "f:size": {}}}));
    assert_eq!(
        owners(&value(&updated.object)),
        [maker.clone(), painter.clone()]
    );
    let patched = merge_by(
        &widgets,
        "labeller",
        None,
        json!({"metadata": {"labels": {"x": "y"}}, "status": {"seen": 3}}),
    )
    .await;
    let labeller = (
        "labeller Update 2026-01-01T00:00:02Z".to_owned(),
        json!({"f:metadata": {"f:labels": {".": {}, "f:x": {}}}}),
    );
    assert_eq!(
        owners(&patched),
        [maker.clone(), painter.clone(), labeller.clone()]
    );
    let patch = json!({"status": {"seen": 2}, "spec": {"size": 9}});
    let seen = merge_by(&widgets, "controller", Some("status"), patch).await;
    let controller = (
        "controller Update status 2026-01-01T00:00:02Z".to_owned(),
        json!({"f:status": {".": {}, "f:seen": {}}}),
    );
    assert_eq!(owners(&seen), [maker, painter, controller, labeller]);
}

#[tokio::test]
async fn who_names_no_manager_is_unknown() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let written = widgets.post(widget("a", json!({}))).await.unwrap();
    let owners = owners(&value(&written.object));
    assert_eq!(owners[0].0, "unknown Update 2026-01-01T00:00:00Z");
}

#[tokio::test]
async fn an_update_that_changes_nothing_changes_no_time_either() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let created = create(&widgets, "maker", widget("a", json!({"size": 2}))).await;
    let again = widgets
        .update(&at(9), &key("a"), None, bytes(&created), &by("other"))
        .await
        .unwrap();
    assert_eq!(value(&again.object), created);
}

#[tokio::test]
async fn apply_creates_what_is_not_there_and_then_updates_it() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let mut configuration = widget("a", json!({"color": "red"}));
    configuration["metadata"]["labels"] = json!({"x": "y"});
    configuration["status"] = json!({"seen": 7});
    let created = apply(&widgets, "me", configuration).await.unwrap();
    assert!(created.created);
    let object = value(&created.object);
    assert_eq!(object["spec"], json!({"color": "red", "size": 1}));
    assert!(object["status"].is_null());
    assert_eq!(object["metadata"]["generation"], 1);
    let fields = json!({"f:metadata": {"f:labels": {"f:x": {}}}, "f:spec": {"f:color": {}}});
    assert_eq!(
        owners(&object),
        [("me Apply 2026-01-01T00:00:05Z".to_owned(), fields)]
    );
    let updated = apply(&widgets, "me", widget("a", json!({"size": 3})))
        .await
        .unwrap();
    assert!(!updated.created);
    let object = value(&updated.object);
    // What it wants no longer goes, as nobody else does.
    assert_eq!(object["spec"], json!({"size": 3}));
    assert!(object["metadata"]["labels"].is_null());
    assert_eq!(object["metadata"]["generation"], 2);
    assert_eq!(widgets.read("a").await.unwrap(), object);
}

#[tokio::test]
async fn the_same_applied_again_keeps_the_version_and_tells_no_watch() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let configuration = widget("a", json!({"color": "red"}));
    let first = apply(&widgets, "me", configuration.clone()).await.unwrap();
    let mut watch = widgets
        .follow(&format!("resourceVersion={}", version(&first.object)))
        .await;
    let options = patch_by("me", false);
    let again = apply_with(&widgets, at(60), None, configuration, &options).await;
    assert_eq!(value(&again.unwrap().object), value(&first.object));
    assert!(watch.is_silent().await);
}

#[tokio::test]
async fn what_others_own_is_a_conflict_unless_forced() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let spec = json!({"color": "red", "size": 2});
    apply(&widgets, "first", widget("a", spec)).await.unwrap();
    let other = widget("a", json!({"color": "blue", "size": 3}));
    let status = apply(&widgets, "second", other.clone()).await.unwrap_err();
    assert_eq!((status.code, &*status.reason), (409, reason::CONFLICT));
    assert_eq!(
        status.message,
        "Apply failed with 2 conflicts: conflicts with \"first\":\n- .spec.color\n- .spec.size"
    );
    let causes = status.details.unwrap().causes;
    let causes: Vec<_> = causes.iter().map(|c| (&*c.reason, &*c.field)).collect();
    assert_eq!(
        causes,
        [
            ("FieldManagerConflict", ".spec.color"),
            ("FieldManagerConflict", ".spec.size")
        ]
    );
    let forced = apply_with(&widgets, at(6), None, other, &patch_by("second", true)).await;
    let object = value(&forced.unwrap().object);
    assert_eq!(object["spec"], json!({"color": "blue", "size": 3}));
    let owners: Vec<_> = owners(&object).into_iter().map(|(who, _)| who).collect();
    assert_eq!(owners, ["second Apply 2026-01-01T00:00:06Z"]);
    // Who wants the same as others owns it too.
    let shared = widget("a", json!({"color": "blue"}));
    apply(&widgets, "third", shared).await.unwrap();
}

#[tokio::test]
async fn status_is_applied_apart_from_the_rest() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let mut configuration = widget("a", json!({"color": "red"}));
    configuration["status"] = json!({"seen": 1});
    let status = |configuration: Value| {
        let widgets = widgets.clone();
        async move {
            let options = patch_by("seer", false);
            apply_with(&widgets, at(7), Some("status"), configuration, &options).await
        }
    };
    // Nothing is created by it.
    let missing = status(configuration.clone()).await.unwrap_err();
    assert_eq!(missing.code, 404);
    apply(&widgets, "me", widget("a", json!({"color": "blue"})))
        .await
        .unwrap();
    configuration["spec"] = json!({});
    configuration["metadata"]["labels"] = json!({"x": "y"});
    let object = value(&status(configuration).await.unwrap().object);
    assert_eq!(object["spec"], json!({"color": "blue", "size": 1}));
    assert_eq!(object["status"], json!({"seen": 1}));
    assert!(object["metadata"]["labels"].is_null());
    assert_eq!(object["metadata"]["generation"], 1);
    assert_eq!(
        owners(&object)[1],
        (
            "seer Apply status 2026-01-01T00:00:07Z".to_owned(),
            json!({"f:status": {"f:seen": {}}})
        )
    );
}

#[tokio::test]
async fn a_configuration_that_is_not_of_the_resource_is_a_bad_request() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    for there in [false, true] {
        if there {
            widgets.post(widget("a", json!({}))).await.unwrap();
        }
        let before = widgets.read("a").await.ok();
        let with = |change: fn(&mut Value)| {
            let mut configuration = widget("a", json!({}));
            change(&mut configuration);
            configuration
        };
        for (wrong, says) in [
            (
                with(|c| c["apiVersion"] = "example.com/v2".into()),
                "invalid object type",
            ),
            (with(|c| c["kind"] = "Gadget".into()), "invalid object type"),
            (
                with(|c| c["spec"]["shape"] = "round".into()),
                "field not declared in schema",
            ),
            (
                with(|c| c["spec"]["size"] = "big".into()),
                "expected numeric",
            ),
            (with(|c| c["metadata"]["uid"] = 1.into()), "expected string"),
            (
                with(|c| c["metadata"]["managedFields"] = json!([{}])),
                "must be nil",
            ),
        ] {
            let status = apply(&widgets, "me", wrong.clone()).await.unwrap_err();
            assert_eq!(status.code, 400, "{wrong}: {status}");
            assert!(status.message.contains(says), "{wrong}: {status}");
        }
        let raw = async |body: &'static str| {
            let (key, options) = (key("a"), patch_by("me", false));
            let apply = PatchType::Apply;
            let body = bytes::Bytes::from_static(body.as_bytes());
            let written = widgets
                .patch(&admin(), &key, None, apply, body, &options)
                .await;
            written.unwrap_err().code
        };
        let other = r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"b"}}"#;
        for body in ["", "[]", "{", r#"{"metadata":"x"}"#, other] {
            assert_eq!(raw(body).await, 400, "{body}");
        }
        let (big, options) = (widget("a", json!({"size": 11})), patch_by("me", true));
        let too_big = apply_with(&widgets, admin(), None, big, &options).await;
        assert_eq!(too_big.unwrap_err().code, 422);
        assert_eq!(widgets.read("a").await.ok(), before);
    }
}

#[tokio::test]
async fn a_uid_and_a_version_in_the_configuration_are_preconditions() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let with = |name: &str, member: &str, value: &str| {
        let mut configuration = widget(name, json!({"color": "red"}));
        configuration["metadata"][member] = value.into();
        configuration
    };
    let absent = apply(&widgets, "me", with("a", "uid", "u"))
        .await
        .unwrap_err();
    assert_eq!(absent.code, 409);
    assert!(
        absent.message.ends_with(
            "uid mismatch: the provided object specified uid u, and no existing object was found"
        ),
        "{absent}"
    );
    let absent = apply(&widgets, "me", with("b", "resourceVersion", "7")).await;
    assert!(absent.unwrap().created);
    let created = widgets.post(widget("a", json!({}))).await.unwrap().object;
    let current = created.resource_version().to_string();
    for (member, wrong, right, refusal) in [
        (
            "resourceVersion",
            "1",
            current.as_str(),
            (409, reason::CONFLICT),
        ),
        ("uid", "u", created.uid(), (422, reason::INVALID)),
    ] {
        let status = apply(&widgets, "me", with("a", member, wrong))
            .await
            .unwrap_err();
        assert_eq!((status.code, &*status.reason), refusal);
        apply(&widgets, "me", with("a", member, right))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_dry_run_of_an_apply_leaves_nothing() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let mut dry = patch_by("me", false);
    dry.write.dry_run = true;
    let red = || widget("a", json!({"color": "red"}));
    let written = apply_with(&widgets, admin(), None, red(), &dry)
        .await
        .unwrap();
    assert!(written.created);
    assert_eq!(owners(&value(&written.object)).len(), 1);
    assert_eq!(widgets.read("a").await.unwrap_err().code, 404);
    widgets.post(widget("a", json!({}))).await.unwrap();
    let before = widgets.read("a").await.unwrap();
    let written = apply_with(&widgets, admin(), None, red(), &dry)
        .await
        .unwrap();
    assert_eq!(value(&written.object)["spec"]["color"], "red");
    assert_eq!(widgets.read("a").await.unwrap(), before);
}

#[tokio::test]
async fn what_kubectl_applied_client_side_it_takes_over_by_itself() {
    const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let mut object = widget("a", json!({"color": "red"}));
    let applied = object.to_string();
    object["metadata"]["annotations"] = json!({LAST_APPLIED: applied});
    create(&widgets, "kubectl-client-side-apply", object).await;
    let blue = widget("a", json!({"color": "blue"}));
    let other = apply(&widgets, "another", blue.clone()).await.unwrap_err();
    assert_eq!(other.code, 409);
    let written = apply(&widgets, "kubectl", blue).await.unwrap();
    let object = value(&written.object);
    assert_eq!(object["spec"]["color"], "blue");
    let last = object["metadata"]["annotations"][LAST_APPLIED]
        .as_str()
        .unwrap();
    assert!(
        last.contains("\"blue\"") && !last.contains("\"uid\""),
        "{last}"
    );
    let owners = owners(&object);
    let kubectl = owners
        .iter()
        .find(|(who, _)| who.starts_with("kubectl Apply"));
    assert_eq!(kubectl.unwrap().1, json!({"f:spec": {"f:color": {}}}));
}

#[tokio::test]
async fn resources_without_lists_of_their_fields_are_applied_to_as_well() {
    let host = Host::start().await;
    for (group, plural, kind, member) in [
        ("", "configmaps", "ConfigMap", "data"),
        ("coordination.k8s.io", "leases", "Lease", "spec"),
        ("", "events", "Event", "involvedObject"),
    ] {
        let resource = host.resource(group, plural);
        let api_version = resource.gvr().api_version();
        let mut configuration =
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
        configuration[member] = match plural {
            "configmaps" => json!({"x": "y"}),
            "leases" => json!({"holderIdentity": "me"}),
            _ => json!({"kind": "Task", "name": "t", "namespace": "default"}),
        };
        let written = apply(&resource, "me", configuration.clone()).await;
        let object = value(&written.unwrap().object);
        assert_eq!(object[member], configuration[member]);
        let owned = &owners(&object)[0].1;
        assert!(
            owned[format!("f:{member}")].is_object(),
            "{plural}: {owned}"
        );
        let again = value(&apply(&resource, "me", configuration).await.unwrap().object);
        assert_eq!(again, object, "{plural}");
    }
    let namespaces = host.namespaces();
    let configuration = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "n", "labels": {"x": "y"}}});
    let written = apply(&namespaces, "me", configuration).await.unwrap();
    assert!(written.created);
}

/// Paints whatever has no color.
struct Paints;

#[async_trait]
impl Admit for Paints {
    async fn admit(
        &self,
        _resource: &GroupVersionResource,
        review: Review,
        _lookup: Arc<dyn Lookup>,
    ) -> Result<Verdict, Status> {
        let mut object: Value = serde_json::from_slice(&review.object.unwrap()).unwrap();
        if object["spec"]["color"].is_null() {
            object["spec"]["color"] = "green".into();
        }
        object["metadata"]["managedFields"] = json!([]);
        Ok(Verdict {
            object: Some(bytes(&object)),
            ..Verdict::default()
        })
    }
}

#[tokio::test]
async fn what_admission_changes_is_nobodys_and_owners_it_cannot_change() {
    let host = Host::start().await;
    let widgets = host.custom("widgets", true, Some(Arc::new(Paints))).await;
    let configuration = widget("a", json!({"size": 2}));
    let first = apply(&widgets, "me", configuration.clone()).await.unwrap();
    let object = value(&first.object);
    assert_eq!(object["spec"], json!({"color": "green", "size": 2}));
    assert_eq!(owners(&object)[0].1, json!({"f:spec": {"f:size": {}}}));
    let again = apply(&widgets, "me", configuration).await.unwrap();
    assert_eq!(version(&again.object), version(&first.object));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_racing_applies_none_is_lost() {
    const CLIENTS: usize = 4;
    let host = Host::start().await;
    let widgets = host.widgets().await;
    for round in 0..8 {
        let name = format!("w{round}");
        let applies = (0..CLIENTS).map(|client| {
            let (widgets, name) = (widgets.clone(), name.clone());
            tokio::spawn(async move {
                let mut configuration = widget(&name, json!({}));
                configuration["metadata"]["labels"] = json!({format!("of-{client}"): "x"});
                loop {
                    let manager = format!("client-{client}");
                    match apply(&widgets, &manager, configuration.clone()).await {
                        Ok(written) => return written.created,
                        // Its ground changed too often: as it is told, it tries again.
                        Err(status) => assert_eq!(status.code, 409, "{status}"),
                    }
                }
            })
        });
        let mut created = 0;
        for apply in applies.collect::<Vec<_>>() {
            created += usize::from(apply.await.unwrap());
        }
        assert_eq!(created, 1);
        let object = widgets.read(&name).await.unwrap();
        assert_eq!(
            object["metadata"]["labels"].as_object().unwrap().len(),
            CLIENTS
        );
        assert_eq!(owners(&object).len(), CLIENTS);
    }
    let all = widgets
        .list(&admin(), None, &list_options(""))
        .await
        .unwrap();
    assert_eq!(all.items.len(), 8);
}
