//! Which plugins there ought to be: those of the directory, and over them those of ConfigMaps.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use joinery_plugin::{DeliveryError, DirectorySource, PluginFile, PluginSet};
use tokio::sync::watch;
use tracing::warn;

use crate::config_maps::ConfigMapSource;

/// So long the first reading of the ConfigMaps is waited for before the directory's plugins are loaded without them.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where a plugin came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The plugin directory.
    Directory(String),
    /// A ConfigMap.
    ConfigMap {
        namespace: String,
        name: String,
        uid: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "directory {path}"),
            Self::ConfigMap {
                namespace, name, ..
            } => write!(f, "ConfigMap {namespace}/{name}"),
        }
    }
}

/// A plugin that there ought to be, or why it cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) origin: Origin,
    pub(crate) plugin: Result<PluginFile, DeliveryError>,
}

/// By name.
pub(crate) type Candidates = BTreeMap<String, Candidate>;

/// All sources of plugins.
pub(crate) struct Delivery {
    path: String,
    // Watched for as long as it is held.
    _directory: DirectorySource,
    files: watch::Receiver<Arc<PluginSet>>,
    config_maps: Option<ConfigMapSource>,
}

impl Delivery {
    pub(crate) fn new(
        path: String,
        directory: DirectorySource,
        config_maps: Option<ConfigMapSource>,
    ) -> Self {
        Self {
            path,
            files: directory.subscribe(),
            _directory: directory,
            config_maps,
        }
    }

    /// Tells which plugins there ought to be, at first and with every change, for ever.
    pub(crate) async fn follow(mut self, want: impl Fn(Candidates)) {
        let mut found = self.config_maps.as_ref().map(ConfigMapSource::subscribe);
        if let Some(found) = &mut found {
            let first = found.wait_for(Option::is_some);
            if tokio::time::timeout(PATIENCE, first).await.is_err() {
                warn!("plugins in ConfigMaps cannot be read yet, going on without them");
            }
        }
        loop {
            let files = self.files.borrow_and_update().clone();
            let over = found
                .as_mut()
                .and_then(|found| found.borrow_and_update().clone());
            want(merged(&self.path, &files, over.as_deref()));
            let further = async {
                match &mut found {
                    Some(found) => found.changed().await,
                    None => std::future::pending().await,
                }
            };
            let changed = tokio::select! {
                changed = self.files.changed() => changed,
                changed = further => changed,
            };
            if changed.is_err() {
                return;
            }
        }
    }
}

/// Of two of one name the ConfigMap's counts: who runs the cluster overrides what came with the image.
fn merged(path: &str, files: &PluginSet, over: Option<&Candidates>) -> Candidates {
    let of_file = |(name, plugin): (&String, &Result<PluginFile, DeliveryError>)| {
        let origin = Origin::Directory(path.to_owned());
        let plugin = plugin.clone();
        (name.clone(), Candidate { origin, plugin })
    };
    let mut merged: Candidates = files.plugins.iter().map(of_file).collect();
    for (name, candidate) in over.into_iter().flatten() {
        merged.insert(name.clone(), candidate.clone());
    }
    merged
}

#[cfg(test)]
mod tests {
    use joinery_plugin::HostSettings;

    use super::*;

    fn plugin(name: &str, code: &'static str) -> PluginFile {
        PluginFile::new(name, code.into(), HostSettings::default())
    }

    #[test]
    fn a_config_map_overrides_a_file_of_its_name_for_as_long_as_it_is_there() {
        let mut files = PluginSet::default();
        for name in ["a", "b"] {
            files
                .plugins
                .insert(name.to_owned(), Ok(plugin(name, "file")));
        }
        let origin = Origin::ConfigMap {
            namespace: "ns".to_owned(),
            name: "map".to_owned(),
            uid: "u".to_owned(),
        };
        let candidate = Candidate {
            origin,
            plugin: Ok(plugin("a", "map")),
        };
        let over = Candidates::from([("a".to_owned(), candidate)]);
        let of = |merged: &Candidates, name: &str| {
            let candidate = &merged[name];
            let code = candidate.plugin.as_ref().unwrap().bytes.clone();
            (candidate.origin.to_string(), code)
        };
        let both = merged("/plugins", &files, Some(&over));
        assert_eq!(
            of(&both, "a"),
            ("ConfigMap ns/map".to_owned(), "map".into())
        );
        assert_eq!(of(&both, "b").0, "directory /plugins");
        let without = merged("/plugins", &files, Some(&Candidates::new()));
        assert_eq!(of(&without, "a").1, "file");
    }
}
