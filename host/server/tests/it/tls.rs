use std::sync::Arc;

use joinery_server::{Limits, ServingSource};
use parking_lot::Mutex;
use rustls::RootCertStore;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;

use crate::harness::{Authority, Client, start, start_with, within};

/// Remembers which authorities the server names.
#[derive(Debug, Default)]
struct Hints(Mutex<Vec<Vec<u8>>>);

impl ResolvesClientCert for Hints {
    fn resolve(&self, hints: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        *self.0.lock() = hints.iter().map(|hint| hint.to_vec()).collect();
        None
    }

    fn has_certs(&self) -> bool {
        true
    }
}

async fn hints(address: std::net::SocketAddr, ca: &Authority) -> String {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(ca.pem().as_bytes()).unwrap())
        .unwrap();
    let hints = Arc::new(Hints::default());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_cert_resolver(hints.clone());
    let stream = TcpStream::connect(address).await.unwrap();
    tokio_rustls::TlsConnector::from(Arc::new(config))
        .connect(ServerName::try_from("localhost").unwrap(), stream)
        .await
        .unwrap();
    let hints = hints.0.lock();
    let hints: Vec<_> = hints
        .iter()
        .map(|hint| String::from_utf8_lossy(hint).into_owned())
        .collect();
    hints.join("|")
}

#[tokio::test]
async fn the_certificate_request_names_both_authorities_and_follows_them() {
    let server = start().await;
    let named = hints(server.address, &server.serving_ca).await;
    assert!(
        named.contains("proxy") && named.contains("client"),
        "{named:?}"
    );
    let other = Authority::new("rotated");
    server
        .trust
        .replace(crate::harness::trust(&other, &server.client_ca));
    within(5, async {
        while !hints(server.address, &server.serving_ca)
            .await
            .contains("rotated")
        {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_exchanged_serving_certificate_is_served_and_a_mismatched_pair_is_not() {
    let ca = Authority::new("files");
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let first = ca.server();
    std::fs::write(&certificate, &first.certificate).unwrap();
    std::fs::write(&key, &first.key).unwrap();
    let files = ServingSource::Files {
        certificate: certificate.clone(),
        key: key.clone(),
    };
    let mut server = start_with(Limits::default(), Some(files)).await;
    server.serving_ca = ca;
    let serial = async || {
        let stream = Client::admin().connect(&server).await;
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    };
    let before = serial().await;
    let second = server.serving_ca.server();
    // Half of the exchange: the key does not fit yet.
    std::fs::write(&certificate, &second.certificate).unwrap();
    let wake = || {
        server
            .trust
            .replace(crate::harness::trust(&server.proxy_ca, &server.client_ca))
    };
    wake();
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(serial().await, before);
    std::fs::write(&key, &second.key).unwrap();
    wake();
    within(15, async {
        while serial().await == before {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_thousand_watches_share_one_connection() {
    use bytes::Bytes;
    use http::Request;
    use http_body_util::Full;
    use hyper_util::rt::{TokioExecutor, TokioIo};

    let server = start().await;
    let stream = Client::admin().connect(&server).await;
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let mut open = Vec::new();
    for _ in 0..1000 {
        let request = Request::get(format!(
            "https://localhost{}/namespaces/n/things?watch=1",
            crate::harness::BASE
        ))
        .header("authorization", "Bearer admin-token")
        .body(Full::new(Bytes::new()))
        .unwrap();
        sender.ready().await.unwrap();
        let response = within(10, sender.send_request(request)).await.unwrap();
        assert_eq!(response.status(), 200);
        open.push(response);
    }
}
