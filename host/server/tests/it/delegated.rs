//! What kube-apiserver is asked, with a stand-in for it.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use joinery_resource::{Attributes, Authorizer, Decision, User};
use joinery_server::{
    Authenticator, ClusterTrustError, Credentials, Presented, SharedTrust, SubjectAccessReviews,
    TokenReviews, Trust, follow_cluster_trust,
};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::harness::{Authority, within};

/// Answers each request by what `answer` makes of its path and body; remembers the bodies.
#[derive(Clone, Default)]
struct Upstream {
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Upstream {
    fn client(
        &self,
        answer: impl Fn(&str, &Value) -> (u16, Value) + Clone + Send + 'static,
    ) -> kube::Client {
        let asked = self.asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (asked, answer) = (asked.clone(), answer.clone());
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let body: Value = serde_json::from_slice(&body).unwrap_or_default();
                let (code, value) = answer(&path, &body);
                asked.lock().push(body);
                let response = Response::builder()
                    .status(code)
                    .body(Full::new(Bytes::from(value.to_string())));
                Ok::<_, Infallible>(response.unwrap())
            }
        });
        kube::Client::new(service, "default")
    }
}

fn forbidden() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "message": "no",
        "code": 403})
}

fn list(namespace: &str) -> Attributes {
    Attributes::Resource {
        verb: "list".to_owned(),
        group: "g".to_owned(),
        version: "v1".to_owned(),
        resource: "things".to_owned(),
        subresource: String::new(),
        namespace: Some(namespace.to_owned()),
        name: None,
        label_selector: String::new(),
        field_selector: String::new(),
    }
}

#[tokio::test]
async fn an_access_review_is_asked_once_for_the_same_question() {
    let upstream = Upstream::default();
    let reviews = SubjectAccessReviews::new(upstream.client(|_, review| {
        let allowed = review["spec"]["resourceAttributes"]["namespace"] == "a";
        let mut answer = review.clone();
        answer["status"] = json!({"allowed": allowed, "reason": "RBAC"});
        (201, answer)
    }));
    let user = User {
        name: "alice".to_owned(),
        ..User::default()
    };
    for _ in 0..3 {
        assert_eq!(
            reviews.authorize(&user, &list("a")).await.unwrap(),
            Decision::Allowed
        );
        let denied = Decision::Denied("RBAC".to_owned());
        assert_eq!(reviews.authorize(&user, &list("b")).await.unwrap(), denied);
    }
    assert_eq!(upstream.asked.lock().len(), 2);
    let other = User {
        groups: vec!["more".to_owned()],
        ..user
    };
    reviews.authorize(&other, &list("a")).await.unwrap();
    assert_eq!(
        upstream.asked.lock().len(),
        3,
        "other groups are another question"
    );
}

#[tokio::test]
async fn a_failed_review_is_an_error_and_is_not_remembered() {
    let upstream = Upstream::default();
    let reviews = SubjectAccessReviews::new(upstream.client(|_, _| (403, forbidden())));
    for asked in 1..3 {
        let error = reviews
            .authorize(&User::default(), &list("a"))
            .await
            .unwrap_err();
        assert_eq!(error.code, 500, "never a decision: {error}");
        assert_eq!(upstream.asked.lock().len(), asked);
    }
}

#[tokio::test]
async fn a_token_is_reviewed_once_whether_it_holds_or_not() {
    let upstream = Upstream::default();
    let tokens = TokenReviews::new(upstream.client(|_, review| {
        let mut answer = review.clone();
        answer["status"] = if review["spec"]["token"] == "good" {
            json!({"authenticated": true, "user": {"username": "u", "uid": "1", "groups": ["g"],
                "extra": {"k": ["v"]}}})
        } else {
            json!({"authenticated": false})
        };
        (201, answer)
    }));
    let authenticate = async |token: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
        let credentials = Credentials {
            headers: &headers,
            certificates: &Presented::default(),
        };
        tokens.authenticate(credentials).await
    };
    for _ in 0..2 {
        let user = authenticate("good").await.unwrap().unwrap();
        assert_eq!(
            (user.name.as_str(), user.groups),
            ("u", vec!["g".to_owned()])
        );
        assert_eq!(user.extra, [("k".to_owned(), vec!["v".to_owned()])]);
        assert!(authenticate("bad").await.is_err());
    }
    assert_eq!(upstream.asked.lock().len(), 2);
    let none = Credentials {
        headers: &HeaderMap::new(),
        certificates: &Presented::default(),
    };
    assert!(tokens.authenticate(none).await.unwrap().is_none());
}

#[tokio::test]
async fn the_clusters_trust_is_read_before_it_is_followed() {
    let ca = Authority::new("proxy").pem();
    let config_map = json!({"kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        "data": {"requestheader-client-ca-file": ca, "requestheader-username-headers": "[\"X-Remote-User\"]"}});
    let trust = SharedTrust::new(Trust::default());
    let client = Upstream::default().client(move |_, _| (200, config_map.clone()));
    let following = within(5, follow_cluster_trust(client, trust.clone()))
        .await
        .unwrap();
    following.abort();
    let current = trust.current();
    let proxy = current.front_proxy.as_ref().unwrap();
    assert_eq!(proxy.username_headers, ["X-Remote-User"]);
    assert!(proxy.allowed_names.is_empty(), "any name of that authority");
    assert!(current.client_ca.is_none());
}

#[tokio::test]
async fn a_missing_config_map_trusts_nobody_and_a_forbidden_or_broken_one_stops_the_start() {
    let missing = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404});
    let read = async |code: u16, body: Value| {
        let client = Upstream::default().client(move |_, _| (code, body.clone()));
        let trust = SharedTrust::new(Trust::default());
        within(5, follow_cluster_trust(client, trust.clone()))
            .await
            .map(|following| {
                following.abort();
                trust.current()
            })
    };
    let none = read(404, missing).await.unwrap();
    assert!(none.front_proxy.is_none() && none.client_ca.is_none());
    let error = read(403, forbidden()).await.unwrap_err();
    assert!(matches!(error, ClusterTrustError::Forbidden(_)));
    assert!(
        error
            .to_string()
            .contains("extension-apiserver-authentication-reader"),
        "{error}"
    );
    let broken = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"},
        "data": {"client-ca-file": "no certificate"}});
    let error = read(200, broken).await.unwrap_err();
    assert!(error.to_string().contains("client-ca-file"), "{error}");
}
