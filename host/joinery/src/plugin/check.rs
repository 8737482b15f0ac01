//! `joinery plugin check`: what a plugin is, or why it is refused.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use joinery_plugin::{
    Generation, Grants, LoadError, PluginFile, Policy, ResourceDescription, Shape,
};
use joinery_view::Reach;

use super::Target;
use super::load::runtime;
use crate::cli::PolicyFiles;
use crate::terminal::harmless;

/// Load a plugin exactly as the host does, and tell what it is or why it is refused.
///
/// Tells its resources with their shapes, what it asks to be granted, its size and its digest. Exits with 1 when the host
/// would refuse it. What only a running host knows is not looked at: whether another plugin serves a resource already.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  joinery plugin check combined_tasks.wasm
  joinery plugin check combined_tasks.wasm --settings production.yaml
  joinery plugin check combined_tasks.wasm --plugin-grants grants.yaml --plugin-trusted-keys keys/")]
pub(crate) struct Check {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    policy: PolicyFiles,
}

impl Check {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let (plugin, _) = self.target.read()?;
        let policy = self.policy.read(Grants::everything())?;
        let signature = match (&policy.trusted_keys, &plugin.signature) {
            (None, None) => "none",
            (None, Some(_)) => "there is one; with --plugin-trusted-keys it is verified",
            (Some(_), _) => "of a trusted key",
        };
        println!("plugin     {}", plugin.name);
        println!("digest     sha256:{}", plugin.digest);
        println!("size       {}", size(&plugin)?);
        let refusal = match runtime(policy)?.load(plugin.clone()).await {
            Ok(generation) => {
                println!("signature  {signature}");
                describe(&generation, &plugin.name);
                println!("\nThe host takes it.");
                return Ok(ExitCode::SUCCESS);
            }
            Err(refusal) => refusal,
        };
        // What it is can be told all the same when only the operator's word is against it.
        if matches!(refusal, LoadError::NotGranted(_) | LoadError::Signature(_))
            && let Ok(generation) = runtime(Policy::allow_all())?.load(plugin.clone()).await
        {
            describe(&generation, &plugin.name);
        }
        println!("\nThe host refuses it: {}", harmless(&problems(&refusal)));
        println!("\n{}", advice(&refusal));
        Ok(ExitCode::FAILURE)
    }
}

fn size(plugin: &PluginFile) -> Result<String> {
    // Of what fits a ConfigMap, the size that `pack` makes; of much more than that, soon.
    let level = if plugin.bytes.len() > 4 << 20 { 3 } else { 19 };
    let packed = zstd::encode_all(&plugin.bytes[..], level)?;
    Ok(format!(
        "{} bytes, {} packed with zstd",
        plugin.bytes.len(),
        packed.len()
    ))
}

fn describe(generation: &Generation, name: &str) {
    let description = generation.description();
    println!("resources");
    for resource in &description.resources {
        let definition = &resource.definition;
        let scope = if definition.namespaced {
            "namespaced"
        } else {
            "cluster-scoped"
        };
        println!(
            "  {} {}, {}, {scope}",
            definition.gvr.group_resource(),
            definition.gvr.version,
            definition.kind
        );
        println!("    verbs  {}", definition.verbs.join(", "));
        match &resource.shape {
            Shape::Stored => {
                println!("    shape  stored: the host keeps the objects, the plugin admits them")
            }
            Shape::Served => {
                println!("    shape  served: the plugin answers the verbs, the host adds the rest")
            }
            Shape::View(view) => {
                println!(
                    "    shape  view of {}",
                    view.sources[0].gvr.group_resource()
                );
                for relation in &view.relations {
                    let reach = match relation.reach {
                        Reach::SameNamespace => "in the same namespace",
                        Reach::AnyNamespace => "in any namespace",
                    };
                    println!(
                        "    joins  {}: {} {reach}, at most {}",
                        relation.name,
                        view.sources[relation.source].gvr.group_resource(),
                        relation.limit
                    );
                }
            }
        }
    }
    let stored = |r: &ResourceDescription| matches!(r.shape, Shape::Stored);
    let asks = description.asks(generation.settings());
    println!("asks to be granted, in the file of --plugin-grants:");
    println!("  plugins:\n    {name}:");
    println!("      groups: [{}]", asks.groups.join(", "));
    println!("      sources: [{}]", asks.sources.join(", "));
    if asks.definer {
        println!("      definer: true     # whoever may read its views sees what they are made of");
    }
    if !asks.any_namespace.is_empty() {
        println!("      anyNamespace: [{}]", asks.any_namespace.join(", "));
    }
    let served = |r: &ResourceDescription| matches!(r.shape, Shape::Served);
    if description.resources.iter().any(served) {
        println!("      # and, as hosts, what its verbs call; as sources, what they look up");
    }
    if description.resources.iter().any(stored) {
        println!("      # and, as sources, what its rules look up of others' resources");
    }
}

/// The refusal; several problems stand one a line.
fn problems(refusal: &LoadError) -> String {
    match refusal {
        LoadError::Description(problems) if problems.len() > 1 => format!(
            "its description is not valid:\n  - {}",
            problems.join("\n  - ")
        ),
        other => other.to_string(),
    }
}

/// What to do about it.
fn advice(refusal: &LoadError) -> &'static str {
    match refusal {
        LoadError::Settings(_) => {
            "The settings file is the host's: `settings` in it is the plugin's own, the rest is in docs/operators.md."
        }
        LoadError::Empty => "The build or the copy has written nothing: build it again.",
        LoadError::Corrupt(_) => {
            "The file is cut or no component at all: copy it to a new name beside and rename it, so that nobody reads half \
             of it."
        }
        LoadError::CoreModule => "Build it with `cargo build --release --target wasm32-wasip2`.",
        LoadError::TooLarge { .. } => {
            "Build it with --release, `lto = true` and `opt-level = \"s\"`, and leave out what it does not need."
        }
        LoadError::Imports { .. } => {
            "A plugin is pure logic. Look at what brings the import in: most often a library that opens connections or files."
        }
        LoadError::Exports { .. } => {
            "In Rust, one of joinery_sdk's macros exports it: export_view!, export_admission!, export_verbs! or export_view_and_admission!, in a \
             crate of crate-type cdylib."
        }
        LoadError::Contract { .. } | LoadError::Contracts { .. } => {
            "Build it against the SDK of this host's version, or take a newer host."
        }
        LoadError::Compile(_) => {
            "If it builds and passes `wasm-tools validate`, it may be too large for the compiler's limits."
        }
        LoadError::Link { .. } => {
            "Its functions have other types than the contract's: build it against the WIT of that version as it is published."
        }
        LoadError::Configure(_) => {
            "The plugin itself says so: it is about `settings` in its settings file."
        }
        LoadError::Failed(_) | LoadError::TimedOut(_) => {
            "It trapped or hung in configure, describe or a trial call. Its last words on stderr stand above; its own tests are \
             the place to find out more."
        }
        LoadError::Description(_) => "Each of these is about what `describe` returns.",
        LoadError::NotGranted(_) => {
            "The operator adds it to the file of --plugin-grants, if that is what the operator wants."
        }
        LoadError::Signature(_) => {
            "`joinery plugin pack --key KEY.pem` signs it; the public key belongs into the folder of --plugin-trusted-keys."
        }
        LoadError::NotDeterministic(_) => {
            "Sort what comes out of a HashMap, or use a BTreeMap; take the time from the objects."
        }
        LoadError::Host(_) => {
            "This is the host's own trouble, not the plugin's. A running host tries again by itself."
        }
    }
}
