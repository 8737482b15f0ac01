//! What is loaded, and what is refused with which words.

use joinery_plugin::{HostSettings, LoadError, Shape};
use serde_json::{Value, json};

use crate::guests::{guest, load, load_bytes, settings};

async fn refused(value: Value) -> String {
    load("test_guest", value).await.unwrap_err().to_string()
}

async fn refused_guest(guest_settings: Value) -> String {
    refused(json!({"settings": guest_settings})).await
}

#[tokio::test]
async fn a_plugin_says_what_it_serves_and_reads() {
    let generation = load("test_guest", json!({})).await.unwrap();
    assert_eq!(generation.name(), "test_guest");
    assert_eq!(generation.digest().len(), 64);
    let description = generation.description();
    let [things, items] = description.resources.as_slice() else {
        panic!("two resources")
    };
    assert_eq!(
        things.definition.gvr.to_string(),
        "test.example.com/v1, things"
    );
    assert_eq!(things.definition.list_kind, "ThingList");
    assert_eq!(things.definition.singular, "thing");
    assert_eq!(things.definition.verbs, ["get", "list", "watch"]);
    assert!(items.definition.verbs.contains(&"deletecollection"));
    assert!(matches!(items.shape, Shape::Stored));
    let Shape::View(view) = &things.shape else {
        panic!("a view")
    };
    assert_eq!(
        view.sources[0].name, "pods",
        "the primary comes first, however they were declared"
    );
    assert_eq!(view.relations[0].source, 1);
    assert!(generation.join(&items.definition.gvr).is_none());
}

#[tokio::test]
async fn memory_that_does_not_suffice_to_begin_is_named() {
    let said = refused(json!({"limits": {"memoryMiB": 1}})).await;
    assert!(said.contains("limits.memoryMiB"), "{said}");
}

#[tokio::test]
async fn files_that_are_no_plugin_are_refused() {
    let wat = |text: &str| bytes::Bytes::from(wat::parse_str(text).unwrap());
    let whole = guest("test_guest");
    for (bytes, words) in [
        (bytes::Bytes::new(), "the file is empty"),
        (
            bytes::Bytes::from_static(b"garbage"),
            "not a WebAssembly component: ",
        ),
        (
            whole.slice(..whole.len() / 2),
            "not a WebAssembly component: ",
        ),
        (
            wat("(module)"),
            "a core WebAssembly module, not a component",
        ),
        (wat("(component)"), "exports nothing: a plugin exports"),
        (
            wat(r#"(component (instance $i) (export "joinery:plugin/setup@0.2.0" (instance $i)))"#),
            "written for joinery:plugin/setup@0.2.0",
        ),
        (
            wat(
                r#"(component (import "wasi:http/types@0.2.0" (instance)) (instance $i)
                (export "joinery:plugin/setup@0.1.0" (instance $i)) (export "joinery:plugin/join@0.1.0" (instance $i)))"#,
            ),
            "imports wasi:http/types@0.2.0: a plugin may import",
        ),
        (
            wat(r#"(component (instance $i)
                (export "joinery:plugin/setup@0.1.0" (instance $i)) (export "joinery:plugin/join@0.1.0" (instance $i)))"#),
            "does not fit the contract joinery:plugin@0.1: ",
        ),
    ] {
        let error = load_bytes("bad", bytes, HostSettings::default())
            .await
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(words), "{words}: {error}");
    }
}

#[tokio::test]
async fn damage_inside_is_found_by_the_compiler() {
    // The outline is right, the code is not: it leaves nothing on the stack.
    let text = r#"(component
        (core module $m (func (export "f") (result i32)))
        (instance $i)
        (export "joinery:plugin/setup@0.1.0" (instance $i)) (export "joinery:plugin/join@0.1.0" (instance $i)))"#;
    let bytes = wat::parse_str(text).unwrap();
    let error = load_bytes("bad", bytes.into(), HostSettings::default())
        .await
        .unwrap_err();
    assert!(
        matches!(&error, LoadError::Compile(message) if message.contains("type mismatch")),
        "{error}"
    );
}

#[tokio::test]
async fn a_start_function_that_never_ends_is_ended() {
    let text = r#"(component
        (core module $m
            (memory (export "memory") 1)
            (func $start (loop (br 0)))
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 0))
            (func (export "f") (param i32 i32) (result i32) (i32.const 0))
            (start $start))
        (core instance $m (instantiate $m))
        (func $f (param "settings" string) (result (result (error string)))
            (canon lift (core func $m "f") (memory (core memory $m "memory")) (realloc (core func $m "realloc"))))
        (instance $setup (export "configure" (func $f)) (export "describe" (func $f)))
        (instance $admission (export "admit" (func $f)))
        (export "joinery:plugin/setup@0.1.0" (instance $setup))
        (export "joinery:plugin/admission@0.1.0" (instance $admission)))"#;
    let bytes = bytes::Bytes::from(wat::parse_str(text).unwrap());
    let limits = settings(json!({"limits": {"callSeconds": 1}}));
    let error = load_bytes("bad", bytes.clone(), limits)
        .await
        .unwrap_err()
        .to_string();
    assert_eq!(error, "failed while it was loaded: no answer within 1s");
    let ended = wat::parse_str(text.replace("(loop (br 0))", "(nop)")).unwrap();
    let error = load_bytes("bad", ended.into(), HostSettings::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("does not fit the contract joinery:plugin@0.1: "),
        "{error}"
    );
}

#[tokio::test]
async fn what_goes_wrong_while_it_is_asked_who_it_is_is_told() {
    for (value, words) in [
        (
            json!({"configure": "refuse"}),
            "refused its settings: these settings are refused",
        ),
        (
            json!({"unknown": 1}),
            "refused its settings: settings: unknown field `unknown`",
        ),
        (
            json!({"configure": "trap"}),
            "failed while it was loaded: wasm trap: wasm `unreachable` instruction executed; it said: ",
        ),
        (
            json!({"describe": "recurse"}),
            "failed while it was loaded: wasm trap: call stack exhausted",
        ),
        (
            json!({"describe": "bomb"}),
            "failed while it was loaded: wasm trap: wasm `unreachable` instruction executed; it had no more memory, by \
             limits.memoryMiB of the plugin's settings; it said: memory allocation of",
        ),
    ] {
        let error = refused_guest(value).await;
        assert!(error.starts_with(words), "{words}: {error}");
    }
    assert!(
        refused_guest(json!({"describe": "trap"}))
            .await
            .contains("told to trap")
    );
    for word in ["loop", "sleep"] {
        let error =
            refused(json!({"settings": {"configure": word}, "limits": {"callSeconds": 1}})).await;
        assert_eq!(
            error, "failed while it was loaded: no answer within 1s",
            "{word}"
        );
    }
}

#[tokio::test]
async fn a_description_that_cannot_be_is_refused() {
    for (value, words) in [
        (json!({"nothing": true}), "it serves no resource"),
        (json!({"group": "apps"}), "group \"apps\" has no dot"),
        (json!({"group": ""}), "group \"\" has no dot"),
        (json!({"group": "metrics.k8s.io"}), "belongs to Kubernetes"),
        (json!({"group": "k8s.io"}), "belongs to Kubernetes"),
        (json!({"group": "x.kubernetes.io"}), "belongs to Kubernetes"),
        (json!({"group": "Test.example.com"}), "is no DNS name"),
        (json!({"version": "1"}), "version \"1\" must be like v1"),
        (
            json!({"plural": "Things"}),
            "\"Things\" must be letters in lower case",
        ),
        (
            json!({"plural": "items"}),
            "resource items.test.example.com: declared twice",
        ),
        (json!({"categories": ["all"]}), "category all"),
        (json!({"schema": "{"}), "schema: "),
        (
            json!({"schema": "{\"type\":\"object\",\"properties\":{\"a\":{}}}"}),
            "schema: ",
        ),
        (
            json!({"schema": "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"text\"}}}"}),
            "schema: ",
        ),
        (
            json!({"schema": r##"{"type":"object","properties":{"a":{"$ref":"#/definitions/a/b"}}}"##}),
            "schema: ",
        ),
        (json!({"schema": "[]"}), "schema: "),
        (json!({"schema": "7"}), "schema: "),
        (
            json!({"columnType": "int"}),
            "column type \"int\" is not supported",
        ),
        (
            json!({"selectable": [".spec.colour"]}),
            "selectableFields: \".spec.colour\"",
        ),
        (
            json!({"options": [["retain", "1h"]]}),
            "option \"retain\" is not known to this host",
        ),
        // What a view serves is not its writer's to say: nothing lets it ask for another verb.
        (
            json!({"options": [["verbs", "delete"]]}),
            "resource things.test.example.com: option \"verbs\" is not known to this host",
        ),
        (
            json!({"secondVersion": "v2"}),
            "resource things.test.example.com: described in v1 and in v2: a plugin serves one version of a resource",
        ),
        (
            json!({"primary": "nodes"}),
            "its primary \"nodes\" is no source",
        ),
        (
            json!({"parent": "later"}),
            "relation \"further\": its parent \"later\" is no relation before it",
        ),
        (json!({"limit": 0}), "its limit must be at least 1"),
        (
            json!({"anyNamespace": true}),
            "the settings need anyNamespace: [uses]",
        ),
        (
            json!({"labelSelector": "a in ("}),
            "source \"secrets\": label selector: ",
        ),
        (
            json!({"reads": ["spec"]}),
            "reads \"spec\", which is no JSON pointer",
        ),
    ] {
        let error = refused_guest(value).await;
        assert!(
            error.starts_with("its description is not valid: ") && error.contains(words),
            "{words}: {error}"
        );
    }
    let granted = json!({"settings": {"anyNamespace": true}, "anyNamespace": ["uses", "further"]});
    assert!(load("test_guest", granted).await.is_ok());
    let error = refused(json!({"anyNamespace": ["used"]})).await;
    assert!(
        error.contains("the settings grant anyNamespace to \"used\", which is no relation of it"),
        "{error}"
    );
}

#[tokio::test]
async fn a_view_that_answers_differently_is_refused() {
    for impure in ["hash", "counter"] {
        let error = refused_guest(json!({"impure": impure})).await;
        assert!(
            error.starts_with(
                "not deterministic: two instances gave different answers to keys of uses."
            ),
            "{error}"
        );
    }
    // What WASI calls random is the same in every instance, so only asking the same instance again tells.
    let error = refused_guest(json!({"impure": "random"})).await;
    assert!(error.starts_with("not deterministic"), "{error}");
}
