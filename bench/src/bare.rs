//! The least that a server can do: hyper over TLS, with answers that lie ready in memory.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Response;
use http::header::CONTENT_TYPE;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Options of the hidden `bare` command.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[arg(long)]
    listen: SocketAddr,
    #[arg(long)]
    tls_cert_file: PathBuf,
    #[arg(long)]
    tls_private_key_file: PathBuf,
    /// Holds what is sent: `GET /NAME` is answered with DIR/NAME.
    #[arg(long)]
    dir: PathBuf,
}

/// Serves until it is killed.
pub(crate) async fn serve(arguments: &Arguments) -> Result<()> {
    let chain =
        CertificateDer::pem_file_iter(&arguments.tls_cert_file)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(&arguments.tls_private_key_file)?;
    let mut tls =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let answers = Arc::new(read(&arguments.dir)?);
    let listener = TcpListener::bind(arguments.listen).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let (acceptor, answers) = (acceptor.clone(), answers.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let service = service_fn(move |request: http::Request<_>| {
                let name = request.uri().path().trim_start_matches('/');
                let body = answers.iter().find(|(known, _)| known == name);
                let body = body.map(|(_, body)| body.clone()).unwrap_or_default();
                let mut response = Response::new(Full::new(body));
                let json = http::HeaderValue::from_static("application/json");
                response.headers_mut().insert(CONTENT_TYPE, json);
                async { Ok::<_, Infallible>(response) }
            });
            // A client that went away is no concern of ours.
            let _ = Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

fn read(dir: &Path) -> Result<Vec<(String, Bytes)>> {
    let mut answers = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        answers.push((name, std::fs::read(entry.path())?.into()));
    }
    Ok(answers)
}
