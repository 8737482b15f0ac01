//! Turns that people meet, each as it is told in the documentation of server-side apply.

use serde_json::{Value, json};

use crate::schemas;
use crate::sequence::{Sequence, Step, thing};

pub(crate) fn all() -> Vec<Sequence> {
    vec![
        shared_fields(),
        from_client_side_apply(),
        before_first_apply(),
        many_updaters(),
        handed_over(),
        controllers_and_status(),
        reset_and_edit(),
        changed_types(),
        equal_items(),
    ]
}

fn script(name: &str, steps: Vec<Step>) -> Sequence {
    let schema = schemas::lists_and_maps();
    let mut sequence = Sequence::new(name.to_owned(), Some(&schema), true);
    for step in steps {
        sequence.step(step);
    }
    sequence
}

fn apply(manager: &str, members: Value) -> Step {
    Step {
        apply: true,
        manager: manager.to_owned(),
        object: thing(&members),
        ..Step::default()
    }
}

fn force(step: Step) -> Step {
    Step {
        force: true,
        ..step
    }
}

fn update(manager: &str, members: Value) -> Step {
    Step {
        apply: false,
        ..apply(manager, members)
    }
}

fn status(step: Step) -> Step {
    Step {
        subresource: "status".to_owned(),
        ..step
    }
}

fn shared_fields() -> Sequence {
    let spec = |title: &str, set: &[&str]| json!({"spec": {"title": title, "set": set}});
    script(
        "shared fields",
        vec![
            apply("a", spec("x", &["1", "2"])),
            apply("b", spec("x", &["2", "3"])),
            apply("a", spec("y", &["1"])),
            force(apply("a", spec("y", &["1"]))),
            apply("b", json!({"spec": {"set": ["3"]}})),
            apply("a", json!({})),
            apply("a", json!({})),
        ],
    )
}

fn from_client_side_apply() -> Sequence {
    let mut object =
        thing(&json!({"spec": {"title": "x", "count": 1, "labels": {"a": "b", "c": "d"}}}));
    let annotation = object.to_string();
    object["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": annotation});
    let client_side = Step {
        object: object.clone(),
        ..update("kubectl-client-side-apply", json!({}))
    };
    object["spec"]["count"] = 2.into();
    let scaled = Step {
        object,
        ..update("scaler", json!({}))
    };
    script(
        "from client-side apply",
        vec![
            client_side,
            apply("other", json!({"spec": {"title": "y"}})),
            apply(
                "kubectl",
                json!({"spec": {"title": "y", "count": 1, "labels": {"a": "b"}}}),
            ),
            scaled,
            apply(
                "kubectl",
                json!({"spec": {"title": "z", "count": 1, "ratio": 0.5, "set": ["<&>"]}}),
            ),
            force(apply(
                "kubectl",
                json!({"spec": {"title": "z", "count": 1}}),
            )),
        ],
    )
}

fn before_first_apply() -> Sequence {
    script(
        "before first apply",
        vec![
            update("a", json!({"spec": {"title": "x", "count": 1}})),
            update(
                "b",
                json!({"metadata": {"managedFields": [{}]}, "spec": {"title": "x", "count": 2}}),
            ),
            update("b", json!({"spec": {"title": "x", "count": 3}})),
            apply("c", json!({"spec": {"title": "y"}})),
            apply("c", json!({"spec": {"title": "x"}})),
            update("d", json!({"spec": {"title": "z", "count": 3}})),
        ],
    )
}

fn many_updaters() -> Sequence {
    let mut steps = vec![update("first", json!({"spec": {"title": "x"}}))];
    let mut labels = json!({});
    for i in 0..25 {
        labels[format!("l{i}")] = "x".into();
        let members = json!({"spec": {"title": "x", "labels": labels.clone()}});
        steps.push(update(&format!("m{i}"), members));
    }
    script("many updaters", steps)
}

fn handed_over() -> Sequence {
    let ports = |name: &str| json!({"spec": {"ports": [{"port": 80, "name": name}, {"port": 53, "protocol": "UDP"}]}});
    script(
        "handed over",
        vec![
            apply("a", ports("web")),
            update("b", ports("http")),
            apply("a", ports("web")),
            apply("a", json!({"spec": {"ports": [{"port": 80}]}})),
            apply(
                "a",
                json!({"spec": {"ports": [{"port": 80, "protocol": "TCP"}, {"port": 80}]}}),
            ),
            apply("a", json!({"spec": {"ports": [{"name": "no key"}]}})),
            apply("a", json!({"spec": {"undeclared": 1}})),
        ],
    )
}

fn controllers_and_status() -> Sequence {
    let condition = |type_: &str, status: &str| json!({"type": type_, "status": status});
    script(
        "controllers and status",
        vec![
            apply(
                "user",
                json!({"spec": {"title": "x"}, "status": {"phase": "nobody's"}}),
            ),
            status(apply(
                "a",
                json!({"status": {"phase": "1", "conditions": [condition("A", "True")]}}),
            )),
            status(apply(
                "b",
                json!({"spec": {"title": "y"}, "status": {"phase": "2", "conditions": [condition("B", "True")]}}),
            )),
            status(apply(
                "b",
                json!({"status": {"conditions": [condition("B", "True")]}}),
            )),
            status(update(
                "c",
                json!({"spec": {"title": "z"}, "status": {"phase": "3", "conditions": [condition("B", "False")]}}),
            )),
            status(apply("a", json!({"status": {"phase": "1"}}))),
            apply("user", json!({"spec": {"count": 1}})),
        ],
    )
}

fn reset_and_edit() -> Sequence {
    let managed = |entries: Value| json!({"metadata": {"managedFields": entries}, "spec": {"title": "x", "count": 1}});
    let entry = |manager: &str| {
        json!({"manager": manager, "operation": "Apply", "apiVersion": "example.com/v1", "fieldsType": "FieldsV1",
            "time": "2019-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:title": {}}}})
    };
    script(
        "reset and edit",
        vec![
            apply("a", json!({"spec": {"title": "x", "count": 1}})),
            update("b", managed(json!([entry("a"), entry("z")]))),
            update(
                "b",
                managed(json!([{"manager": "b", "operation": "Update"}])),
            ),
            apply("a", json!({"metadata": {"managedFields": [entry("a")]}})),
            apply("a", json!({"spec": {"count": 1}})),
            update("b", managed(json!([{}]))),
            apply("a", json!({"spec": {"count": 2}})),
        ],
    )
}

/// Entries from when the schema was another.
fn changed_types() -> Sequence {
    let entry = json!({"manager": "a", "operation": "Apply", "apiVersion": "example.com/v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:selector": {"f:a": {}, "f:b": {"f:x": {}}}, "f:atomic": {"v:\"x\"": {}},
            "f:set": {}, "f:gone": {"f:x": {}}}}});
    script(
        "changed types",
        vec![
            update(
                "b",
                json!({"spec": {"selector": {"a": "1"}, "atomic": ["x"], "set": ["x"]}}),
            ),
            update(
                "b",
                json!({"metadata": {"managedFields": [entry]}, "spec": {"selector": {"a": "1"}, "atomic": ["x"], "set": ["x"]}}),
            ),
            apply(
                "c",
                json!({"spec": {"selector": {"a": "2"}, "atomic": ["y"], "set": ["y"]}}),
            ),
            apply("a", json!({"spec": {"selector": {"a": "1"}}})),
        ],
    )
}

/// Updates may leave equal items in lists whose items have owners.
fn equal_items() -> Sequence {
    let set = |items: &[&str]| json!({"spec": {"set": items}});
    let port = |name: &str| json!({"port": 80, "name": name});
    let ports = |ports: Value| json!({"spec": {"ports": ports}});
    script(
        "equal items",
        vec![
            update("a", set(&["x", "x", "y"])),
            update("b", set(&["x", "x", "x", "y"])),
            apply("c", set(&["x", "x"])),
            apply("c", set(&["y", "x"])),
            update("d", set(&["x", "y"])),
            update("e", set(&["x", "y", "y"])),
            update("f", ports(json!([port("a"), port("b")]))),
            update("g", ports(json!([port("a"), port("a"), {"port": 1}]))),
            apply("h", ports(json!([{"port": 80}]))),
            update("i", ports(json!([port("a"), port("b")]))),
            force(apply("h", ports(json!([{"port": 80}])))),
            apply("h", json!({})),
        ],
    )
}
