use std::sync::Arc;

use joinery_resource::Resource;
use serde_json::json;

use crate::harness::{BASE, Client, start};
use crate::things::{ALL_VERBS, Things};

const AGGREGATED: (&str, &str) = (
    "accept",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
     application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
);

#[tokio::test]
async fn the_aggregator_gets_the_format_it_asked_for() {
    let server = start().await;
    let admin = Client::admin();
    let answer = admin.get(&server, "/apis", &[AGGREGATED]).await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("content-type"),
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
    assert_eq!(answer.header("vary"), "Accept");
    assert_eq!(answer.header("cache-control"), "public");
    let list = answer.json();
    assert_eq!(list["kind"], "APIGroupDiscoveryList");
    assert_eq!(list["apiVersion"], "apidiscovery.k8s.io/v2");
    let version = &list["items"][0]["versions"][0];
    assert_eq!(version["freshness"], "Current");
    assert_eq!(
        version["resources"][1],
        json!({
            "resource": "things", "scope": "Namespaced", "singularResource": "thing", "verbs": ALL_VERBS,
            "shortNames": ["thx"],
            "responseKind": {"group": "test.example.com", "version": "v1", "kind": "Thing"},
            "subresources": [{"subresource": "status", "verbs": ["get", "patch", "update"],
                "responseKind": {"group": "test.example.com", "version": "v1", "kind": "Thing"}}],
        })
    );
    let beta = [(
        "accept",
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
    )];
    let answer = admin.get(&server, "/apis", &beta).await;
    assert_eq!(answer.json()["apiVersion"], "apidiscovery.k8s.io/v2beta1");
    let unknown = [(
        "accept",
        "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList",
    )];
    assert_eq!(admin.get(&server, "/apis", &unknown).await.status, 406);
}

#[tokio::test]
async fn an_unchanged_document_is_304_until_a_resource_comes_or_goes() {
    let server = start().await;
    let admin = Client::admin();
    let first = admin.get(&server, "/apis", &[AGGREGATED]).await;
    let etag = first.header("etag").to_owned();
    assert_eq!(etag.len(), 130, "a quoted SHA-512: {etag}");
    let again = admin
        .get(&server, "/apis", &[AGGREGATED, ("if-none-match", &etag)])
        .await;
    assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));
    let more = Things::new("others", "Other", true, &ALL_VERBS);
    server.catalog.change(&[], [more as Arc<dyn Resource>]);
    let changed = admin
        .get(&server, "/apis", &[AGGREGATED, ("if-none-match", &etag)])
        .await;
    assert_eq!(changed.status, 200);
    assert_ne!(changed.header("etag"), etag);
}

#[tokio::test]
async fn plain_json_gets_the_legacy_documents() {
    let server = start().await;
    let admin = Client::admin();
    let get = async |path: &str| {
        admin
            .get(&server, path, &[("accept", "application/json")])
            .await
    };
    let groups = get("/apis").await;
    assert_eq!(groups.header("content-type"), "application/json");
    assert_eq!(
        groups.json(),
        json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [{
            "name": "test.example.com",
            "versions": [{"groupVersion": "test.example.com/v1", "version": "v1"}],
            "preferredVersion": {"groupVersion": "test.example.com/v1", "version": "v1"},
        }]})
    );
    let group = get("/apis/test.example.com").await.json();
    assert_eq!(
        (&group["kind"], &group["name"]),
        (&json!("APIGroup"), &json!("test.example.com"))
    );
    let resources = get(BASE).await.json();
    assert_eq!(resources["kind"], "APIResourceList");
    assert_eq!(resources["groupVersion"], "test.example.com/v1");
    assert_eq!(
        resources["resources"],
        json!([
            {"name": "globals", "singularName": "global", "namespaced": false, "kind": "Global",
                "verbs": ["get", "list"], "shortNames": ["glx"]},
            {"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing",
                "verbs": ALL_VERBS, "shortNames": ["thx"]},
            {"name": "things/status", "singularName": "", "namespaced": true, "kind": "Thing",
                "verbs": ["get", "patch", "update"]},
        ])
    );
    assert_eq!(get("/apis/other.example.com").await.status, 404);
    assert_eq!(get("/apis/test.example.com/v2").await.status, 404);
}

#[tokio::test]
async fn before_all_is_loaded_what_is_missing_is_503_not_404() {
    let server = start().await;
    server.health.ready("plugins", || Err("loading".to_owned()));
    for path in [
        "/apis/other.example.com/v1",
        "/apis/other.example.com/v1/things",
    ] {
        let answer = Client::admin().get(&server, path, &[]).await;
        assert_eq!(answer.status, 503, "{path}");
        assert_eq!(answer.header("retry-after"), "1");
    }
    assert_eq!(Client::admin().get(&server, BASE, &[]).await.status, 200);
}

#[tokio::test]
async fn each_verb_works_if_it_is_listed_and_is_405_if_not() {
    let server = start().await;
    server.globals.put(None, "x", 1);
    for (resource, verbs, collection, object) in [
        (
            "things",
            ALL_VERBS.as_slice(),
            format!("{BASE}/namespaces/a/things"),
            "x",
        ),
        ("globals", &["get", "list"], format!("{BASE}/globals"), "x"),
    ] {
        server.things.put(Some("a"), "x", 1);
        let thing = json!({"metadata": {"name": "new"}}).to_string();
        let stale = json!({"metadata": {"name": "x", "resourceVersion": "1"}}).to_string();
        let merge = [("content-type", "application/merge-patch+json")];
        let path = format!("{collection}/{object}");
        let watch = format!("{collection}?watch=true&timeoutSeconds=1");
        for (verb, method, path, headers, body, code) in [
            ("list", "GET", &collection, &[][..], String::new(), 200),
            ("get", "GET", &path, &[], String::new(), 200),
            ("watch", "GET", &watch, &[], String::new(), 200),
            ("create", "POST", &collection, &[], thing, 201),
            ("update", "PUT", &path, &[], stale, 409),
            ("patch", "PATCH", &path, &merge, "{}".to_owned(), 200),
            ("delete", "DELETE", &path, &[], String::new(), 200),
            (
                "deletecollection",
                "DELETE",
                &collection,
                &[],
                String::new(),
                200,
            ),
        ] {
            let answer = Client::admin()
                .send(&server, method, path, headers, body)
                .await;
            if verbs.contains(&verb) {
                assert_eq!(answer.status, code, "{verb} {resource}: {answer:?}");
            } else {
                assert_eq!(answer.status, 405, "{verb} {resource}");
                assert_eq!(answer.json()["reason"], "MethodNotAllowed");
            }
        }
    }
}

#[tokio::test]
async fn openapi_describes_each_kind_and_is_cached_by_its_hash() {
    let server = start().await;
    let admin = Client::admin();
    let v2 = admin.get(&server, "/openapi/v2", &[]).await;
    assert_eq!(v2.header("content-type"), "application/json");
    let definition = &v2.json()["definitions"]["com.example.test.v1.Thing"];
    assert_eq!(
        definition["x-kubernetes-group-version-kind"],
        json!([{"group": "test.example.com", "version": "v1", "kind": "Thing"}])
    );
    let root = admin.get(&server, "/openapi/v3", &[]).await.json();
    let url = root["paths"]["apis/test.example.com/v1"]["serverRelativeURL"]
        .as_str()
        .unwrap();
    let v3 = admin.get(&server, url, &[]).await;
    assert_eq!(v3.header("cache-control"), "public, immutable");
    assert_eq!(v3.json()["openapi"], "3.0.0");
    let stale = admin
        .get(
            &server,
            "/openapi/v3/apis/test.example.com/v1?hash=OLD",
            &[],
        )
        .await;
    assert_eq!(stale.status, 200, "never a redirect");
    assert_eq!(stale.header("cache-control"), "no-cache, private");
    let etag = v2.header("etag").to_owned();
    let again = admin
        .get(&server, "/openapi/v2", &[("if-none-match", &etag)])
        .await;
    assert_eq!(again.status, 304);
    // As client-go asks: the deprecated name, answered with the present one.
    for (path, version) in [("/openapi/v2", "v2"), (url, "v3")] {
        let name = |at: char| {
            format!("application/com.github.proto-openapi.spec.{version}{at}v1.0+protobuf")
        };
        let message = admin.get(&server, path, &[("accept", &name('@'))]).await;
        assert_eq!(message.status, 200);
        assert_eq!(message.header("content-type"), name('.'));
        // Field 1, the format's version.
        assert!(message.body.starts_with(if version == "v2" {
            b"\x0a\x032.0"
        } else {
            b"\x0a\x053.0"
        }));
    }
    let html = [("accept", "text/html")];
    assert_eq!(admin.get(&server, "/openapi/v2", &html).await.status, 406);
    assert_eq!(admin.get(&server, "/openapi/v3", &html).await.status, 200);
}
