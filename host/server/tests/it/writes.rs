use crate::harness::{BASE, Client, start};

#[tokio::test]
async fn a_body_without_a_type_may_be_json_or_yaml() {
    let server = start().await;
    let path = format!("{BASE}/namespaces/n/things");
    for (name, body) in [
        ("json", r#"{"metadata":{"name":"json"},"spec":{"size":1}}"#),
        ("yaml", "metadata:\n  name: yaml\nspec:\n  size: 1\n"),
    ] {
        let answer = Client::admin()
            .send(&server, "POST", &path, &[], body)
            .await;
        assert_eq!(answer.status, 201, "{name}: {answer:?}");
        assert_eq!(answer.json()["metadata"]["name"], name);
        assert_eq!(answer.json()["spec"]["size"], 1);
    }
    let typed = [("content-type", "application/yaml; charset=utf-8")];
    let answer = Client::admin()
        .send(&server, "POST", &path, &typed, "metadata: {name: typed}")
        .await;
    assert_eq!(answer.status, 201);
}

#[tokio::test]
async fn posting_to_a_name_creates_that_name() {
    let server = start().await;
    let path = format!("{BASE}/namespaces/n/things/named");
    let answer = Client::admin()
        .send(&server, "POST", &path, &[], "{}")
        .await;
    assert_eq!(answer.json()["metadata"]["name"], "named");
}

#[tokio::test]
async fn warnings_and_the_default_field_manager_come_with_a_write() {
    let server = start().await;
    let path = format!("{BASE}/namespaces/n/things/x");
    let headers = [("user-agent", "kubectl/v1.36.0 (linux/amd64)")];
    let answer = Client::admin()
        .send(&server, "POST", &path, &headers, "{}")
        .await;
    assert_eq!(
        answer.header("warning"),
        r#"299 - "unknown field \"spec.x\"""#
    );
    assert_eq!(
        answer.json()["metadata"]["annotations"]["manager"],
        "kubectl"
    );
}

#[tokio::test]
async fn a_patch_of_each_type_is_applied() {
    let server = start().await;
    server.things.put(Some("n"), "x", 1);
    let path = format!("{BASE}/namespaces/n/things/x");
    for (content_type, body, size) in [
        ("application/merge-patch+json", r#"{"spec":{"size":2}}"#, 2),
        (
            "application/json-patch+json",
            r#"[{"op":"replace","path":"/spec/size","value":3}]"#,
            3,
        ),
    ] {
        let headers = [("content-type", content_type)];
        let answer = Client::admin()
            .send(&server, "PATCH", &path, &headers, body)
            .await;
        assert_eq!(
            (answer.status.as_u16(), &answer.json()["spec"]["size"]),
            (200, &size.into())
        );
    }
    let apply = [("content-type", "application/apply-patch+yaml")];
    let path = format!("{path}?fieldManager=me");
    let answer = Client::admin()
        .send(&server, "PATCH", &path, &apply, "spec:\n  size: 4\n")
        .await;
    assert_eq!(answer.json()["spec"]["size"], 4);
}

#[tokio::test]
async fn a_delete_answers_success_with_what_it_deleted() {
    let server = start().await;
    server.things.put(Some("n"), "x", 1);
    let path = format!("{BASE}/namespaces/n/things/x");
    let dry = r#"{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"]}"#;
    let answer = Client::admin()
        .send(&server, "DELETE", &path, &[], dry)
        .await;
    assert_eq!(answer.json()["status"], "Success");
    assert_eq!(
        Client::admin().get(&server, &path, &[]).await.status,
        200,
        "dry run"
    );
    let answer = Client::admin()
        .send(&server, "DELETE", &path, &[], "")
        .await;
    let status = answer.json();
    assert_eq!(
        (&status["kind"], &status["status"]),
        (&"Status".into(), &"Success".into())
    );
    assert_eq!(status["details"]["kind"], "things");
    assert_eq!(status["details"]["name"], "x");
    assert_eq!(Client::admin().get(&server, &path, &[]).await.status, 404);
}

#[tokio::test]
async fn a_member_that_an_apply_has_twice_is_told_or_refused() {
    let server = start().await;
    server.things.put(Some("n"), "x", 1);
    let path = format!("{BASE}/namespaces/n/things/x?fieldManager=me&fieldValidation");
    let apply = [("content-type", "application/apply-patch+yaml")];
    let send = async |validation: &str| {
        let path = format!("{path}={validation}");
        let body = "spec:\n  size: 4\n  size: 5\n";
        Client::admin()
            .send(&server, "PATCH", &path, &apply, body)
            .await
    };
    let warned = send("Warn").await;
    assert_eq!(warned.json()["spec"]["size"], 5, "{warned:?}");
    assert_eq!(
        warned.header("warning"),
        r#"299 - "duplicate field \"spec.size\"""#
    );
    let refused = send("Strict").await;
    assert_eq!(refused.status, 400);
    assert_eq!(
        refused.json()["message"],
        "error strict decoding YAML: duplicate field \"spec.size\""
    );
    assert_eq!(send("Ignore").await.header("warning"), "");
}
