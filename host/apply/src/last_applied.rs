//! From client-side to server-side apply, for `kubectl apply --server-side` without another field manager.
//!
//! What kubectl applied client-side it wrote into an annotation, and it owns those fields as updater. Applied
//! server-side by the same kubectl they are no conflicts. Where the annotation is it is kept up to date, so that
//! there is a way back.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::go;
use crate::set::FieldSet;
use crate::typed::{self, Duplicates};
use crate::types::Types;

/// The field manager of kubectl's server-side apply.
pub(crate) const KUBECTL: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Bytes of all annotations together; a greater configuration is not kept.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// The annotations of an object, a null as an empty one. None: there are none, or they are not strings.
fn annotations(object: &Value) -> Option<BTreeMap<String, String>> {
    let annotations = object["metadata"].get("annotations")?;
    let annotations = BTreeMap::<String, Option<String>>::deserialize(annotations).ok()?;
    let each = |(name, text): (String, Option<String>)| (name, text.unwrap_or_default());
    Some(annotations.into_iter().map(each).collect())
}

fn last_applied(object: &Value) -> Option<String> {
    let text = annotations(object)?.remove(ANNOTATION)?;
    (!text.is_empty()).then_some(text)
}

/// The fields that still are as kubectl applied them client-side. None: that is not known.
pub(crate) fn applied_client_side(
    types: &Types,
    api_version: &str,
    live: &Value,
) -> Option<FieldSet> {
    let applied: Value = serde_json::from_str(&last_applied(live)?).ok()?;
    typed::validate(types, live, Duplicates::Refused).ok()?;
    if applied["apiVersion"] != api_version || applied["kind"].as_str().is_none_or(str::is_empty) {
        return None;
    }
    typed::validate(types, &applied, Duplicates::Refused).ok()?;
    let set = typed::field_set(types, &applied);
    let changed = typed::compare(types, &applied, live).ok()?;
    Some(
        set.difference(&changed.modified)
            .difference(&changed.added)
            .difference(&changed.removed),
    )
}

/// Writes what was applied into the annotation, if there is one.
pub(crate) fn refresh(object: &mut Value, applied: &Value) {
    if last_applied(object).is_none() {
        return;
    }
    let mut applied = applied.clone();
    match annotations(&applied) {
        Some(mut annotations) => {
            annotations.remove(ANNOTATION);
            applied["metadata"]["annotations"] = json!(annotations);
        }
        None => {
            if let Some(Value::Object(metadata)) = applied.get_mut("metadata") {
                metadata.remove("annotations");
            }
        }
    }
    let mut all = annotations(object).unwrap_or_default();
    // With the end of line that kubectl writes too.
    all.insert(ANNOTATION.to_owned(), go::json(&applied) + "\n");
    let size: usize = all.iter().map(|(name, text)| name.len() + text.len()).sum();
    if size > MAX_ANNOTATIONS {
        all.remove(ANNOTATION);
    }
    object["metadata"]["annotations"] = json!(all);
}
