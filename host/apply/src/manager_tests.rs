//! What callers rely on. That owners are upstream's is tested against upstream, in tests/upstream.

use joinery_object::Status;
use joinery_schema::StructuralSchema;
use serde_json::{Value, json};

use crate::{FieldManager, Writer};

const NOW: u64 = 1_767_225_600_999;

fn manager() -> FieldManager {
    let schema = StructuralSchema::from_value(json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "title": {"type": "string"}, "count": {"type": "integer"},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}}}}));
    FieldManager::new(Some(&schema.unwrap()), "example.com/v1", "Thing", true)
}

fn thing(spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a", "namespace": "n"}, "spec": spec})
}

fn writer(manager: &str) -> Writer<'_> {
    Writer {
        manager,
        subresource: None,
        now: NOW,
    }
}

fn created(spec: Value) -> Value {
    let mut object = thing(spec);
    manager()
        .update(None, &mut object, &writer("creator"))
        .unwrap();
    object
}

fn applied(live: Option<&Value>, spec: Value, by: &str) -> Result<Value, Status> {
    manager().apply(live, &thing(spec), &writer(by), false)
}

#[test]
fn who_creates_an_object_owns_its_fields_but_not_what_names_it() {
    let object = created(json!({"title": "x"}));
    assert_eq!(
        object["metadata"]["managedFields"],
        json!([{
            "manager": "creator", "operation": "Update", "apiVersion": "example.com/v1",
            "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {".": {}, "f:title": {}}},
        }])
    );
}

#[test]
fn an_update_that_changes_nothing_changes_no_times() {
    let live = created(json!({"title": "x"}));
    let mut object = live.clone();
    let later = Writer {
        now: NOW + 60_000,
        ..writer("creator")
    };
    manager().update(Some(&live), &mut object, &later).unwrap();
    assert_eq!(object, live);
}

#[test]
fn what_is_applied_no_longer_is_removed_unless_others_own_it() {
    let live = applied(
        None,
        json!({"title": "x", "count": 1, "tags": ["a", "b"]}),
        "a",
    )
    .unwrap();
    let live = applied(Some(&live), json!({"title": "x", "tags": ["b"]}), "b").unwrap();
    let live = applied(Some(&live), json!({}), "a").unwrap();
    assert_eq!(live["spec"], json!({"title": "x", "tags": ["b"]}));
}

#[test]
fn what_others_own_is_a_conflict_that_force_takes() {
    let live = created(json!({"title": "x", "count": 1}));
    let error = applied(Some(&live), json!({"title": "y"}), "b").unwrap_err();
    assert_eq!(error.code, 409);
    assert_eq!(
        error.message,
        r#"Apply failed with 1 conflict: conflict with "creator" using example.com/v1: .spec.title"#
    );
    let object = manager().apply(
        Some(&live),
        &thing(json!({"title": "y"})),
        &writer("b"),
        true,
    );
    let object = object.unwrap();
    assert_eq!(object["spec"], json!({"title": "y", "count": 1}));
    let owners = object["metadata"]["managedFields"].as_array().unwrap();
    let owners: Vec<_> = owners
        .iter()
        .map(|e| (&e["manager"], &e["fieldsV1"]["f:spec"]))
        .collect();
    assert_eq!(
        owners,
        [
            (&json!("b"), &json!({"f:title": {}})),
            (&json!("creator"), &json!({".": {}, "f:count": {}}))
        ]
    );
}

#[test]
fn the_resource_itself_does_not_come_to_own_its_status() {
    let mut object = thing(json!({"title": "x"}));
    object["status"] = json!({"phase": "1"});
    let object = manager().apply(None, &object, &writer("a"), false).unwrap();
    let fields = &object["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(*fields, json!({"f:spec": {"f:title": {}}}));
}

#[test]
fn a_subresource_has_an_entry_of_its_own_and_only_its_fields() {
    let live = applied(None, json!({"title": "x"}), "a").unwrap();
    let mut object = live.clone();
    object["status"] = json!({"phase": "1"});
    object["spec"]["title"] = "y".into();
    let status = Writer {
        subresource: Some("status"),
        ..writer("a")
    };
    manager().update(Some(&live), &mut object, &status).unwrap();
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[1]["subresource"], "status");
    assert_eq!(
        entries[1]["fieldsV1"],
        json!({"f:status": {".": {}, "f:phase": {}}})
    );
}

#[test]
fn configurations_that_make_no_sense_are_bad_requests() {
    let mut other_kind = thing(json!({}));
    other_kind["kind"] = "Other".into();
    let mut with_owners = thing(json!({}));
    with_owners["metadata"]["managedFields"] = json!([]);
    for (config, message) in [
        (
            other_kind,
            "invalid object type: example.com/v1, Kind=Other",
        ),
        (with_owners, "metadata.managedFields must be nil"),
        (
            thing(json!({"x": 1})),
            "failed to create typed patch object (n/a; example.com/v1, Kind=Thing): .spec.x: field not declared in schema",
        ),
        (
            thing(json!({"tags": ["a", "a"]})),
            "failed to create typed patch object (n/a; example.com/v1, Kind=Thing): .spec.tags: duplicate entries for \
             key [=\"a\"]",
        ),
        (
            thing(json!({"count": "1"})),
            "failed to create typed patch object (n/a; example.com/v1, Kind=Thing): .spec.count: expected numeric (int \
             or float), got \"1\"",
        ),
    ] {
        let error = manager()
            .apply(None, &config, &writer("a"), false)
            .unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (400, message));
    }
}

#[test]
fn an_object_that_is_not_as_the_schema_has_it_is_stored_without_owners() {
    let live = created(json!({"title": "x"}));
    let mut object = live.clone();
    object["spec"]["title"] = 1.into();
    let error = manager()
        .update(Some(&live), &mut object, &writer("a"))
        .unwrap_err();
    assert!(error.to_string().contains(".spec.title"), "{error}");
    assert_eq!(object["metadata"], json!({"name": "a", "namespace": "n"}));
}

#[test]
fn metadata_that_is_no_object_is_no_reason_to_fail() {
    let untyped = FieldManager::new(None, "example.com/v1", "Thing", true);
    let mut object =
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": "x", "spec": {}});
    untyped.update(None, &mut object, &writer("a")).unwrap();
    assert_eq!(object["metadata"], "x");
}

#[test]
fn a_manager_can_read_back_what_it_applied() {
    let live = applied(None, json!({"title": "x", "tags": ["a"]}), "a").unwrap();
    let live = applied(Some(&live), json!({"count": 1}), "b").unwrap();
    let own = manager().extract(&live, "a", None).unwrap();
    assert_eq!(
        own,
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "spec": {"title": "x", "tags": ["a"]}})
    );
    assert_eq!(manager().extract(&live, "c", None), None);
}
