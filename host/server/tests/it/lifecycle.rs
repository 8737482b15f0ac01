use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use joinery_server::Limits;

use crate::harness::{BASE, Client, start, start_with, within};

#[tokio::test]
async fn stopping_turns_readiness_off_first_and_ends_watches_and_requests_cleanly() {
    let limits = Limits {
        shutdown_delay: Duration::from_secs(1),
        shutdown_grace: Duration::from_secs(4),
        ..Limits::default()
    };
    let server = start_with(limits, None).await;
    let path = format!("{BASE}/namespaces/n/things");
    let watch = Client::admin()
        .open(
            &server,
            "GET",
            &format!("{path}?watch=1"),
            &[],
            Bytes::new(),
        )
        .await;
    server.stop.cancel();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(
        Client::admin().get(&server, "/readyz", &[]).await.status,
        503
    );
    assert_eq!(
        Client::admin().get(&server, "/livez", &[]).await.status,
        200
    );
    assert_eq!(
        Client::admin().get(&server, &path, &[]).await.status,
        200,
        "still served"
    );
    let body = within(6, watch.into_body().collect()).await;
    assert!(body.unwrap().to_bytes().is_empty(), "a clean end");
    within(6, server.done).await.unwrap();
}

#[tokio::test]
async fn a_taken_port_is_named() {
    let server = start().await;
    let trust = server.trust.clone();
    let identity = server.serving_ca.server();
    let config = joinery_server::Config {
        catalog: server.catalog.clone(),
        authentication: joinery_server::Authentication::new(Vec::new()),
        authorizer: server.rules.clone(),
        serving: joinery_server::ServingSource::Fixed(
            joinery_server::ServingIdentity::from_pem(
                identity.certificate.as_bytes(),
                identity.key.as_bytes(),
            )
            .unwrap(),
        ),
        trust,
        health: server.health.clone(),
        registry: prometheus_client::registry::Registry::default(),
        limits: Limits::default(),
    };
    let error = joinery_server::Server::bind(server.address, config)
        .await
        .err()
        .unwrap();
    assert!(
        error.to_string().contains(&server.address.to_string()),
        "{error}"
    );
}

#[tokio::test]
async fn version_and_metrics_are_served() {
    let server = start().await;
    let version = Client::admin().get(&server, "/version", &[]).await.json();
    assert_eq!(version["major"], "1");
    assert!(
        version["gitVersion"]
            .as_str()
            .unwrap()
            .starts_with("v1.36.")
    );
    Client::admin()
        .get(&server, &format!("{BASE}/globals"), &[])
        .await;
    let metrics = Client::admin().get(&server, "/metrics", &[]).await;
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    for name in [
        "apiserver_request_total{verb=\"list\",group=\"test.example.com\",version=\"v1\",resource=\"globals\"",
        "apiserver_request_duration_seconds_bucket",
        "apiserver_current_inflight_requests",
        "apiserver_response_sizes_sum",
        "authentication_attempts_total",
        "apiserver_serving_certificate_expiration_timestamp_seconds",
    ] {
        assert!(text.contains(name), "{name} is missing in\n{text}");
    }
}
