//! Kubeconfig files. They are written as JSON, which is YAML, and hold their certificates, so that they can be copied away.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::pki::KeyPairFiles;
use crate::run_dir::RunDir;

/// How the user of a kubeconfig shows who they are.
pub(crate) enum Identity<'a> {
    Certificate(&'a KeyPairFiles),
    Token(&'a str),
}

/// Writes `FILE` below the run's folder: one cluster, one user, one context.
pub(crate) fn write(
    run_dir: &RunDir,
    file: &str,
    server: &str,
    authority: &str,
    identity: &Identity<'_>,
) -> Result<PathBuf> {
    let user = match identity {
        Identity::Certificate(files) => json!({
            "client-certificate-data": base64_of(&files.certificate)?,
            "client-key-data": base64_of(&files.key)?,
        }),
        Identity::Token(token) => json!({ "token": token }),
    };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "joinery", "cluster": { "server": server, "certificate-authority-data": STANDARD.encode(authority) } }],
        "users": [{ "name": "joinery", "user": user }],
        "contexts": [{ "name": "joinery", "context": { "cluster": "joinery", "user": "joinery" } }],
        "current-context": "joinery",
    });
    run_dir.write(file, &format!("{config:#}\n"))
}

/// The server's address and the PEM of its authority, as kubectl reads them from a kubeconfig that somebody else wrote.
pub(crate) fn endpoint(view: &Value) -> Result<(String, String)> {
    let cluster = view
        .pointer("/clusters/0/cluster")
        .context("the kubeconfig names no cluster")?;
    let server = cluster
        .get("server")
        .and_then(Value::as_str)
        .context("the kubeconfig names no server")?;
    let authority = match cluster
        .get("certificate-authority-data")
        .and_then(Value::as_str)
    {
        Some(data) => String::from_utf8(
            STANDARD
                .decode(data)
                .context("certificate-authority-data is not base64")?,
        )
        .context("certificate-authority-data is not PEM")?,
        None => {
            let path = cluster
                .get("certificate-authority")
                .and_then(Value::as_str)
                .context("the kubeconfig names no certificate authority")?;
            fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?
        }
    };
    Ok((server.to_owned(), authority))
}

fn base64_of(path: &Path) -> Result<String> {
    Ok(STANDARD.encode(fs::read(path).with_context(|| format!("cannot read {}", path.display()))?))
}
