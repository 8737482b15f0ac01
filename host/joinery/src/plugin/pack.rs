//! `joinery plugin pack`: a plugin as manifests.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use joinery_plugin::{ConfigMapContents, MAX_ANNOTATIONS, MAX_CONFIG_MAP, Policy, SigningKey};

use super::Target;
use super::load::runtime;
use super::roles;

/// Make manifests of a plugin: a ConfigMap that the host takes, and roles for its users.
///
/// The component is loaded first, as `check` does, and packed with zstd; beside it go its settings, its digest and, with
/// --key, a signature. ClusterRoles aggregate to view, edit and admin what the shapes of its resources allow; one more lets
/// the host read its sources. What the operator must grant it is said on stderr.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  joinery plugin pack combined_tasks.wasm | kubectl apply --server-side -f -
  joinery plugin pack combined_tasks.wasm --settings production.yaml -o combined-tasks.yaml
  openssl genpkey -algorithm ed25519 -out key.pem && openssl pkey -in key.pem -pubout -out keys/me.pem
  joinery plugin pack combined_tasks.wasm --key key.pem -o combined-tasks.yaml

A ConfigMap holds 1 MiB. What is larger goes into the host's plugin folder, as a file in an image or a volume.")]
pub(crate) struct Pack {
    #[command(flatten)]
    target: Target,
    /// The host's namespace.
    #[arg(
        short,
        long,
        value_name = "NAMESPACE",
        default_value = "joinery-system",
        value_parser = crate::cli::namespace
    )]
    namespace: String,
    /// The host's ServiceAccount, which is allowed to read the plugin's sources.
    #[arg(long, value_name = "NAME", default_value = "joinery")]
    service_account: String,
    /// Sign it with this private key: PEM (PKCS#8), Ed25519 or ECDSA P-256.
    #[arg(long, value_name = "KEY")]
    key: Option<PathBuf>,
    /// Where to write; stdout when left out.
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
}

impl Pack {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let (plugin, settings) = self.target.read()?;
        let signature = match &self.key {
            None => plugin.signature.clone(),
            Some(path) => {
                let signed = SigningKey::read(path)?.sign(&plugin.digest);
                Some(signed.context("the system has no random bytes to sign with")?)
            }
        };
        let generation = runtime(Policy::allow_all())?
            .load(plugin.clone())
            .await
            .context("the plugin is refused; `joinery plugin check` explains it")?;
        let name = roles::object_name(&plugin.name);
        let packed = ConfigMapContents {
            plugin: plugin.name.clone(),
            namespace: self.namespace.clone(),
            name: format!("plugin-{name}"),
            component: plugin.bytes.clone(),
            settings,
            signature,
        }
        .write()?;
        eprintln!(
            "{}: {} bytes, {} packed",
            plugin.name,
            plugin.bytes.len(),
            packed.packed
        );
        if packed.size > MAX_CONFIG_MAP {
            bail!(
                "too large for a ConfigMap: {} bytes, at most {MAX_CONFIG_MAP} are allowed. Put the file into the host's plugin \
                 folder (--plugins), as part of an image or in a volume; or make it smaller: build it with --release, \
                 `lto = true`, `opt-level = \"s\"` and `strip = true`",
                packed.size
            );
        }
        if packed.client_side_apply > MAX_ANNOTATIONS {
            eprintln!(
                "note: say `kubectl apply --server-side`. Client-side apply keeps a second copy in an annotation, which would have \
                 {} bytes, and {MAX_ANNOTATIONS} are allowed",
                packed.client_side_apply
            );
        }
        let asks = generation.description().asks(generation.settings());
        eprintln!(
            "the host takes it when the file of --plugin-grants has, for plugin {}: groups [{}], sources [{}]{}{}",
            plugin.name,
            asks.groups.join(", "),
            asks.sources.join(", "),
            if asks.definer { ", definer true" } else { "" },
            if asks.any_namespace.is_empty() {
                String::new()
            } else {
                format!(", anyNamespace [{}]", asks.any_namespace.join(", "))
            }
        );
        if asks.definer {
            eprintln!(
                "mind: its settings say security: definer, so whoever may read its views sees what they are made of"
            );
        }
        let roles = roles::roles(
            &name,
            generation.description(),
            &self.namespace,
            &self.service_account,
        );
        let yaml = format!("{}{roles}", packed.yaml);
        match &self.output {
            None => print!("{yaml}"),
            Some(path) => {
                fs::write(path, yaml)
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
