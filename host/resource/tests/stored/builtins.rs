//! What standalone brings besides the resources of plugins.

use std::sync::Arc;
use std::time::Duration;

use joinery_object::{GroupVersionResource, ObjectKey, WriteOptions};
use joinery_resource::builtin::BuiltinOptions;
use joinery_resource::{Caller, Resource, StoredUpstream, User};
use joinery_schema::StructuralSchema;
use joinery_source::{Query, Upstream, UpstreamEvent};
use joinery_store::Embedded;
use serde_json::{Value, json};

use crate::support::{Host, Speak, admin, bytes, crd, json as value, names, widget};

fn event(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "Task", "name": "t", "namespace": "default", "uid": "u"},
        "reason": "TaskCreated", "type": "Normal", "message": "m", "unheard": {"of": 1},
    })
}

#[tokio::test]
async fn every_schema_is_structural_and_every_resource_in_the_catalog() {
    let options = BuiltinOptions {
        crds: vec![crd("widgets", true)],
        ..BuiltinOptions::default()
    };
    let host = Host::on(Arc::new(Embedded::temporary().unwrap()), options).await;
    let catalog = host.catalog.snapshot();
    let mut told = Vec::new();
    for (gvr, resource) in catalog.resources() {
        let definition = resource.definition();
        StructuralSchema::parse(&definition.schema).unwrap();
        assert!(definition.verbs.is_sorted());
        told.push(gvr.to_string());
    }
    assert_eq!(
        told,
        [
            "v1, configmaps",
            "v1, events",
            "v1, namespaces",
            "v1, services",
            "apiextensions.k8s.io/v1, customresourcedefinitions",
            "authentication.k8s.io/v1, selfsubjectreviews",
            "authorization.k8s.io/v1, selfsubjectaccessreviews",
            "authorization.k8s.io/v1, selfsubjectrulesreviews",
            "coordination.k8s.io/v1, leases",
            "example.com/v1, widgets",
        ]
    );
    let definitions = host.resource("apiextensions.k8s.io", "customresourcedefinitions");
    let list = definitions.all("").await.unwrap();
    assert_eq!(names(&list), ["widgets.example.com"]);
    let widgets = host.resource("example.com", "widgets");
    widgets.post(widget("a", json!({}))).await.unwrap();
}

#[tokio::test]
async fn events_keep_fields_that_no_schema_knows_and_are_selected_by_their_object() {
    let host = Host::start().await;
    let events = host.resource("", "events");
    events.post(event("a")).await.unwrap();
    let mut other = event("b");
    other["involvedObject"]["name"] = "other".into();
    events.post(other).await.unwrap();
    assert_eq!(events.read("a").await.unwrap()["unheard"], json!({"of": 1}));
    let list = events
        .all("fieldSelector=involvedObject.name=t,type=Normal")
        .await
        .unwrap();
    assert_eq!(names(&list), ["a"]);
    let mut stray = event("c");
    stray["involvedObject"]["namespace"] = "elsewhere".into();
    assert_eq!(events.post(stray).await.unwrap_err().code, 422);
}

#[tokio::test]
async fn events_expire_a_while_after_their_last_write() {
    let options = BuiltinOptions {
        event_ttl: Duration::from_millis(600),
        ..BuiltinOptions::default()
    };
    let host = Host::on(Arc::new(Embedded::temporary().unwrap()), options).await;
    let events = host.resource("", "events");
    let config_maps = host.resource("", "configmaps");
    let mut watch = events.follow("").await;
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let caller = Caller {
        now: u64::try_from(now.as_millis()).unwrap(),
        ..admin()
    };
    let options = WriteOptions::default();
    let body = bytes(&event("a"));
    events
        .create(&caller, Some("default"), None, body, &options)
        .await
        .unwrap();
    config_maps
        .post(json!({"metadata": {"name": "c"}}))
        .await
        .unwrap();
    events.read("a").await.unwrap();
    assert_eq!(watch.take(2).await, ["ADDED a", "DELETED a"]);
    config_maps.read("c").await.unwrap();
}

#[tokio::test]
async fn a_lease_is_held_by_who_writes_the_version_he_read() {
    let host = Host::start().await;
    let leases = host.resource("coordination.k8s.io", "leases");
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}});
    leases.post(lease).await.unwrap();
    let read = leases.read("l").await.unwrap();
    assert!(read["metadata"]["generation"].is_null());
    let mut mine = read.clone();
    mine["spec"]["holderIdentity"] = "b".into();
    leases.put(mine).await.unwrap();
    let mut late = read;
    late["spec"]["holderIdentity"] = "c".into();
    assert_eq!(leases.put(late).await.unwrap_err().code, 409);
}

#[tokio::test]
async fn who_asks_what_he_may_do_is_told() {
    let host = Host::start().await;
    let catalog = host.catalog.snapshot();
    let ask = async |user: &str, resource: &str, spec: Value| {
        let gvr = GroupVersionResource::new("authorization.k8s.io", "v1", resource);
        let caller = Caller {
            user: User {
                name: user.to_owned(),
                ..User::default()
            },
            ..admin()
        };
        let body = bytes(&json!({"spec": spec}));
        let review = catalog.find(&gvr).unwrap();
        let written = review
            .create(&caller, None, None, body, &WriteOptions::default())
            .await;
        written.map(|written| value(&written.object)["status"].clone())
    };
    let spec = json!({"resourceAttributes": {"verb": "list", "resource": "tasks", "group": "tasks.example.com"}});
    let access = "selfsubjectaccessreviews";
    assert_eq!(
        ask("admin", access, spec.clone()).await.unwrap()["allowed"],
        true
    );
    let denied = ask("eve", access, spec).await.unwrap();
    assert_eq!(denied["allowed"], false);
    assert!(
        denied["reason"]
            .as_str()
            .unwrap()
            .contains("cannot list resource \"tasks\"")
    );
    let path = json!({"nonResourceAttributes": {"verb": "get", "path": "/metrics"}});
    assert_eq!(ask("eve", access, path).await.unwrap()["allowed"], false);
    assert_eq!(ask("eve", access, json!({})).await.unwrap_err().code, 400);
    let rules = "selfsubjectrulesreviews";
    let all = ask("admin", rules, json!({"namespace": "default"}))
        .await
        .unwrap();
    assert_eq!(all["resourceRules"][0]["verbs"], json!(["*"]));
    let some = ask("eve", rules, json!({"namespace": "default"}))
        .await
        .unwrap();
    assert_eq!(some["incomplete"], true);
}

#[tokio::test]
async fn stored_resources_are_sources_of_views() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let upstream = StoredUpstream::new(host.storage.clone());
    let gvr = GroupVersionResource::new("example.com", "v1", "widgets");
    let mut object = widget("a", json!({}));
    object["metadata"]["managedFields"] = json!([{"manager": "me"}]);
    widgets.post(object).await.unwrap();
    let page = upstream.list(&gvr, &Query::default()).await.unwrap();
    assert!(value(&page.items[0])["metadata"]["managedFields"].is_null());
    let mut watch = upstream
        .watch(&gvr, &Query::default(), page.position)
        .await
        .unwrap();
    widgets.remove("a").await.unwrap();
    let event = futures::StreamExt::next(&mut watch).await.unwrap().unwrap();
    match event {
        UpstreamEvent::Change(kind, object) => {
            assert_eq!((kind.as_str(), &*object.key().name), ("DELETED", "a"));
            assert!(object.resource_version().position(0) > page.position);
        }
        UpstreamEvent::Bookmark(_) => panic!("a bookmark came first"),
    }
    let key = ObjectKey::new(Some("default"), "a");
    assert!(upstream.get(&gvr, &key).await.unwrap().is_none());
    let unknown = GroupVersionResource::new("example.com", "v2", "widgets");
    assert!(upstream.get(&unknown, &key).await.is_err());
}

#[tokio::test]
async fn built_in_objects_of_wrong_types_are_refused_in_the_words_of_go() {
    let host = Host::start().await;
    let meta = json!({"name": "a"});
    let event = |more: Value| {
        let mut event = event("a");
        for (field, value) in more.as_object().unwrap() {
            event[field] = value.clone();
        }
        event
    };
    for (group, resource, object, detail) in [
        (
            "",
            "configmaps",
            json!({"metadata": {"name": "a", "creationTimestamp": "yesterday"}}),
            r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#,
        ),
        (
            "",
            "configmaps",
            json!({"metadata": meta, "data": {"a": 1}}),
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "",
            "configmaps",
            json!({"metadata": meta, "data": "x"}),
            "json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            "",
            "configmaps",
            json!({"metadata": meta, "binaryData": {"a": "!!"}}),
            "illegal base64 data at input byte 0",
        ),
        (
            "",
            "events",
            event(json!({"count": 1.5})),
            "json: cannot unmarshal number 1.5 into Go struct field Event.count of type int32",
        ),
        (
            "",
            "events",
            event(json!({"series": {"count": "x"}})),
            "json: cannot unmarshal string into Go struct field EventSeries.series.count of type int32",
        ),
        (
            "",
            "events",
            event(json!({"source": "x"})),
            "json: cannot unmarshal string into Go struct field Event.source of type v1.EventSource",
        ),
        (
            "",
            "events",
            event(json!({"lastTimestamp": "yesterday"})),
            r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#,
        ),
        (
            "coordination.k8s.io",
            "leases",
            json!({"metadata": meta, "spec": {"holderIdentity": 5}}),
            "json: cannot unmarshal number into Go struct field LeaseSpec.spec.holderIdentity of type string",
        ),
    ] {
        let status = host
            .resource(group, resource)
            .post(object)
            .await
            .unwrap_err();
        assert_eq!(status.code, 400, "{status}");
        assert!(
            status.message.ends_with(&format!(": {detail}")),
            "{}",
            status.message
        );
    }
}

#[tokio::test]
async fn built_in_objects_keep_the_rules_of_kubernetes() {
    let host = Host::start().await;
    let refused = async |group: &str, resource: &str, object: Value| {
        let status = host
            .resource(group, resource)
            .post(object)
            .await
            .unwrap_err();
        assert_eq!(status.code, 422, "{status}");
        status.message
    };
    let mut new_style = event("a");
    new_style["eventTime"] = "2026-01-01T00:00:00.000000Z".into();
    new_style.as_object_mut().unwrap().remove("reason");
    let message = refused("", "events", new_style).await;
    for part in [
        "reportingComponent: Required value",
        "reportingComponent: Invalid value: \"\": name part must be non-empty",
        "reportingInstance: Required value",
        "action: Required value",
        "reason: Required value",
    ] {
        assert!(message.contains(part), "{message}");
    }
    let key = json!({"metadata": {"name": "a"}, "data": {"a b": "c"}});
    let message = refused("", "configmaps", key).await;
    assert!(message.starts_with(
        "ConfigMap \"a\" is invalid: data[a b]: Invalid value: \"a b\": a valid config key"
    ));
    let lease = json!({"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 0}});
    assert_eq!(
        refused("coordination.k8s.io", "leases", lease).await,
        "Lease.coordination.k8s.io \"l\" is invalid: spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"
    );
}

#[tokio::test]
async fn who_asks_who_he_is_is_told() {
    let host = Host::start().await;
    let gvr = GroupVersionResource::new("authentication.k8s.io", "v1", "selfsubjectreviews");
    let review = host.catalog.snapshot().find(&gvr).unwrap().clone();
    let written = review
        .create(
            &admin(),
            None,
            None,
            bytes(&json!({})),
            &WriteOptions::default(),
        )
        .await
        .unwrap();
    let answer = value(&written.object);
    assert_eq!(answer["status"]["userInfo"]["username"], admin().user.name);
    assert!(answer["spec"].is_null());
}
