//! What the rules of a stored resource find when they look something up: the objects of the files.

use std::cmp::Ordering;

use async_trait::async_trait;
use bytes::Bytes;
use joinery_object::{FieldSelector, GroupVersionResource, LabelSelector, ObjectKey, Status};
use joinery_resource::{Lookup, LookupList};
use serde_json::Value;

use super::inputs::{field, is_of};

/// Objects from files.
pub(crate) struct FileLookup(pub(crate) Vec<Value>);

fn key(object: &Value) -> (&str, &str) {
    let metadata = &object["metadata"];
    (
        metadata["namespace"].as_str().unwrap_or_default(),
        metadata["name"].as_str().unwrap_or_default(),
    )
}

#[async_trait]
impl Lookup for FileLookup {
    async fn get(
        &self,
        gvr: &GroupVersionResource,
        wanted: &ObjectKey,
    ) -> Result<Option<Bytes>, Status> {
        let wanted = (
            wanted.namespace.as_deref().unwrap_or_default(),
            &*wanted.name,
        );
        let found = self
            .0
            .iter()
            .find(|object| is_of(gvr, object) && key(object) == wanted);
        Ok(found.map(|object| object.to_string().into()))
    }

    async fn list(
        &self,
        gvr: &GroupVersionResource,
        options: &LookupList,
    ) -> Result<(Vec<Bytes>, bool), Status> {
        let labels: LabelSelector = options.label_selector.parse()?;
        let fields: FieldSelector = options.field_selector.parse()?;
        let mut found: Vec<&Value> = self
            .0
            .iter()
            .filter(|object| {
                let label = |name: &str| object["metadata"]["labels"][name].as_str();
                is_of(gvr, object)
                    && options
                        .namespace
                        .as_deref()
                        .is_none_or(|n| n == key(object).0)
                    && labels.matches(label)
                    && fields_match(&fields, object)
            })
            .collect();
        found.sort_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(Ordering::Equal));
        let limit = match options.limit {
            0 => usize::MAX,
            limit => limit as usize,
        };
        let truncated = found.len() > limit;
        let items = found.into_iter().take(limit);
        Ok((
            items.map(|object| object.to_string().into()).collect(),
            truncated,
        ))
    }
}

/// Whether a field selector holds for an object; any field can be asked for.
pub(crate) fn fields_match(selector: &FieldSelector, object: &Value) -> bool {
    let values: Vec<(String, String)> = selector
        .requirements()
        .iter()
        .map(|requirement| {
            let name = requirement.field.clone();
            let value = field(object, &name).unwrap_or_default();
            (name, value)
        })
        .collect();
    selector.matches(|name| {
        let found = values.iter().find(|(field, _)| field == name);
        found.map(|(_, value)| value.as_str())
    })
}
