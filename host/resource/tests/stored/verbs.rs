//! Each verb by itself.

use joinery_object::{
    DeleteOptions, FieldValidation, ObjectKey, PatchOptions, Preconditions, WriteOptions, reason,
};
use joinery_resource::{PatchType, Resource};
use serde_json::json;

use crate::support::{
    Host, Speak, admin, bytes, json as value, key, list_options, names, version, widget,
};

#[tokio::test]
async fn a_created_object_has_what_the_server_gives_it() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let mut object = widget("a", json!({"color": "red"}));
    object["metadata"]["uid"] = "mine".into();
    object["metadata"]["generation"] = 7.into();
    object["metadata"]["creationTimestamp"] = json!(null);
    object["status"] = json!({"seen": 1});
    let written = widgets.post(object).await.unwrap();
    assert!(written.created);
    let created = value(&written.object);
    assert_eq!(created["spec"], json!({"color": "red", "size": 1}));
    assert_eq!(created["metadata"]["namespace"], "default");
    assert_eq!(
        created["metadata"]["creationTimestamp"],
        "2026-01-01T00:00:00Z"
    );
    assert_eq!(created["metadata"]["generation"], 1);
    assert_eq!(created["metadata"]["uid"].as_str().unwrap().len(), 36);
    assert!(created["status"].is_null());
    assert_eq!(widgets.read("a").await.unwrap(), created);
}

#[tokio::test]
async fn what_exists_is_not_created_again() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    widgets.post(widget("a", json!({}))).await.unwrap();
    let status = widgets.post(widget("a", json!({}))).await.unwrap_err();
    assert_eq!(
        (status.code, &*status.reason),
        (409, reason::ALREADY_EXISTS)
    );
    assert_eq!(status.message, "widgets.example.com \"a\" already exists");
}

#[tokio::test]
async fn the_server_generates_names() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let object = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"generateName": "w-"}});
    let one = widgets.post(object.clone()).await.unwrap();
    let two = widgets.post(object).await.unwrap();
    assert_eq!(one.object.key().name.len(), 7);
    assert_ne!(one.object.key(), two.object.key());
}

#[tokio::test]
async fn the_path_may_name_a_new_object() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let options = WriteOptions::default();
    let create = async |name: &str, object| {
        let body = bytes(&object);
        widgets
            .create(&admin(), Some("default"), Some(name), body, &options)
            .await
    };
    let unnamed = json!({"apiVersion": "example.com/v1", "kind": "Widget"});
    assert_eq!(&*create("a", unnamed).await.unwrap().object.key().name, "a");
    let status = create("b", widget("c", json!({}))).await.unwrap_err();
    assert_eq!(status.code, 400);
    assert_eq!(
        status.message,
        "the name of the object (c) does not match the name on the URL (b)"
    );
}

#[tokio::test]
async fn what_does_not_fit_the_path_is_a_bad_request() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let with = |path: [&str; 2], value: &str| {
        let mut object = widget("a", json!({}));
        if path[1].is_empty() {
            object[path[0]] = value.into();
        } else {
            object[path[0]][path[1]] = value.into();
        }
        object
    };
    for (object, message) in [
        (
            with(["apiVersion", ""], "example.com/v2"),
            "the API version in the data (example.com/v2) does not match the expected API version (example.com/v1)",
        ),
        (
            with(["kind", ""], "Gadget"),
            "Gadget in version \"v1\" cannot be handled as a Widget: this resource takes objects of kind \"Widget\"",
        ),
        (
            with(["metadata", "namespace"], "other"),
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            with(["metadata", "resourceVersion"], "7"),
            "resourceVersion should not be set on objects to be created",
        ),
        (
            with(["metadata", "labels"], "x"),
            "Widget in version \"v1\" cannot be handled as a Widget: json: cannot unmarshal string into Go struct field \
             ObjectMeta.labels of type map[string]string",
        ),
    ] {
        let status = widgets.post(object).await.unwrap_err();
        assert_eq!((status.code, status.message.as_str()), (400, message));
    }
}

#[tokio::test]
async fn invalid_objects_are_told_field_by_field() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let status = widgets
        .post(widget("Not_A_Name", json!({"size": 11, "color": 3})))
        .await
        .unwrap_err();
    assert_eq!((status.code, &*status.reason), (422, reason::INVALID));
    let details = status.details.unwrap();
    assert_eq!(
        (details.group.as_str(), details.kind.as_str()),
        ("example.com", "Widget")
    );
    let fields: Vec<_> = details
        .causes
        .iter()
        .map(|cause| cause.field.as_str())
        .collect();
    assert_eq!(fields, ["metadata.name", "spec.color", "spec.size"]);
}

#[tokio::test]
async fn unknown_fields_are_dropped_and_told_or_refused() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let object = widget("a", json!({"shape": "round"}));
    let strict = WriteOptions {
        field_validation: FieldValidation::Strict,
        ..WriteOptions::default()
    };
    let status = widgets
        .create(&admin(), Some("default"), None, bytes(&object), &strict)
        .await
        .unwrap_err();
    assert_eq!(status.code, 400);
    assert!(
        status
            .message
            .ends_with("strict decoding error: unknown field \"spec.shape\""),
        "{status}"
    );
    let written = widgets.post(object).await.unwrap();
    assert_eq!(written.warnings, ["unknown field \"spec.shape\""]);
    assert_eq!(value(&written.object)["spec"], json!({"size": 1}));
    let options = PatchOptions {
        write: strict,
        force: false,
    };
    let patch = bytes(&json!({"spec": {"shape": "round"}}));
    let status = widgets
        .patch(&admin(), &key("a"), None, PatchType::Merge, patch, &options)
        .await
        .unwrap_err();
    assert_eq!(status.code, 422);
}

#[tokio::test]
async fn a_dry_run_does_all_but_write() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let dry = WriteOptions {
        dry_run: true,
        ..WriteOptions::default()
    };
    let body = bytes(&widget("a", json!({})));
    let written = widgets
        .create(&admin(), Some("default"), None, body.clone(), &dry)
        .await
        .unwrap();
    assert_eq!(value(&written.object)["spec"], json!({"size": 1}));
    assert_eq!(widgets.read("a").await.unwrap_err().code, 404);
    widgets.post(widget("a", json!({}))).await.unwrap();
    let again = widgets
        .create(&admin(), Some("default"), None, body, &dry)
        .await;
    assert_eq!(again.unwrap_err().code, 409);
    let options = DeleteOptions {
        dry_run: true,
        ..DeleteOptions::default()
    };
    assert!(
        widgets
            .delete(&admin(), &key("a"), &options)
            .await
            .unwrap()
            .removed
    );
    widgets.read("a").await.unwrap();
}

#[tokio::test]
async fn an_update_needs_the_version_it_rests_on() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    widgets.post(widget("a", json!({}))).await.unwrap();
    let read = widgets.read("a").await.unwrap();
    let mut first = read.clone();
    first["spec"]["size"] = 2.into();
    widgets.put(first).await.unwrap();
    let mut second = read.clone();
    second["spec"]["size"] = 3.into();
    let status = widgets.put(second.clone()).await.unwrap_err();
    assert_eq!((status.code, &*status.reason), (409, reason::CONFLICT));
    assert_eq!(
        status.message,
        "Operation cannot be fulfilled on widgets.example.com \"a\": the object has been modified; please apply your \
         changes to the latest version and try again"
    );
    second["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    let status = widgets.put(second.clone()).await.unwrap_err();
    assert_eq!(status.code, 422);
    assert!(status.message.contains("must be specified for an update"));
    second["metadata"]["uid"] = "another".into();
    assert_eq!(widgets.put(second).await.unwrap_err().code, 409);
    let missing = widgets.put(widget("b", json!({}))).await.unwrap_err();
    assert_eq!(missing.code, 404);
}

#[tokio::test]
async fn an_update_that_changes_nothing_keeps_the_version() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let created = widgets.post(widget("a", json!({"size": 2}))).await.unwrap();
    let same = widgets
        .merge("a", json!({"spec": {"size": 2}}))
        .await
        .unwrap();
    assert_eq!(version(&same.object), version(&created.object));
    let other = widgets
        .merge("a", json!({"spec": {"size": 3}}))
        .await
        .unwrap();
    assert!(version(&other.object) > version(&created.object));
}

#[tokio::test]
async fn clients_do_not_write_the_metadata_of_the_server() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    widgets.post(widget("a", json!({}))).await.unwrap();
    let before = widgets.read("a").await.unwrap();
    let patch = json!({"metadata": {
        "generation": 99, "creationTimestamp": "2000-01-01T00:00:00Z", "labels": {"x": "y"},
    }});
    let after = value(&widgets.merge("a", patch).await.unwrap().object);
    assert_eq!(after["metadata"]["labels"]["x"], "y");
    for member in [
        "uid",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
    ] {
        assert_eq!(
            after["metadata"][member], before["metadata"][member],
            "{member}"
        );
    }
    for (member, written) in [
        ("deletionTimestamp", json!("2000-01-01T00:00:00Z")),
        ("deletionGracePeriodSeconds", json!(30)),
        ("uid", json!("another")),
    ] {
        let patch = json!({"metadata": {member: written}});
        let status = widgets.merge("a", patch).await.unwrap_err();
        assert_eq!(status.code, 422, "{status}");
        assert!(status.message.ends_with("field is immutable"), "{status}");
    }
}

#[tokio::test]
async fn the_generation_counts_changes_of_what_is_wanted() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    widgets.post(widget("a", json!({}))).await.unwrap();
    let generation = async || widgets.read("a").await.unwrap()["metadata"]["generation"].clone();
    widgets
        .merge("a", json!({"metadata": {"labels": {"x": "y"}}}))
        .await
        .unwrap();
    assert_eq!(generation().await, 1);
    widgets
        .merge("a", json!({"spec": {"size": 4}}))
        .await
        .unwrap();
    assert_eq!(generation().await, 2);
}

#[tokio::test]
async fn the_status_is_written_apart_from_the_rest() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    widgets.post(widget("a", json!({}))).await.unwrap();
    let patch = bytes(
        &json!({"status": {"seen": 1}, "spec": {"size": 9}, "metadata": {"labels": {"x": "y"}}}),
    );
    let options = PatchOptions::default();
    let patch_at = async |subresource| {
        let patch = patch.clone();
        let written = widgets
            .patch(
                &admin(),
                &key("a"),
                subresource,
                PatchType::Merge,
                patch,
                &options,
            )
            .await;
        value(&written.unwrap().object)
    };
    let status = patch_at(Some("status")).await;
    assert_eq!(status["status"], json!({"seen": 1}));
    assert_eq!(status["spec"], json!({"size": 1}));
    assert!(status["metadata"]["labels"].is_null());
    assert_eq!(status["metadata"]["generation"], 1);
    widgets
        .merge("a", json!({"status": {"seen": 2}, "spec": {"size": 9}}))
        .await
        .unwrap();
    let main = widgets.read("a").await.unwrap();
    assert_eq!(main["status"], json!({"seen": 1}));
    assert_eq!(main["spec"], json!({"size": 9}));
    let missing = widgets
        .patch(
            &admin(),
            &key("a"),
            Some("scale"),
            PatchType::Merge,
            patch.clone(),
            &options,
        )
        .await;
    assert_eq!(missing.unwrap_err().code, 404);
}

#[tokio::test]
async fn patches_are_applied_to_the_stored_object() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    widgets.post(widget("a", json!({}))).await.unwrap();
    let options = PatchOptions::default();
    let patch = async |patch_type, body: serde_json::Value| {
        widgets
            .patch(
                &admin(),
                &key("a"),
                None,
                patch_type,
                bytes(&body),
                &options,
            )
            .await
    };
    let written = patch(
        PatchType::Json,
        json!([{"op": "test", "path": "/spec/size", "value": 1}, {"op": "add", "path": "/spec/color", "value": "red"}]),
    )
    .await
    .unwrap();
    assert_eq!(
        value(&written.object)["spec"],
        json!({"color": "red", "size": 1})
    );
    let failed = json!([{"op": "test", "path": "/spec/size", "value": 2}]);
    assert_eq!(patch(PatchType::Json, failed).await.unwrap_err().code, 422);
    let renamed = patch(PatchType::Merge, json!({"metadata": {"name": "b"}})).await;
    assert_eq!(renamed.unwrap_err().code, 400);
    let stale = patch(
        PatchType::Merge,
        json!({"metadata": {"resourceVersion": "1"}}),
    )
    .await;
    assert_eq!(stale.unwrap_err().code, 409);
    assert_eq!(
        widgets.merge("none", json!({})).await.unwrap_err().code,
        404
    );
}

#[tokio::test]
async fn a_delete_heeds_its_preconditions() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let created = widgets.post(widget("a", json!({}))).await.unwrap().object;
    let delete = async |uid: Option<&str>, resource_version: Option<String>| {
        let options = DeleteOptions {
            preconditions: Preconditions {
                uid: uid.map(str::to_owned),
                resource_version,
            },
            ..DeleteOptions::default()
        };
        widgets.delete(&admin(), &key("a"), &options).await
    };
    let status = delete(Some("x"), None).await.unwrap_err();
    assert_eq!(status.code, 409);
    assert!(
        status
            .message
            .contains("the UID in the precondition (x) does not match the UID in record ("),
        "{status}"
    );
    assert_eq!(
        delete(None, Some("1".to_owned())).await.unwrap_err().code,
        409
    );
    let current = created.resource_version().to_string();
    let written = delete(Some(created.uid()), Some(current)).await.unwrap();
    assert!(written.removed);
    assert_eq!(widgets.read("a").await.unwrap_err().code, 404);
    assert_eq!(widgets.remove("a").await.unwrap_err().code, 404);
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_is_gone() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let mut object = widget("a", json!({}));
    object["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]);
    widgets.post(object).await.unwrap();
    let marked = widgets.remove("a").await.unwrap();
    assert!(!marked.removed);
    let marked = value(&marked.object);
    assert_eq!(
        marked["metadata"]["deletionTimestamp"],
        "2026-01-01T00:00:00Z"
    );
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(marked["metadata"]["generation"], 2);
    // Once is enough.
    let again = value(&widgets.remove("a").await.unwrap().object);
    assert_eq!(again, marked);
    let added = json!({"metadata": {"finalizers": ["example.com/a", "example.com/c"]}});
    assert_eq!(widgets.merge("a", added).await.unwrap_err().code, 422);
    let fewer = json!({"metadata": {"finalizers": ["example.com/b"]}});
    widgets.merge("a", fewer).await.unwrap();
    widgets.read("a").await.unwrap();
    widgets
        .merge("a", json!({"metadata": {"finalizers": null}}))
        .await
        .unwrap();
    assert_eq!(widgets.read("a").await.unwrap_err().code, 404);
}

#[tokio::test]
async fn a_collection_is_deleted_as_selected() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        widgets
            .post(widget(name, json!({"color": color})))
            .await
            .unwrap();
    }
    let selection = list_options("fieldSelector=spec.color=red");
    let options = DeleteOptions::default();
    let deleted = widgets
        .delete_collection(&admin(), Some("default"), &selection, &options)
        .await
        .unwrap();
    assert_eq!(names(&deleted), ["a", "c"]);
    assert_eq!(names(&widgets.all("").await.unwrap()), ["b"]);
    let elsewhere = widgets
        .delete_collection(&admin(), Some("kube-system"), &list_options(""), &options)
        .await
        .unwrap();
    assert!(elsewhere.items.is_empty());
}

/// Options of a list bound what is deleted: who deletes in pages must not lose the rest.
#[tokio::test]
async fn a_collection_is_deleted_page_by_page_and_as_of_a_version() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    for name in ["a", "b", "c", "d"] {
        widgets.post(widget(name, json!({}))).await.unwrap();
    }
    let options = DeleteOptions::default();
    let delete = async |selection: &str| {
        let selection = list_options(selection);
        widgets
            .delete_collection(&admin(), Some("default"), &selection, &options)
            .await
    };
    let page = delete("limit=1").await.unwrap();
    assert_eq!(names(&page), ["a"]);
    assert_eq!(page.remaining, Some(3));
    assert_eq!(names(&widgets.all("").await.unwrap()), ["b", "c", "d"]);
    let token = page.continue_token.unwrap();
    widgets.post(widget("e", json!({}))).await.unwrap();
    let rest = delete(&format!("limit=2&continue={token}")).await.unwrap();
    assert_eq!(names(&rest), ["b", "c"]);
    let version = widgets.all("").await.unwrap().resource_version;
    widgets.post(widget("f", json!({}))).await.unwrap();
    let then = format!("resourceVersionMatch=Exact&resourceVersion={version}");
    assert_eq!(names(&delete(&then).await.unwrap()), ["d", "e"]);
    assert_eq!(names(&widgets.all("").await.unwrap()), ["f"]);
    assert_eq!(delete("continue=x").await.unwrap_err().code, 400);
    let future = "resourceVersionMatch=Exact&resourceVersion=999999";
    assert!(delete(future).await.is_err());
    assert_eq!(names(&widgets.all("").await.unwrap()), ["f"]);
}

#[tokio::test]
async fn cluster_scoped_objects_have_no_namespace() {
    let host = Host::start().await;
    let gadgets = host.custom("gadgets", false, None).await;
    let mut object = widget("a", json!({}));
    object["metadata"]["namespace"] = "default".into();
    let created = gadgets.post(object).await.unwrap().object;
    assert_eq!(created.key(), &ObjectKey::new(None, "a"));
    assert!(value(&created)["metadata"]["namespace"].is_null());
}

#[tokio::test]
async fn a_controller_that_is_named_twice_is_one_controller() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "K", "name": "n", "uid": uid, "controller": true});
    let mut object = widget("a", json!({}));
    object["metadata"]["ownerReferences"] = json!([owner("u"), owner("u")]);
    let written = widgets.post(object.clone()).await.unwrap();
    assert_eq!(written.warnings.len(), 1, "{:?}", written.warnings);
    assert_eq!(
        value(&written.object)["metadata"]["ownerReferences"],
        json!([owner("u")])
    );
    object["metadata"]["name"] = "b".into();
    object["metadata"]["ownerReferences"] = json!([owner("u"), owner("v")]);
    assert_eq!(widgets.post(object).await.unwrap_err().code, 422);
}
