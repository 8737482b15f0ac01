//! Writes that change nothing but times.

use serde_json::Value;

use crate::managed::{self, MANAGED_FIELDS};

/// Gives the managedFields of `new` the times that they have in `old`, if else the objects are equal: a write that
/// changes nothing is no write.
///
/// Follows `IgnoreManagedFieldsTimestampsTransformer` of k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager.
pub fn keep_times(new: &mut Value, old: &Value) {
    let (entries, before) = (
        &new["metadata"][MANAGED_FIELDS],
        &old["metadata"][MANAGED_FIELDS],
    );
    if without_times(entries) != without_times(before) {
        return;
    }
    let stripped = |object: &Value| {
        let mut object = object.clone();
        managed::strip(&mut object);
        object
    };
    if stripped(new) == stripped(old) {
        *new = old.clone();
    }
}

fn without_times(entries: &Value) -> Value {
    let mut entries = entries.clone();
    for entry in entries.as_array_mut().into_iter().flatten() {
        if let Value::Object(entry) = entry {
            entry.remove("time");
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: u32, manager: &str, time: &str) -> Value {
        json!({"spec": {"a": value}, "metadata": {"name": "a", "managedFields": [
            {"manager": manager, "time": time, "fieldsV1": {"f:spec": {}}}]}})
    }

    #[test]
    fn only_an_object_that_else_is_the_same_gets_its_times_back() {
        let old = object(1, "m", "2026-01-01T00:00:00Z");
        for (value, manager, time) in [
            (1, "m", "2026-01-01T00:00:00Z"),
            (2, "m", "2026-01-02T00:00:00Z"),
            (1, "n", "2026-01-02T00:00:00Z"),
        ] {
            let mut new = object(value, manager, "2026-01-02T00:00:00Z");
            keep_times(&mut new, &old);
            assert_eq!(new, object(value, manager, time));
        }
    }
}
