//! Events that tell what became of plugins, in core/v1.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use joinery_object::WriteOptions;
use joinery_resource::{Caller, MASTERS, Resource, User};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tracing::warn;

use crate::delivery::Origin;
use crate::report::API_VERSION;

/// What waits to be written. More is left out: Events are best effort everywhere.
const WAITING: usize = 256;
/// Bound of `message` in core/v1 validation, in bytes.
const LONGEST: usize = 1024;
/// Where the Events of objects without a namespace are.
const DEFAULT: &str = "default";

/// Writes Events.
#[async_trait]
pub(crate) trait EventSink: Send + Sync + 'static {
    /// Creates one.
    async fn create(&self, namespace: &str, event: Value) -> Result<()>;
}

/// Those of a cluster.
pub(crate) struct ClusterEvents(pub(crate) kube::Client);

#[async_trait]
impl EventSink for ClusterEvents {
    async fn create(&self, namespace: &str, event: Value) -> Result<()> {
        let event: Event = serde_json::from_value(event)?;
        kube::Api::namespaced(self.0.clone(), namespace)
            .create(&PostParams::default(), &event)
            .await?;
        Ok(())
    }
}

/// Those that this host stores itself.
pub(crate) struct OwnEvents(pub(crate) Arc<dyn Resource>);

#[async_trait]
impl EventSink for OwnEvents {
    async fn create(&self, namespace: &str, event: Value) -> Result<()> {
        let caller = Caller {
            user: User {
                name: "system:joinery".to_owned(),
                groups: vec![MASTERS.to_owned()],
                ..User::default()
            },
            now: now_millis(),
        };
        let body = serde_json::to_vec(&event)?.into();
        self.0
            .create(
                &caller,
                Some(namespace),
                None,
                body,
                &WriteOptions::default(),
            )
            .await
            .map_err(|status| anyhow::anyhow!("{status}"))
            .context("cannot create an Event")?;
        Ok(())
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_millis() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or_default()
        })
}

/// Now, as metav1.Time writes it.
pub(crate) fn now_text() -> String {
    Timestamp::from_second((now_millis() / 1000) as i64)
        .map(|time| time.to_string())
        .unwrap_or_default()
}

/// Takes Events and writes them when it can.
#[derive(Clone)]
pub(crate) struct Recorder(mpsc::Sender<(String, Value)>);

impl Recorder {
    /// Begins to write into a sink. Must be called in a tokio runtime.
    pub(crate) fn start(sink: Arc<dyn EventSink>) -> Self {
        let (sender, mut events) = mpsc::channel::<(String, Value)>(WAITING);
        tokio::spawn(async move {
            while let Some((namespace, event)) = events.recv().await {
                if let Err(error) = sink.create(&namespace, event).await {
                    warn!(namespace, "an Event is lost: {error:#}");
                }
            }
        });
        Self(sender)
    }

    /// Tells something of a plugin: of its ConfigMap if it has one, else of its JoineryPlugin.
    pub(crate) fn record(
        &self,
        plugin: &str,
        uid: &str,
        origin: Option<&Origin>,
        kind: EventKind,
        reason: &str,
        message: &str,
    ) {
        let of_plugin =
            json!({"apiVersion": API_VERSION, "kind": "JoineryPlugin", "name": plugin, "uid": uid});
        let (namespace, involved, related) = match origin {
            Some(Origin::ConfigMap {
                namespace,
                name,
                uid,
            }) => {
                let involved = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace, "name": name, "uid": uid});
                (namespace.as_str(), involved, Some(of_plugin))
            }
            _ => (DEFAULT, of_plugin, None),
        };
        let now = now_text();
        let safe: String = plugin
            .chars()
            .map(|c| match c.to_ascii_lowercase() {
                c if c.is_ascii_alphanumeric() => c,
                _ => '-',
            })
            .collect();
        let name = format!(
            "plugin-{}.{}",
            safe.trim_matches('-'),
            uuid::Uuid::new_v4().simple()
        );
        let mut event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"namespace": namespace, "name": name, "labels": {"app.kubernetes.io/managed-by": "joinery"}},
            "involvedObject": involved,
            "type": kind.as_str(),
            "reason": reason,
            "message": &message[..message.floor_char_boundary(LONGEST)],
            "firstTimestamp": now, "lastTimestamp": now, "count": 1,
            "source": {"component": "joinery"},
            "reportingComponent": "joinery.dev/joinery",
            "reportingInstance": "joinery",
        });
        if let Some(related) = related {
            event["related"] = related;
        }
        if self.0.try_send((namespace.to_owned(), event)).is_err() {
            warn!(plugin, reason, "an Event is lost: too many wait already");
        }
    }
}

/// `type` of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    Normal,
    Warning,
}

impl EventKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}
