use std::time::Duration;

use joinery_server::Limits;

use crate::harness::{BASE, Client, start, start_with};

/// Code, reason, method, path, headers, body.
type Case<'a> = (
    u16,
    &'a str,
    &'a str,
    String,
    &'a [(&'a str, &'a str)],
    &'a str,
);

#[tokio::test]
async fn every_error_is_a_status_in_json_with_the_code_of_its_response() {
    let limits = Limits {
        request_timeout: Duration::from_secs(1),
        ..Limits::default()
    };
    let server = start_with(limits, None).await;
    server.things.put(Some("n"), "x", 1);
    let things = format!("{BASE}/namespaces/n/things");
    let at = |path: &str| format!("{things}{path}");
    let large = " ".repeat(3 * 1024 * 1024 + 1);
    let json = [("content-type", "application/json")];
    let merge = [("content-type", "application/merge-patch+json")];
    let json_patch = [("content-type", "application/json-patch+json")];
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    let cbor = [("content-type", "application/cbor")];
    let html = [("accept", "text/html")];
    let none = &[][..];
    let cases: Vec<Case<'_>> = vec![
        (
            400,
            "BadRequest",
            "GET",
            at("?labelSelector=a%20b"),
            none,
            "",
        ),
        (
            400,
            "BadRequest",
            "GET",
            at("?fieldSelector=spec.x%3D1"),
            none,
            "",
        ),
        (400, "BadRequest", "GET", at("?limit=x"), none, ""),
        (400, "BadRequest", "GET", at("?timeout=soon"), none, ""),
        (
            400,
            "BadRequest",
            "GET",
            at("?resourceVersion=abc"),
            none,
            "",
        ),
        (400, "BadRequest", "POST", things.clone(), &json, "{"),
        (400, "BadRequest", "POST", things.clone(), none, ""),
        (400, "BadRequest", "PATCH", at("/x"), &merge, "[]"),
        (
            400,
            "BadRequest",
            "DELETE",
            at("/x"),
            &json,
            r#"{"kind":"Thing"}"#,
        ),
        (404, "NotFound", "GET", at("/missing"), none, ""),
        (404, "NotFound", "GET", at("/x/scale"), none, ""),
        (404, "NotFound", "GET", at("/x/status/more"), none, ""),
        (404, "NotFound", "GET", format!("{BASE}/things/x"), none, ""),
        (
            404,
            "NotFound",
            "GET",
            format!("{BASE}/namespaces/n/globals"),
            none,
            "",
        ),
        (404, "NotFound", "GET", format!("{BASE}/unknown"), none, ""),
        (
            404,
            "NotFound",
            "GET",
            "/apis/unknown.example.com/v1/things".to_owned(),
            none,
            "",
        ),
        (404, "NotFound", "GET", "/nowhere".to_owned(), none, ""),
        (404, "NotFound", "GET", "/openapi/v4".to_owned(), none, ""),
        (
            405,
            "MethodNotAllowed",
            "POST",
            format!("{BASE}/things"),
            none,
            "{}",
        ),
        (405, "MethodNotAllowed", "PUT", things.clone(), none, "{}"),
        (
            405,
            "MethodNotAllowed",
            "DELETE",
            format!("{BASE}/globals"),
            none,
            "",
        ),
        (
            405,
            "MethodNotAllowed",
            "GET",
            format!("{BASE}/globals?watch=1"),
            none,
            "",
        ),
        (405, "MethodNotAllowed", "DELETE", at("/x/status"), none, ""),
        (405, "MethodNotAllowed", "OPTIONS", things.clone(), none, ""),
        (
            405,
            "MethodNotAllowed",
            "POST",
            "/apis".to_owned(),
            none,
            "",
        ),
        (406, "NotAcceptable", "GET", things.clone(), &html, ""),
        (406, "NotAcceptable", "GET", at("?watch=1"), &html, ""),
        (409, "AlreadyExists", "POST", at("/x"), none, "{}"),
        (
            409,
            "Conflict",
            "PUT",
            at("/x"),
            none,
            r#"{"metadata":{"name":"x","resourceVersion":"1"}}"#,
        ),
        (
            413,
            "RequestEntityTooLarge",
            "POST",
            things.clone(),
            none,
            &large,
        ),
        (
            415,
            "UnsupportedMediaType",
            "POST",
            things.clone(),
            &cbor,
            "x",
        ),
        (
            415,
            "UnsupportedMediaType",
            "PATCH",
            at("/x"),
            &strategic,
            "{}",
        ),
        (415, "UnsupportedMediaType", "PATCH", at("/x"), none, "{}"),
        (
            422,
            "Invalid",
            "GET",
            at("?resourceVersionMatch=Exact"),
            none,
            "",
        ),
        (422, "Invalid", "POST", at("?dryRun=Some"), none, "{}"),
        (
            422,
            "Invalid",
            "PATCH",
            at("/x"),
            &json_patch,
            r#"[{"op":"test","path":"/spec/size","value":9}]"#,
        ),
        (
            422,
            "Invalid",
            "PATCH",
            at("/x"),
            &[("content-type", "application/apply-patch+yaml")],
            "{}",
        ),
        (500, "InternalError", "GET", at("/trap"), none, ""),
        (500, "InternalError", "GET", at("/panic"), none, ""),
        (
            503,
            "ServiceUnavailable",
            "GET",
            at("/unavailable"),
            none,
            "",
        ),
        (504, "Timeout", "GET", at("/slow"), none, ""),
        (504, "Timeout", "GET", at("/slow?timeout=10ms"), none, ""),
    ];
    for (code, reason, method, path, headers, body) in cases {
        let answer = Client::admin()
            .send(&server, method, &path, headers, body.to_owned())
            .await;
        let what = format!("{method} {path}");
        assert_eq!(answer.status, code, "{what}: {answer:?}");
        assert_eq!(answer.header("content-type"), "application/json", "{what}");
        let status = answer.json();
        assert_eq!(status["kind"], "Status", "{what}");
        assert_eq!(status["apiVersion"], "v1", "{what}");
        assert_eq!(status["status"], "Failure", "{what}");
        assert_eq!(status["reason"], reason, "{what}: {status}");
        assert_eq!(status["code"], code, "{what}");
        assert!(!status["message"].as_str().unwrap().is_empty(), "{what}");
    }
}

#[tokio::test]
async fn advice_on_when_to_come_back_is_a_header_too() {
    let server = start().await;
    let path = format!("{BASE}/namespaces/n/things/unavailable");
    let answer = Client::admin().get(&server, &path, &[]).await;
    assert_eq!(answer.header("retry-after"), "7");
    assert_eq!(answer.json()["details"]["retryAfterSeconds"], 7);
}

#[tokio::test]
async fn a_panic_leaves_the_connection_to_others() {
    let server = start().await;
    server.things.put(Some("n"), "x", 1);
    let path = format!("{BASE}/namespaces/n/things");
    assert_eq!(
        Client::admin()
            .get(&server, &format!("{path}/panic"), &[])
            .await
            .status,
        500
    );
    assert_eq!(
        Client::admin()
            .get(&server, &format!("{path}/x"), &[])
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn answers_carry_the_audit_id_and_are_not_for_caches() {
    let server = start().await;
    let path = format!("{BASE}/globals");
    let answer = Client::admin()
        .get(&server, &path, &[("audit-id", "from-the-aggregator")])
        .await;
    assert_eq!(answer.header("audit-id"), "from-the-aggregator");
    assert_eq!(answer.header("cache-control"), "no-cache, private");
    let answer = Client::admin().get(&server, &path, &[]).await;
    assert_eq!(answer.header("audit-id").len(), 36);
}

#[tokio::test]
async fn too_much_at_once_is_429_except_for_masters_and_watches() {
    let limits = Limits {
        reads: 1,
        ..Limits::default()
    };
    let server = start_with(limits, None).await;
    let alice = Client::token("alice-token");
    let slow = format!("{BASE}/namespaces/a/things/slow?timeout=2s");
    let (slow, others) = tokio::join!(alice.get(&server, &slow, &[]), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let path = format!("{BASE}/namespaces/a/things");
        let watch = format!("{path}?watch=1&timeoutSeconds=1");
        (
            alice.get(&server, &path, &[]).await,
            alice.get(&server, &watch, &[]).await,
            Client::admin().get(&server, &path, &[]).await,
        )
    });
    assert_eq!(slow.status, 504);
    let (refused, watched, admin) = others;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(refused.json()["reason"], "TooManyRequests");
    assert_eq!((watched.status.as_u16(), admin.status.as_u16()), (200, 200));
}

/// Who is still writing when the answer is clear must be able to read it.
#[tokio::test]
async fn an_oversized_body_of_http_1_is_answered_before_the_connection_ends() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let server = start().await;
    let client = Client {
        http1: true,
        ..Client::admin()
    };
    let mut stream = client.connect(&server).await;
    let length = 8 * 1024 * 1024;
    let head = format!(
        "POST {BASE}/namespaces/n/things HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b' '; length]).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 413");
}

#[tokio::test]
async fn an_error_is_in_the_format_that_was_accepted() {
    let server = start().await;
    for (accept, path, code, content_type) in [
        ("application/yaml", "things/x", 404, "application/yaml"),
        (
            "text/html, application/yaml",
            "things/x",
            404,
            "application/yaml",
        ),
        (
            "application/yaml",
            "things?watch=1",
            406,
            "application/yaml",
        ),
        ("*/*", "things/x", 404, "application/json"),
        ("text/html", "things/x", 406, "application/json"),
    ] {
        let path = format!("{BASE}/namespaces/n/{path}");
        let answer = Client::admin()
            .get(&server, &path, &[("accept", accept)])
            .await;
        assert_eq!(answer.status, code, "{accept}: {answer:?}");
        assert_eq!(answer.header("content-type"), content_type, "{accept}");
    }
}
