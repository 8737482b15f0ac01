//! A plugin in a ConfigMap: how it is read, and how it is written.
//!
//! | where | what |
//! | --- | --- |
//! | label [`PLUGIN_LABEL`] | the plugin's name: a ConfigMap without it is none of ours |
//! | binaryData `plugin.wasm.zst` or `plugin.wasm` | the component, packed with zstd or as it is |
//! | data `settings.yaml` | the operator's [`HostSettings`]; all defaults when it is missing |
//! | annotation [`DIGEST_ANNOTATION`] | `sha256:` and the hex digest of the component, unpacked; optional, and checked when it is there |
//! | annotation [`SIGNATURE_ANNOTATION`] | base64 of a signature over the text of that digest; see docs/plugins |

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;

use super::{DeliveryError, PluginFile, check_digest, check_name, unpack};
use crate::error::LoadError;
use crate::inspect::MAX_BYTES;
use crate::settings::HostSettings;

/// Label of the ConfigMaps that hold plugins; its value is the plugin's name.
pub const PLUGIN_LABEL: &str = "plugins.joinery.dev/plugin";
/// Annotation: `sha256:` and the hex digest of the component.
pub const DIGEST_ANNOTATION: &str = "plugins.joinery.dev/digest";
/// Annotation: base64 of the signature over the text of the digest.
pub const SIGNATURE_ANNOTATION: &str = "plugins.joinery.dev/signature";

const PLAIN: &str = "plugin.wasm";
const PACKED: &str = "plugin.wasm.zst";
const SETTINGS: &str = "settings.yaml";

/// What the values of a ConfigMap may have together, in bytes: `MaxSecretSize` in Kubernetes' pkg/apis/core.
pub const MAX_CONFIG_MAP: usize = 1 << 20;
/// What the annotations of an object may have together, in bytes: `TotalAnnotationSizeLimitB` in apimachinery.
/// Client-side apply keeps the whole object in one of them.
pub const MAX_ANNOTATIONS: usize = 256 << 10;

/// A ConfigMap that carries a plugin, not yet unpacked.
#[derive(Clone, Debug)]
pub struct PluginConfigMap {
    plugin: String,
    namespace: String,
    name: String,
    object: Object,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
    #[serde(default)]
    binary_data: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

impl PluginConfigMap {
    /// Reads the outline of a ConfigMap, given as JSON. None: it has no [`PLUGIN_LABEL`].
    ///
    /// # Errors
    /// [`DeliveryError::ConfigMap`], when it is no ConfigMap, or its label is no plugin's name.
    pub fn parse(json: &[u8]) -> Result<Option<Self>, DeliveryError> {
        let object: Object =
            serde_json::from_slice(json).map_err(|error| DeliveryError::ConfigMap {
                namespace: String::new(),
                name: String::new(),
                message: format!("is no ConfigMap: {error}"),
            })?;
        let metadata = &object.metadata;
        let Some(plugin) = metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(PLUGIN_LABEL))
        else {
            return Ok(None);
        };
        let map = Self {
            plugin: plugin.clone(),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            object,
        };
        check_name(&map.plugin)
            .map_err(|message| map.fault(format!("label {PLUGIN_LABEL}: {message}")))?;
        Ok(Some(map))
    }

    /// Name of the plugin in it.
    pub fn plugin(&self) -> &str {
        &self.plugin
    }

    /// Namespace of the ConfigMap.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Name of the ConfigMap.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The plugin, unpacked, its digest checked against the annotation.
    ///
    /// # Errors
    /// [`DeliveryError::ConfigMap`] with what is wrong and what is allowed.
    pub fn unpack(&self) -> Result<PluginFile, DeliveryError> {
        let of = |name| self.object.binary_data.as_ref().and_then(|d| d.get(name));
        let (key, base64, packed) = match (of(PLAIN), of(PACKED)) {
            (Some(plain), None) => (PLAIN, plain, false),
            (None, Some(packed)) => (PACKED, packed, true),
            (None, None) => {
                return Err(self.fault(format!("binaryData needs {PACKED} or {PLAIN}")));
            }
            (Some(_), Some(_)) => {
                return Err(self.fault(format!(
                    "binaryData has {PACKED} and {PLAIN}: only one may be there"
                )));
            }
        };
        let at_key = |error: &dyn std::fmt::Display| self.fault(format!("{key}: {error}"));
        let bytes = STANDARD.decode(base64).map_err(|error| at_key(&error))?;
        let bytes = if packed {
            unpack(&bytes).map_err(|error| at_key(&error))?
        } else {
            bytes
        };
        if bytes.len() as u64 > MAX_BYTES {
            return Err(at_key(&format!("has more than {MAX_BYTES} bytes")));
        }
        let settings = match self.object.data.as_ref().and_then(|d| d.get(SETTINGS)) {
            None => HostSettings::default(),
            Some(text) => HostSettings::parse(text).map_err(|error| match error {
                LoadError::Settings(message) => self.fault(format!("{SETTINGS}: {message}")),
                other => self.fault(format!("{SETTINGS}: {other}")),
            })?,
        };
        let mut plugin = PluginFile::new(&self.plugin, Bytes::from(bytes), settings);
        let annotation = |name| {
            let annotations = self.object.metadata.annotations.as_ref();
            annotations.and_then(|a| a.get(name))
        };
        if let Some(stated) = annotation(DIGEST_ANNOTATION) {
            check_digest(stated, &plugin.digest)
                .map_err(|message| self.fault(format!("{DIGEST_ANNOTATION}: {message}")))?;
        }
        plugin.signature = annotation(SIGNATURE_ANNOTATION).cloned();
        Ok(plugin)
    }

    fn fault(&self, message: String) -> DeliveryError {
        DeliveryError::ConfigMap {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            message,
        }
    }
}

/// A plugin that is to go into a ConfigMap.
#[derive(Clone, Debug)]
pub struct ConfigMapContents {
    /// Name of the plugin.
    pub plugin: String,
    /// Namespace of the ConfigMap.
    pub namespace: String,
    /// Name of the ConfigMap.
    pub name: String,
    /// The component, not packed.
    pub component: Bytes,
    /// Text of the settings file; none when there is none.
    pub settings: Option<String>,
    /// Base64 of the signature over the digest.
    pub signature: Option<String>,
}

/// A written ConfigMap and what counts against the bounds of Kubernetes.
#[derive(Clone, Debug)]
pub struct PackedConfigMap {
    /// One YAML document.
    pub yaml: String,
    /// Bytes of the component, packed.
    pub packed: usize,
    /// Bytes of all values, to be compared with [`MAX_CONFIG_MAP`].
    pub size: usize,
    /// Bytes that the annotations have once client-side apply has added its own, to be compared with
    /// [`MAX_ANNOTATIONS`].
    pub client_side_apply: usize,
}

impl ConfigMapContents {
    /// Packs the component and writes the ConfigMap. It is written whether or not it fits.
    ///
    /// # Errors
    /// When zstd fails, which it does only for want of memory.
    pub fn write(&self) -> std::io::Result<PackedConfigMap> {
        // The smallest that is still quick to make; unpacking takes the same time at any level.
        let packed = zstd::encode_all(&self.component[..], 19)?;
        let base64 = STANDARD.encode(&packed);
        let digest = format!("sha256:{}", crate::runtime::digest(&self.component));
        let mut annotations = vec![(DIGEST_ANNOTATION, digest)];
        if let Some(signature) = &self.signature {
            annotations.push((SIGNATURE_ANNOTATION, signature.clone()));
        }
        let mut yaml = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {}\n  namespace: {}\n  labels:\n    {PLUGIN_LABEL}: {}\n  annotations:\n",
            quoted(&self.name),
            quoted(&self.namespace),
            quoted(&self.plugin),
        );
        for (name, value) in &annotations {
            yaml.push_str(&format!("    {name}: {}\n", quoted(value)));
        }
        if let Some(settings) = &self.settings {
            yaml.push_str(&format!("data:\n  {SETTINGS}: {}\n", block(settings)));
        }
        yaml.push_str(&format!("binaryData:\n  {PACKED}: {base64}\n"));

        // kubectl keeps the object as compact JSON, with an empty map of annotations more than it was given at most.
        let last_applied = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": self.name, "namespace": self.namespace, "labels": {PLUGIN_LABEL: self.plugin},
                "annotations": annotations.iter().cloned().collect::<BTreeMap<_, _>>(),
            },
            "data": self.settings.as_ref().map(|settings| BTreeMap::from([(SETTINGS, settings)])),
            "binaryData": {PACKED: base64},
        });
        let own: usize = annotations.iter().map(|(n, v)| n.len() + v.len()).sum();
        Ok(PackedConfigMap {
            yaml,
            packed: packed.len(),
            size: packed.len() + self.settings.as_ref().map_or(0, String::len),
            client_side_apply: own
                + "kubectl.kubernetes.io/last-applied-configuration".len()
                + last_applied.to_string().len()
                + 1,
        })
    }
}

/// A string as YAML; JSON's strings are YAML's.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A text as a YAML block, to be read; quoted where a block would change it.
fn block(text: &str) -> String {
    let plain = |c: char| c == '\n' || !c.is_control();
    let simple = text.ends_with('\n')
        && !text.ends_with("\n\n")
        && !text.starts_with([' ', '\n'])
        && text.chars().all(plain);
    if !simple {
        return quoted(text);
    }
    let lines = text.lines().map(|line| match line {
        "" => "\n".to_owned(),
        line => format!("    {line}\n"),
    });
    format!("|\n{}", lines.collect::<String>().trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use joinery_resource::Mode;
    use serde_json::{Value, json};

    fn contents() -> ConfigMapContents {
        ConfigMapContents {
            plugin: "combined".into(),
            namespace: "joinery-system".into(),
            name: "plugin-combined".into(),
            component: Bytes::from_static(b"a component"),
            settings: Some("mode: live\n\n# a comment: \"kept\"\nsettings:\n  group: a.b\n".into()),
            signature: Some("c2lnbmVk".into()),
        }
    }

    fn parse(object: &Value) -> PluginConfigMap {
        PluginConfigMap::parse(object.to_string().as_bytes())
            .unwrap()
            .unwrap()
    }

    fn written(contents: &ConfigMapContents) -> Value {
        serde_saphyr::from_str(&contents.write().unwrap().yaml).unwrap()
    }

    #[test]
    fn what_is_written_reads_back() {
        let contents = contents();
        let object = written(&contents);
        assert_eq!(
            object["data"]["settings.yaml"].as_str(),
            contents.settings.as_deref()
        );
        let map = parse(&object);
        assert_eq!(
            (map.plugin(), map.namespace(), map.name()),
            ("combined", "joinery-system", "plugin-combined")
        );
        let plugin = map.unpack().unwrap();
        assert_eq!(plugin.name, "combined");
        assert_eq!(plugin.bytes, contents.component);
        assert_eq!(plugin.settings.mode, Mode::Live);
        assert_eq!(plugin.signature, contents.signature);
    }

    #[test]
    fn any_text_of_settings_is_kept() {
        for text in [
            "",
            "a: 1",
            "a: 1\n",
            "  a: 1\n",
            "\na: 1\n",
            "a: 1\n\n",
            "a: 1\r\nb: 2\r\n",
            "a:\n\n\n  b: \t1\n",
            "{\"a\":\"ä😀\\n\"}\n",
        ] {
            let contents = ConfigMapContents {
                settings: Some(text.into()),
                ..contents()
            };
            assert_eq!(
                written(&contents)["data"]["settings.yaml"].as_str(),
                Some(text),
                "{text:?}"
            );
        }
    }

    #[test]
    fn only_labelled_config_maps_are_ours() {
        let mut object = written(&contents());
        object["metadata"]["labels"] = json!({"app": "x"});
        let text = object.to_string();
        assert!(
            PluginConfigMap::parse(text.as_bytes()).unwrap().is_none(),
            "another's"
        );
        object["metadata"]["labels"] = json!({PLUGIN_LABEL: ""});
        let error = PluginConfigMap::parse(object.to_string().as_bytes()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "ConfigMap joinery-system/plugin-combined: label plugins.joinery.dev/plugin: a plugin's name has 1 to 63 \
             letters, digits, '-', '_' and '.'"
        );
        assert!(PluginConfigMap::parse(b"[]").is_err());
    }

    #[test]
    fn each_fault_is_named() {
        let digest = format!("sha256:{}", "0".repeat(64));
        let bomb = zstd::encode_all(std::io::Read::take(std::io::repeat(0), 1 << 26), 1).unwrap();
        for (path, value, words) in [
            (
                "/binaryData",
                json!({}),
                "binaryData needs plugin.wasm.zst or plugin.wasm",
            ),
            ("/binaryData", json!(null), "binaryData needs"),
            (
                "/binaryData",
                json!({PLAIN: "", PACKED: ""}),
                "only one may be there",
            ),
            ("/binaryData", json!({PLAIN: "*"}), "plugin.wasm: "),
            (
                "/binaryData",
                json!({PACKED: "YWJj"}),
                "plugin.wasm.zst: unpacking: ",
            ),
            (
                "/binaryData",
                json!({PACKED: STANDARD.encode(bomb)}),
                "has more than 33554432 bytes",
            ),
            (
                "/data/settings.yaml",
                json!("mode: fast"),
                "settings.yaml: ",
            ),
            (
                "/metadata/annotations/plugins.joinery.dev~1digest",
                json!(digest),
                "plugins.joinery.dev/digest: says sha256:000",
            ),
            (
                "/metadata/annotations/plugins.joinery.dev~1digest",
                json!("md5:0"),
                "plugins.joinery.dev/digest: ",
            ),
        ] {
            let mut object = written(&contents());
            *object.pointer_mut(path).unwrap() = value;
            let error = parse(&object).unpack().unwrap_err().to_string();
            assert!(
                error.starts_with("ConfigMap joinery-system/plugin-combined: ")
                    && error.contains(words),
                "{words}: {error}"
            );
        }
    }

    #[test]
    fn settings_digest_and_signature_may_be_missing() {
        let object = json!({
            "metadata": {"name": "a", "namespace": "b", "labels": {PLUGIN_LABEL: "p"}},
            "binaryData": {PLAIN: STANDARD.encode("code")},
        });
        let plugin = parse(&object).unpack().unwrap();
        assert_eq!(&plugin.bytes[..], b"code");
        assert_eq!(
            (plugin.settings, plugin.signature),
            (HostSettings::default(), None)
        );
    }

    #[test]
    fn sizes_are_those_that_kubernetes_counts() {
        let contents = contents();
        let packed = contents.write().unwrap();
        let object = written(&contents);
        let base64 = object["binaryData"][PACKED].as_str().unwrap();
        assert_eq!(packed.packed, STANDARD.decode(base64).unwrap().len());
        assert_eq!(
            packed.size,
            packed.packed + contents.settings.as_ref().unwrap().len()
        );
        // kubectl's annotation is the object in one line, with a line feed.
        assert!(packed.client_side_apply > object.to_string().len());
        assert!(packed.client_side_apply < object.to_string().len() + 400);
    }
}
