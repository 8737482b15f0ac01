use joinery_sdk::time::{Timestamp, parse_duration};
use serde::Deserialize;
use serde_json::{Map, Value};

/// What a CustomTask may take from its ClusterTask.
const TAKEN: [&str; 3] = ["priority", "details", "deadline"];

/// Whether a CustomTask's spec lacks something that a ClusterTask may have.
pub(crate) fn lacks(spec: &Value) -> bool {
    TAKEN.iter().any(|field| spec[field].is_null())
}

/// The parts of a ClusterTask that matter to those that refer to it.
#[derive(Deserialize)]
pub(crate) struct ClusterTask {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    priority: Option<i64>,
    details: Option<String>,
    deadline_after: Option<String>,
    #[serde(default)]
    suspended: bool,
}

impl ClusterTask {
    /// Why it takes no new reference, if so.
    pub(crate) fn refuses(&self) -> Option<&'static str> {
        if self.metadata.deletion_timestamp.is_some() {
            Some("is being deleted")
        } else if self.spec.suspended {
            Some("is suspended and takes no new references")
        } else {
            None
        }
    }

    /// Fills in what `spec` lacks. The deadline counts from `created`, so that a write which leaves it out a second time
    /// comes to the same.
    pub(crate) fn complete(&self, spec: &mut Map<String, Value>, created: Timestamp) {
        let deadline = self
            .spec
            .deadline_after
            .as_deref()
            .and_then(|text| parse_duration(text).ok());
        let deadline = deadline.and_then(|after| created.checked_add(after));
        let [priority, details, deadline_field] = TAKEN;
        for (field, value) in [
            (priority, self.spec.priority.map(Value::from)),
            (details, self.spec.details.clone().map(Value::from)),
            (
                deadline_field,
                deadline.map(|time| Value::from(time.to_string())),
            ),
        ] {
            if let Some(value) = value
                && spec.get(field).is_none_or(Value::is_null)
            {
                spec.insert(field.to_owned(), value);
            }
        }
    }
}
