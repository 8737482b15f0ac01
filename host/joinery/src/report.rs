//! What became of each plugin, as the resource `joineryplugins.joinery.dev`: made from the manager's report, kept
//! nowhere.

use std::collections::HashMap;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use joinery_object::GroupVersionResource;
use joinery_resource::{Definition, Mode, Security};
use joinery_schema::{Column, ColumnType, Columns};
use serde_json::{Value, json};

use crate::api_services::Registered;
use crate::delivery::Origin;
use crate::events::now_text;
use crate::manager::{PluginReport, State};
use crate::service::{ServingReport, SourceReport};

/// Group of Joinery's own resources.
const GROUP: &str = "joinery.dev";
const VERSION: &str = "v1alpha1";
/// Both, as objects have them.
pub(crate) const API_VERSION: &str = "joinery.dev/v1alpha1";
/// Digits of a digest that tell two apart.
const SHORT: usize = 12;

/// The resource.
///
/// # Errors
/// When a column cannot be used, which is a mistake in this file.
pub(crate) fn definition() -> Result<Definition> {
    let column = |name: &str, column_type, path: &str, priority| Column {
        name: name.to_owned(),
        column_type,
        format: String::new(),
        description: String::new(),
        json_path: path.to_owned(),
        priority,
    };
    let columns = [
        column("Shape", ColumnType::String, ".status.shape", 0),
        column("Resources", ColumnType::String, ".status.served", 0),
        column("Generation", ColumnType::Integer, ".status.generation", 0),
        column("Digest", ColumnType::String, ".status.shortDigest", 0),
        column("Ready", ColumnType::String, ".status.ready", 0),
        column("Reason", ColumnType::String, ".status.reason", 0),
        column("Age", ColumnType::Date, ".metadata.creationTimestamp", 0),
        column("Source", ColumnType::String, ".status.from", 1),
        column("Message", ColumnType::String, ".status.message", 1),
    ];
    Ok(Definition {
        gvr: GroupVersionResource::new(GROUP, VERSION, "joineryplugins"),
        kind: "JoineryPlugin".to_owned(),
        list_kind: "JoineryPluginList".to_owned(),
        singular: "joineryplugin".to_owned(),
        short_names: vec!["jp".to_owned()],
        categories: Vec::new(),
        namespaced: false,
        verbs: vec!["get", "list", "watch"],
        status_subresource: false,
        schema: include_str!("joineryplugin.json").into(),
        columns: Columns::compile(&columns).context("columns of joineryplugins")?,
        selectable_fields: vec![".status.ready".to_owned(), ".status.reason".to_owned()],
    })
}

/// Makes the objects, and remembers since when each condition is as it is.
#[derive(Default)]
pub(crate) struct Reporter {
    since: HashMap<(String, &'static str), (&'static str, String)>,
}

/// One condition, but for its time.
struct Condition {
    name: &'static str,
    status: &'static str,
    reason: String,
    message: String,
}

impl Condition {
    fn new(name: &'static str, status: &'static str, reason: &str, message: String) -> Self {
        Self {
            name,
            status,
            reason: reason.to_owned(),
            message,
        }
    }
}

impl Reporter {
    /// The objects of all plugins. `registered`: how the APIServices are, where there are any.
    pub(crate) fn objects(
        &mut self,
        plugins: &[PluginReport],
        registered: Option<&Registered>,
    ) -> Vec<Bytes> {
        self.since
            .retain(|(name, _), _| plugins.iter().any(|plugin| plugin.name == *name));
        plugins
            .iter()
            .map(|plugin| self.object(plugin, registered).to_string().into())
            .collect()
    }

    fn object(&mut self, plugin: &PluginReport, registered: Option<&Registered>) -> Value {
        let conditions = conditions(plugin, registered);
        // What is wrong first: the last of the conditions that is not as it should be says most.
        let bad = conditions.iter().rfind(|c| c.status != "True");
        let (reason, message) = match bad {
            Some(condition) => (condition.reason.as_str(), condition.message.as_str()),
            None => ("Serving", ""),
        };
        let serving = plugin.serving.as_ref();
        let mut status = json!({
            "ready": if serving.is_some() { "True" } else { "False" },
            "reason": reason,
            "message": message,
            "generation": plugin.generation,
            "from": plugin.origin.as_ref().map(ToString::to_string).unwrap_or_default(),
            "refusals": plugin.refusals,
            "conditions": conditions.iter().map(|c| self.stamped(&plugin.name, c)).collect::<Vec<_>>(),
        });
        if let Some(serving) = serving {
            self::serving(&mut status, serving);
        }
        json!({
            "apiVersion": API_VERSION,
            "kind": "JoineryPlugin",
            "metadata": {
                "name": plugin.name,
                "uid": plugin.uid,
                "creationTimestamp": plugin.created,
                "generation": plugin.generation.max(1),
            },
            "spec": {"source": plugin.origin.as_ref().map(source)},
            "status": status,
        })
    }

    fn stamped(&mut self, plugin: &str, condition: &Condition) -> Value {
        let since = self
            .since
            .entry((plugin.to_owned(), condition.name))
            .or_insert_with(|| (condition.status, now_text()));
        if since.0 != condition.status {
            *since = (condition.status, now_text());
        }
        json!({
            "type": condition.name, "status": condition.status, "reason": condition.reason,
            "message": condition.message, "lastTransitionTime": since.1,
        })
    }
}

fn source(origin: &Origin) -> Value {
    match origin {
        Origin::Directory(path) => json!({"directory": {"path": path}}),
        Origin::ConfigMap {
            namespace,
            name,
            uid,
        } => json!({"configMap": {"namespace": namespace, "name": name, "uid": uid}}),
    }
}

/// By rising weight of what is wrong.
fn conditions(plugin: &PluginReport, registered: Option<&Registered>) -> Vec<Condition> {
    let mut conditions = Vec::new();
    if let Some(serving) = &plugin.serving {
        let failing: u64 = serving.resources.iter().map(|r| r.failures).sum();
        conditions.push(match failing {
            0 => Condition::new("Complete", "True", "NothingLeftOut", String::new()),
            failing => {
                let message = format!("the plugin fails on {failing} objects, which are left out");
                Condition::new("Complete", "False", "ObjectsLeftOut", message)
            }
        });
        conditions.extend(sources(serving));
        conditions.extend(registered.and_then(|registered| published(serving, registered)));
    }
    conditions.extend(unread(&plugin.waits_for).filter(|_| plugin.serving.is_none()));
    let refused = match plugin.serving {
        Some(_) => "NewestRefused",
        None => "Refused",
    };
    conditions.push(match &plugin.state {
        State::Serving => Condition::new("Loaded", "True", "Loaded", String::new()),
        State::Loading => {
            let message = "the newest version is being loaded".to_owned();
            Condition::new("Loaded", "Unknown", "Loading", message)
        }
        State::Failed(why) => Condition::new("Loaded", "False", refused, why.clone()),
        State::Staying(why) => Condition::new("Loaded", "False", "RemovalRefused", why.clone()),
    });
    let ready = match (&plugin.serving, &plugin.state) {
        (Some(_), _) => {
            let message = format!("generation {} serves", plugin.generation);
            Condition::new("Ready", "True", "Serving", message)
        }
        (None, State::Failed(why)) => Condition::new("Ready", "False", "Refused", why.clone()),
        (None, _) => match unread(&plugin.waits_for) {
            Some(Condition {
                reason, message, ..
            }) => Condition::new("Ready", "False", &reason, message),
            None => {
                let message = "it has never served yet".to_owned();
                Condition::new("Ready", "False", "Loading", message)
            }
        },
    };
    conditions.push(ready);
    conditions
}

/// Of a plugin that serves once its sources have been read: the first that cannot be.
fn unread(waits_for: &[(String, String)]) -> Option<Condition> {
    let (source, error) = waits_for.iter().find(|(_, error)| !error.is_empty())?;
    let message = format!(
        "{source} cannot be read: {error}; its views serve once that is there, and the host may list and watch it"
    );
    Some(Condition::new(
        "SourcesFollowed",
        "False",
        "SourceUnavailable",
        message,
    ))
}

fn sources(serving: &ServingReport) -> Option<Condition> {
    if serving.sources.is_empty() {
        return None;
    }
    if let Some(view) = serving.resources.iter().find(|view| view.suspended) {
        let message = format!(
            "{} is read live and cannot be watched: its sources and others are together larger than --max-source-bytes",
            view.gvr.group_resource()
        );
        return Some(Condition::new(
            "SourcesFollowed",
            "False",
            "SourceTooLarge",
            message,
        ));
    }
    let bad = serving.sources.iter().find(|source| !source.is_fresh());
    Some(match bad {
        None => Condition::new("SourcesFollowed", "True", "Followed", String::new()),
        Some(source) => {
            let why = source.error.as_deref();
            let why = why.unwrap_or("not heard of for most of a minute");
            let message = format!("{}: {why}", source.source);
            Condition::new("SourcesFollowed", "False", "SourceUnavailable", message)
        }
    })
}

fn published(serving: &ServingReport, registered: &Registered) -> Option<Condition> {
    let mut waiting = None;
    for resource in &serving.resources {
        let name = format!("{}.{}", resource.gvr.version, resource.gvr.group);
        match registered.get(&name) {
            Some(Ok(())) => {}
            Some(Err(why)) => {
                let message = format!("APIService {name}: {why}");
                return Some(Condition::new(
                    "Published",
                    "False",
                    "NotPublished",
                    message,
                ));
            }
            None => waiting = Some(name),
        }
    }
    Some(match waiting {
        None => Condition::new("Published", "True", "Published", String::new()),
        Some(name) => {
            let message = format!("APIService {name} is not there yet");
            Condition::new("Published", "Unknown", "Publishing", message)
        }
    })
}

fn serving(status: &mut Value, serving: &ServingReport) {
    let mut shapes: Vec<&str> = serving.resources.iter().map(|r| r.shape).collect();
    shapes.sort_unstable();
    shapes.dedup();
    status["shape"] = shapes.join(",").into();
    let names: Vec<String> = serving
        .resources
        .iter()
        .map(|resource| resource.gvr.group_resource())
        .collect();
    status["served"] = names.join(",").into();
    status["digest"] = format!("sha256:{}", serving.digest).into();
    status["shortDigest"] = serving.digest[..serving.digest.len().min(SHORT)].into();
    status["settingsDigest"] = format!("sha256:{}", serving.settings_digest).into();
    let resource = |resource: &crate::service::ResourceReport| {
        let mut shown = json!({
            "group": &*resource.gvr.group, "version": &*resource.gvr.version,
            "resource": &*resource.gvr.resource, "kind": resource.kind, "shape": resource.shape,
        });
        if resource.shape == "view" {
            shown["failures"] = resource.failures.into();
        }
        shown
    };
    status["resources"] = serving.resources.iter().map(resource).collect();
    let settings = &serving.settings;
    status["settings"] = json!({
        "mode": match settings.mode { Mode::Cached => "cached", Mode::Live => "live" },
        "security": match settings.security { Security::Invoker => "invoker", Security::Definer => "definer" },
        "limits": {
            "memoryMiB": settings.limits.memory_mib,
            "callSeconds": settings.limits.call_seconds,
            "concurrentCalls": settings.limits.concurrent_calls,
            "watchSeconds": settings.limits.watch_seconds,
        },
    });
    status["grants"] = json!({
        "groups": serving.grant.groups, "sources": serving.grant.sources, "hosts": serving.grant.hosts,
        "anyNamespace": settings.any_namespace,
    });
    let source = |source: &SourceReport| {
        json!({
            "source": source.source, "labelSelector": source.selector, "synced": source.synced,
            "stale": source.stale, "error": source.error.clone().unwrap_or_default(),
        })
    };
    status["sources"] = serving.sources.iter().map(source).collect();
}
