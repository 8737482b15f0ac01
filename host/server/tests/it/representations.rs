use serde_json::{Value, json};

use crate::harness::{BASE, Client, start};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,\
    application/json";
const METADATA_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
    application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

fn is_version(value: &Value) -> bool {
    value
        .as_str()
        .is_some_and(|v| v != "0" && v.parse::<u64>().is_ok())
}

#[tokio::test]
async fn protobuf_first_falls_back_to_json_and_protobuf_alone_is_406() {
    let server = start().await;
    server.things.put(Some("n"), "x", 3);
    let path = format!("{BASE}/namespaces/n/things");
    let get = async |path: &str, accept: &str| {
        Client::admin()
            .get(&server, path, &[("accept", accept)])
            .await
    };
    let list = get(&path, METADATA_LIST).await.json();
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["apiVersion"], "meta.k8s.io/v1");
    let item = &list["items"][0];
    assert_eq!(item["kind"], "PartialObjectMetadata");
    assert_eq!(item["metadata"]["name"], "x");
    assert_eq!(item["spec"], Value::Null, "metadata only");
    let plain = get(
        &path,
        "application/vnd.kubernetes.protobuf,application/json",
    )
    .await;
    assert_eq!(plain.json()["kind"], "ThingList");
    let object = format!("{path}/x");
    let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
        application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
    assert_eq!(
        get(&object, metadata).await.json()["kind"],
        "PartialObjectMetadata"
    );
    let v1beta1 = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1";
    let beta = get(&object, v1beta1).await.json();
    assert_eq!(beta["apiVersion"], "meta.k8s.io/v1beta1");
    assert_eq!(beta["metadata"]["name"], "x");
    let yaml = get(&object, "application/json;q=0.1,application/yaml").await;
    assert_eq!(yaml.header("content-type"), "application/yaml");
    let value: Value = serde_saphyr::from_str(std::str::from_utf8(&yaml.body).unwrap()).unwrap();
    assert_eq!(value["spec"]["size"], 3);
    for path in [&path, &object] {
        for accept in ["application/vnd.kubernetes.protobuf", "application/cbor"] {
            let refused = get(path, accept).await;
            assert_eq!(refused.status, 406);
            assert_eq!(refused.header("content-type"), "application/json");
            assert_eq!(refused.json()["reason"], "NotAcceptable");
        }
    }
}

#[tokio::test]
async fn a_list_of_nothing_is_a_list() {
    let server = start().await;
    let path = format!("{BASE}/namespaces/empty/things");
    for (accept, kind, items) in [
        ("application/json", "ThingList", "items"),
        (TABLE, "Table", "rows"),
        (METADATA_LIST, "PartialObjectMetadataList", "items"),
    ] {
        let answer = Client::admin()
            .get(&server, &path, &[("accept", accept)])
            .await;
        assert_eq!(answer.status, 200);
        let list = answer.json();
        assert_eq!(list["kind"], kind);
        assert_eq!(list[items], json!([]));
        assert!(is_version(&list["metadata"]["resourceVersion"]), "{list}");
        assert_eq!(answer.header("warning"), "299 - \"one was left out\"");
    }
    let deleted = Client::admin()
        .send(&server, "DELETE", &path, &[], "")
        .await;
    assert_eq!(
        (deleted.status.as_u16(), &deleted.json()["items"]),
        (200, &json!([]))
    );
}

#[tokio::test]
async fn kubectl_gets_the_columns_of_the_resource() {
    let server = start().await;
    server.things.put(Some("n"), "x", 3);
    let path = format!("{BASE}/namespaces/n/things");
    let get = async |path: &str| {
        Client::admin()
            .get(&server, path, &[("accept", TABLE)])
            .await
    };
    for path in [path.clone(), format!("{path}/x")] {
        let table = get(&path).await.json();
        assert_eq!(
            (&table["kind"], &table["apiVersion"]),
            (&json!("Table"), &json!("meta.k8s.io/v1"))
        );
        let names: Vec<_> = table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|column| column["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["Name", "Size", "Age"]);
        let row = &table["rows"][0];
        assert_eq!(
            (&row["cells"][0], &row["cells"][1]),
            (&json!("x"), &json!(3))
        );
        let age = row["cells"][2].as_str().unwrap();
        assert!(
            age.ends_with('d') || age.ends_with('y') || age.ends_with('h'),
            "{age}"
        );
        assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
        assert_eq!(row["object"]["metadata"]["name"], "x");
        assert!(is_version(&table["metadata"]["resourceVersion"]), "{table}");
    }
    let none = get(&format!("{path}?includeObject=None")).await.json();
    assert_eq!(none["rows"][0]["object"], Value::Null);
    let whole = get(&format!("{path}?includeObject=Object")).await.json();
    assert_eq!(whole["rows"][0]["object"]["spec"]["size"], 3);
    assert_eq!(get(&format!("{path}?includeObject=Half")).await.status, 400);
}

#[tokio::test]
async fn a_list_of_long_objects_is_the_same_compressed_or_not_and_again() {
    let server = start().await;
    for i in 0..100 {
        let text = format!("line {i} of many; ").repeat(300 + i);
        server
            .things
            .put_text(Some("n"), &format!("thing-{i:04}"), &text);
    }
    let path = format!("{BASE}/namespaces/n/things");
    let plain = Client::admin().get(&server, &path, &[]).await;
    assert_eq!(plain.json()["items"].as_array().unwrap().len(), 100);
    assert_eq!(
        plain.header("content-length"),
        plain.body.len().to_string(),
        "the length is known before the list is written"
    );
    for _ in 0..2 {
        let gzip = [("accept-encoding", "gzip")];
        let compressed = Client::admin().get(&server, &path, &gzip).await;
        assert_eq!(compressed.header("content-encoding"), "gzip");
        assert!(compressed.body.len() < plain.body.len() / 5);
        let mut text = Vec::new();
        std::io::Read::read_to_end(
            &mut flate2::read::GzDecoder::new(&compressed.body[..]),
            &mut text,
        )
        .unwrap();
        assert_eq!(text, plain.body);
    }
}

#[tokio::test]
async fn large_answers_are_compressed_for_who_asks_and_whole_for_who_does_not() {
    let server = start().await;
    for i in 0..1000 {
        server.things.put(Some("n"), &format!("thing-{i:04}"), i);
    }
    let path = format!("{BASE}/namespaces/n/things");
    let plain = Client::admin().get(&server, &path, &[]).await;
    assert_eq!(plain.json()["items"].as_array().unwrap().len(), 1000);
    let gzip = [("accept-encoding", "gzip")];
    let compressed = Client::admin().get(&server, &path, &gzip).await;
    assert_eq!(compressed.header("content-encoding"), "gzip");
    assert!(compressed.body.len() < plain.body.len() / 5);
    let mut text = Vec::new();
    std::io::Read::read_to_end(
        &mut flate2::read::GzDecoder::new(&compressed.body[..]),
        &mut text,
    )
    .unwrap();
    assert_eq!(text, plain.body);
    let small = Client::admin()
        .get(&server, &format!("{path}/thing-0001"), &gzip)
        .await;
    assert_eq!(small.header("content-encoding"), "");
}

#[tokio::test]
async fn people_with_curl_get_it_indented() {
    let server = start().await;
    server.things.put(Some("n"), "x", 3);
    let path = format!("{BASE}/namespaces/n/things/x");
    let curl = Client::admin()
        .get(&server, &path, &[("user-agent", "curl/8")])
        .await;
    assert!(curl.body.starts_with(b"{\n  \""), "{:?}", curl.body);
    assert_eq!(curl.json()["spec"]["size"], 3);
    let short = Client::admin()
        .get(
            &server,
            &format!("{path}?pretty=false"),
            &[("user-agent", "curl/8")],
        )
        .await;
    assert!(!short.body.starts_with(b"{\n"));
}
