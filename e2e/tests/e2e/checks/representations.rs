//! In which forms objects are asked for, by whom, and that none of them gets something it cannot read: for all three resources.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::fixtures::{Namespace, VIEW, custom_task, text};
use crate::shared::Shared;

const PATIENCE: Duration = Duration::from_secs(15);
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
const METADATA_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                             application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
                        application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

fn asked(client: &Client, path: &str, accept: &str) -> Answer {
    client.send("GET", path, &[("Accept", accept)], "")
}

/// The collections of a namespace, and the one that lies in none.
fn collections(namespace: &str) -> [String; 3] {
    [
        format!("{VIEW}/namespaces/{namespace}/customtasks"),
        format!("{VIEW}/namespaces/{namespace}/combinedtasks"),
        format!("{VIEW}/clustertasks"),
    ]
}

/// A namespace that was never used: each form is a list with nothing in it and a version, never null.
pub(crate) fn nothing_is_an_empty_list_in_every_form(environment: &Shared) {
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "empty");
    let client = Client::admin(environment);
    for collection in collections(&namespace.name) {
        let path = format!("{collection}?labelSelector=nobody%3Dhas");
        for (accept, kind, items) in [
            ("application/json", "List", "items"),
            (METADATA_LIST, "PartialObjectMetadataList", "items"),
            (TABLE, "Table", "rows"),
        ] {
            let answer = asked(&client, &path, accept);
            assert_eq!(answer.status, 200, "{path} {accept}: {}", answer.text());
            let list = answer.json();
            assert!(text(&list, "/kind").ends_with(kind), "{list:#}");
            assert_eq!(list[items], json!([]), "{list:#}");
            let version = text(&list, "/metadata/resourceVersion");
            assert!(!version.is_empty() && version != "0", "{list:#}");
        }
    }
    let [custom, ..] = collections(&namespace.name);
    let answer = client.send("DELETE", &custom, &[], "");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["items"], json!([]));
}

/// What the namespace and garbage collectors send: protobuf first, JSON as well. And who takes nothing else than protobuf is told so.
pub(crate) fn who_prefers_protobuf_gets_json_and_who_wants_nothing_else_a_406(
    environment: &Shared,
) {
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "accepts");
    namespace.create(&custom_task(&namespace.name, "one"));
    namespace.task("one");
    for client in [Client::admin(environment), Client::direct(environment)] {
        for collection in &collections(&namespace.name)[..2] {
            let list = asked(&client, collection, METADATA_LIST);
            assert_eq!(list.content_type(), "application/json");
            let list = list.json();
            assert_eq!(
                (text(&list, "/kind"), text(&list, "/apiVersion")),
                ("PartialObjectMetadataList", "meta.k8s.io/v1")
            );
            assert_eq!(text(&list, "/items/0/metadata/name"), "one", "{list:#}");
            assert!(list.pointer("/items/0/spec").is_none(), "{list:#}");

            let one = format!("{collection}/one");
            let object = asked(&client, &one, METADATA).json();
            assert_eq!(text(&object, "/kind"), "PartialObjectMetadata");
            assert!(object.get("spec").is_none(), "{object:#}");

            for plain in [
                "application/vnd.kubernetes.protobuf,application/json",
                "application/json;q=0.1,application/vnd.kubernetes.protobuf;q=0.9",
                "*/*",
            ] {
                let answer = asked(&client, &one, plain);
                assert_eq!(answer.status, 200, "{plain}");
                assert_eq!(text(&answer.json(), "/metadata/name"), "one", "{plain}");
            }
            for path in [collection, &one, &format!("{collection}?watch=true")] {
                for alone in ["application/vnd.kubernetes.protobuf", "application/cbor"] {
                    let answer = asked(&client, path, alone);
                    let status = answer.json();
                    assert_eq!(
                        (answer.status.as_u16(), text(&status, "/reason")),
                        (406, "NotAcceptable"),
                        "{path} {alone}: {status}"
                    );
                }
            }
        }
    }
}

/// A get, a list and a watch as Tables have the same columns; includeObject says how much of the object is in a row.
pub(crate) fn tables_have_the_same_columns_in_a_get_a_list_and_a_watch(environment: &Shared) {
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "tables");
    namespace.create(&custom_task(&namespace.name, "one"));
    namespace.task("one");
    let client = Client::admin(environment);
    for collection in &collections(&namespace.name)[..2] {
        let one = asked(&client, &format!("{collection}/one"), TABLE).json();
        let list = asked(&client, collection, TABLE).json();
        let mut watch = client
            .watch_as(&format!("{collection}?watch=true"), &[("Accept", TABLE)])
            .unwrap();
        let frame = watch.next(PATIENCE).expect("the object's row");
        assert_eq!(text(&frame, "/type"), "ADDED");
        for table in [&one, &list, &frame["object"]] {
            assert_eq!(
                (text(table, "/kind"), text(table, "/apiVersion")),
                ("Table", "meta.k8s.io/v1")
            );
            assert_eq!(table["columnDefinitions"], list["columnDefinitions"]);
            let rows = table["rows"].as_array().unwrap();
            assert_eq!(rows.len(), 1, "{table:#}");
            let (cells, columns) = (&rows[0]["cells"], &table["columnDefinitions"]);
            assert_eq!(
                cells.as_array().map(Vec::len),
                columns.as_array().map(Vec::len)
            );
            assert_eq!(cells[0], "one");
        }
        let row = |include: &str| {
            let path = format!("{collection}?includeObject={include}");
            asked(&client, &path, TABLE).json()["rows"][0]["object"].take()
        };
        assert_eq!(row("None"), Value::Null);
        assert_eq!(text(&row("Metadata"), "/kind"), "PartialObjectMetadata");
        assert_eq!(row("Object")["spec"]["details"], "made by a test");
        let plain = client
            .watch(&format!("{collection}?watch=true"))
            .unwrap()
            .next(PATIENCE)
            .unwrap();
        assert_eq!(plain["object"]["spec"]["details"], "made by a test");
    }
}
