//! `metadata.managedFields`: who owns what, as clients see it and as it is computed with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::set::FieldSet;

pub(crate) const MANAGED_FIELDS: &str = "managedFields";
const FIELDS_V1: &str = "FieldsV1";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Operation {
    Apply,
    Update,
}

/// What makes an entry one of its own. An applier has one entry whatever version it applies in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ManagerId {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) manager: String,
    pub(crate) operation: Operation,
    /// Empty for appliers.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) api_version: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) subresource: String,
}

impl ManagerId {
    /// What upstream tells entries apart by, and sorts them by.
    pub(crate) fn identifier(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What one manager owns.
#[derive(Clone, Debug)]
pub(crate) struct Owned {
    pub(crate) set: FieldSet,
    pub(crate) api_version: String,
    /// Seconds since 1970 of the last change.
    pub(crate) time: Option<i64>,
}

/// Who owns what.
pub(crate) type Managed = BTreeMap<ManagerId, Owned>;

/// One entry, as `metav1.ManagedFieldsEntry` has it.
#[derive(Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Entry {
    manager: String,
    operation: String,
    api_version: String,
    time: Option<String>,
    fields_type: String,
    fields_v1: Option<Value>,
    subresource: String,
}

/// The entries of an object. None: there are none, or they are not even of the right types.
fn entries(object: &Value) -> Option<Vec<Entry>> {
    let entries = object["metadata"][MANAGED_FIELDS].as_array()?;
    let entries = entries.iter().map(|entry| {
        // A null member is as one that is not there.
        let members = entry
            .as_object()?
            .iter()
            .filter(|(_, value)| !value.is_null());
        let members: Map<_, _> = members.map(|(k, v)| (k.clone(), v.clone())).collect();
        let entry = Entry::deserialize(Value::Object(members)).ok()?;
        let time = entry.time.as_deref();
        (time.is_none() || time.and_then(seconds).is_some()).then_some(entry)
    });
    entries.collect()
}

/// What is owned of an object.
///
/// # Errors
/// An entry that cannot be understood.
pub(crate) fn decode(object: &Value) -> Result<Managed, String> {
    let mut managed = Managed::new();
    for (index, entry) in entries(object).into_iter().flatten().enumerate() {
        let operation = match entry.operation.as_str() {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        if entry.api_version.is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match entry.fields_type.as_str() {
            FIELDS_V1 => {}
            "" => {
                return Err(format!(
                    "missing fieldsType in managed fields entry {index}"
                ));
            }
            other => {
                return Err(format!(
                    "invalid fieldsType {other:?} in managed fields entry {index}"
                ));
            }
        }
        let set = match &entry.fields_v1 {
            Some(fields) => FieldSet::decode(fields)
                .map_err(|error| format!("error decoding managed fields entry {index}: {error}"))?,
            None => FieldSet::default(),
        };
        let id = ManagerId {
            manager: entry.manager,
            operation,
            api_version: match operation {
                Operation::Apply => String::new(),
                Operation::Update => entry.api_version.clone(),
            },
            subresource: entry.subresource,
        };
        let owned = Owned {
            set,
            api_version: entry.api_version,
            time: entry.time.as_deref().and_then(seconds),
        };
        managed.insert(id, owned);
    }
    Ok(managed)
}

/// What is owned before an update is looked at: what the request says, unless it says nothing sensible.
///
/// Clients may edit managedFields, and reset them with one empty entry. Those that do not know of them must not lose
/// them: then those of the stored object hold. `ignore_request`: a subresource cannot change them.
pub(crate) fn of_request(live: Option<&Value>, new: &Value, ignore_request: bool) -> Managed {
    let live = || live.and_then(|live| decode(live).ok()).unwrap_or_default();
    if ignore_request {
        return live();
    }
    if entries(new).is_some_and(|entries| entries.as_slice() == [Entry::default()]) {
        return Managed::new();
    }
    match decode(new) {
        Ok(managed) if !managed.is_empty() => managed,
        _ => live(),
    }
}

/// Takes them out of an object, so that they are not themselves a part of what is managed.
pub(crate) fn strip(object: &mut Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove(MANAGED_FIELDS);
    }
}

/// Puts them into an object: sorted by operation, time and name.
pub(crate) fn encode(object: &mut Value, managed: &Managed) {
    strip(object);
    let Value::Object(members) = object else {
        return;
    };
    if managed.is_empty() {
        return;
    }
    let metadata = members
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    let Value::Object(metadata) = metadata else {
        return;
    };
    let mut sorted: Vec<_> = managed.iter().collect();
    sorted.sort_by(|(left, l), (right, r)| {
        (left.operation.cmp(&right.operation))
            .then_with(|| l.time.unwrap_or(0).cmp(&r.time.unwrap_or(0)))
            .then_with(|| left.manager.cmp(&right.manager))
            .then_with(|| l.api_version.cmp(&r.api_version))
            .then_with(|| left.subresource.cmp(&right.subresource))
    });
    let entries: Vec<Value> = sorted
        .into_iter()
        .map(|(id, owned)| encode_entry(id, owned))
        .collect();
    metadata.insert(MANAGED_FIELDS.to_owned(), Value::Array(entries));
}

fn encode_entry(id: &ManagerId, owned: &Owned) -> Value {
    let mut entry = json!({
        "operation": id.operation, "apiVersion": owned.api_version,
        "fieldsType": FIELDS_V1, "fieldsV1": owned.set.encode(),
    });
    for (name, value) in [("manager", &id.manager), ("subresource", &id.subresource)] {
        if !value.is_empty() {
            entry[name] = value.as_str().into();
        }
    }
    if let Some(time) = owned.time {
        entry["time"] = timestamp(time).into();
    }
    entry
}

/// Seconds since 1970 of an RFC 3339 time.
fn seconds(time: &str) -> Option<i64> {
    Some(time.parse::<jiff::Timestamp>().ok()?.as_second())
}

fn timestamp(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds)
        .unwrap_or_default()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(entries: Value) -> Value {
        json!({"metadata": {"name": "a", "managedFields": entries}})
    }

    fn entry(manager: &str, operation: &str) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
            "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:a": {}}}})
    }

    #[test]
    fn entries_read_back_as_they_were_sorted() {
        let mut late = entry("a", "Update");
        late["time"] = "2026-01-02T01:00:00+01:00".into();
        late["subresource"] = "status".into();
        let read = object(json!([late, entry("b", "Update"), entry("c", "Apply")]));
        let mut object = read.clone();
        encode(&mut object, &decode(&read).unwrap());
        late["time"] = "2026-01-02T00:00:00Z".into();
        assert_eq!(
            object["metadata"]["managedFields"],
            json!([entry("c", "Apply"), entry("b", "Update"), late])
        );
    }

    #[test]
    fn who_applies_in_another_version_stays_one_manager() {
        let mut other = entry("a", "Apply");
        other["apiVersion"] = "v2".into();
        let managed = decode(&object(json!([entry("a", "Apply"), other]))).unwrap();
        assert_eq!(managed.len(), 1);
        let mut other = entry("a", "Update");
        other["apiVersion"] = "v2".into();
        let managed = decode(&object(json!([entry("a", "Update"), other]))).unwrap();
        assert_eq!(managed.len(), 2);
    }

    #[test]
    fn what_a_request_says_of_owners_holds_if_it_makes_sense() {
        let live = object(json!([entry("live", "Update")]));
        let owners = |new: Value, subresource: bool| -> Vec<String> {
            let managed = of_request(Some(&live), &object(new), subresource);
            managed.into_keys().map(|id| id.manager).collect()
        };
        assert_eq!(owners(json!([entry("new", "Update")]), false), ["new"]);
        assert_eq!(owners(json!([entry("new", "Update")]), true), ["live"]);
        assert!(owners(json!([{}]), false).is_empty());
        assert_eq!(owners(json!([{}]), true), ["live"]);
        for nonsense in [
            json!([]),
            json!(null),
            json!([entry("new", "Patch")]),
            json!([{"manager": 1}]),
            json!([entry("new", "Update"), {"time": "yesterday"}]),
            json!([{"manager": "new", "operation": "Update", "apiVersion": "v1"}]),
            json!([{"manager": "new", "operation": "Update", "fieldsType": "FieldsV1"}]),
        ] {
            assert_eq!(owners(nonsense.clone(), false), ["live"], "{nonsense}");
        }
    }
}
