use joinery_resource::Attributes;
use joinery_server::Trust;

use crate::harness::{Authority, BASE, Client, start, trust};

const ADMIN: [(&str, &str); 2] = [
    ("X-Remote-User", "admin"),
    ("X-Remote-Group", "system:masters"),
];

#[tokio::test]
async fn headers_that_name_a_user_count_only_behind_an_allowed_front_proxy() {
    let server = start().await;
    let path = format!("{BASE}/globals");
    let stranger = Authority::new("proxy");
    for (who, client, code) in [
        ("no certificate", Client::default(), 403),
        (
            "a certificate of an unknown authority, even of the same name",
            Client::certificate(stranger.client("front-proxy-client", &[])),
            401,
        ),
        (
            "a user's own certificate",
            Client::certificate(server.client_ca.client("carol", &[])),
            403,
        ),
        (
            "a proxy that is not among the allowed names",
            Client::certificate(server.proxy_ca.client("other-proxy", &[])),
            401,
        ),
        (
            "the front proxy",
            Client::certificate(server.proxy_ca.client("front-proxy-client", &[])),
            200,
        ),
    ] {
        let answer = client.get(&server, &path, &ADMIN).await;
        assert_eq!(answer.status, code, "{who}: {answer:?}");
        if code != 200 {
            assert_eq!(answer.json()["kind"], "Status", "{who}");
        }
    }
    let asked = server.rules.asked.lock();
    assert!(
        asked.iter().any(|(user, _)| user.name == "carol"),
        "the certificate speaks for itself"
    );
    assert!(
        asked.iter().all(|(user, _)| user.name != "admin"),
        "{asked:?}"
    );
}

#[tokio::test]
async fn what_the_front_proxy_says_of_a_user_reaches_authorization_unchanged() {
    let server = start().await;
    let proxy = Client::certificate(server.proxy_ca.client("front-proxy-client", &[]));
    let headers = [
        ("X-Remote-User", "dave"),
        ("X-Remote-Uid", "42"),
        ("X-Remote-Group", "one"),
        ("X-Remote-Group", "two"),
        ("X-Remote-Extra-example.com%2fteam", "x"),
        ("X-Remote-Extra-example.com%2fteam", "y"),
    ];
    let path = format!("{BASE}/namespaces/n/things?labelSelector=a%3Db");
    assert_eq!(proxy.get(&server, &path, &headers).await.status, 403);
    let asked = server.rules.asked.lock();
    let (user, attributes) = &asked[0];
    assert_eq!(user.name, "dave");
    assert_eq!(user.uid, "42");
    assert_eq!(user.groups, ["one", "two", "system:authenticated"]);
    assert_eq!(
        user.extra,
        [(
            "example.com/team".to_owned(),
            vec!["x".to_owned(), "y".to_owned()]
        )]
    );
    let Attributes::Resource {
        verb,
        namespace,
        label_selector,
        ..
    } = attributes
    else {
        panic!("{attributes:?}");
    };
    assert_eq!((verb.as_str(), label_selector.as_str()), ("list", "a=b"));
    assert_eq!(namespace.as_deref(), Some("n"));
}

#[tokio::test]
async fn a_new_front_proxy_authority_holds_at_once_and_none_means_nobody() {
    let server = start().await;
    let path = format!("{BASE}/globals");
    let old = Client::certificate(server.proxy_ca.client("front-proxy-client", &[]));
    let new_ca = Authority::new("proxy-2");
    let new = Client::certificate(new_ca.client("front-proxy-client", &[]));
    assert_eq!(old.get(&server, &path, &ADMIN).await.status, 200);
    assert_eq!(new.get(&server, &path, &ADMIN).await.status, 401);
    server.trust.replace(trust(&new_ca, &server.client_ca));
    assert_eq!(old.get(&server, &path, &ADMIN).await.status, 401);
    assert_eq!(new.get(&server, &path, &ADMIN).await.status, 200);
    server.trust.replace(Trust::default());
    assert_eq!(new.get(&server, &path, &ADMIN).await.status, 401);
}

#[tokio::test]
async fn credentials_are_tried_in_order_and_a_bad_one_is_never_anonymous() {
    let server = start().await;
    let path = format!("{BASE}/namespaces/a/things");
    for (client, code) in [
        (Client::token("alice-token"), 200),
        (Client::token("bob-token"), 403),
        (Client::token("wrong-token"), 401),
        (Client::default(), 403),
        (
            Client::certificate(server.client_ca.client("alice", &["x"])),
            200,
        ),
    ] {
        assert_eq!(client.get(&server, &path, &[]).await.status, code);
    }
    let groups: Vec<_> = server
        .rules
        .asked
        .lock()
        .iter()
        .map(|(user, _)| format!("{} {}", user.name, user.groups.join(" ")))
        .collect();
    assert_eq!(
        groups,
        [
            "alice people system:authenticated",
            "bob people system:authenticated",
            "system:anonymous system:unauthenticated",
            "alice x system:authenticated",
        ]
    );
}

#[tokio::test]
async fn a_refusal_says_who_cannot_do_what_where() {
    let server = start().await;
    let alice = Client::token("alice-token");
    let answer = alice
        .get(&server, &format!("{BASE}/namespaces/b/things/x"), &[])
        .await;
    assert_eq!(answer.status, 403);
    assert_eq!(
        answer.json()["message"],
        "things.test.example.com \"x\" is forbidden: User \"alice\" cannot get resource \"things\" in API group \
         \"test.example.com\" in the namespace \"b\""
    );
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
}

#[tokio::test]
async fn masters_and_health_do_not_depend_on_the_authorizer() {
    let server = start().await;
    for path in [
        "/apis",
        "/apis/test.example.com",
        BASE,
        "/openapi/v2",
        "/openapi/v3",
        "/",
    ] {
        assert_eq!(
            Client::admin().get(&server, path, &[]).await.status,
            200,
            "{path}"
        );
    }
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(
            Client::default().get(&server, path, &[]).await.body,
            "ok",
            "{path}"
        );
    }
    assert_eq!(
        Client::default()
            .get(&server, "/readyz/ping", &[])
            .await
            .status,
        403
    );
    let broken = Client::token("broken-token")
        .get(&server, &format!("{BASE}/globals"), &[])
        .await;
    assert_eq!(broken.status, 500);
    assert_eq!(broken.json()["reason"], "InternalError");
}

#[tokio::test]
async fn acting_as_another_needs_the_right_to() {
    let server = start().await;
    let path = format!("{BASE}/namespaces/a/things");
    let as_alice = [("Impersonate-User", "alice"), ("Impersonate-Group", "g")];
    assert_eq!(
        Client::token("bob-token")
            .get(&server, &path, &as_alice)
            .await
            .status,
        403
    );
    assert_eq!(
        Client::admin().get(&server, &path, &as_alice).await.status,
        200
    );
    let other = format!("{BASE}/namespaces/b/things");
    let refused = Client::admin().get(&server, &other, &as_alice).await;
    assert_eq!(refused.status, 403, "the admin has alice's rights only");
    let without_user = [("Impersonate-Group", "g")];
    assert_eq!(
        Client::admin()
            .get(&server, &path, &without_user)
            .await
            .status,
        400
    );
}
