//! CustomTask: a task that may refer to a ClusterTask and then takes from it what it lacks.

mod conditions;
mod defaults;
mod describe;

use joinery_sdk::time::Timestamp;
use joinery_sdk::{
    Admission, Cause, Description, Failure, GroupVersion, GroupVersionResource, Kubernetes,
    ObjectKey, Operation, Plugin, Review, Verdict,
};
use serde_json::{Map, Value};

use crate::defaults::ClusterTask;

/// The API group of ClusterTasks and CustomTasks, unless the operator sets another.
const GROUP: &str = "aggregated.tasks.example.com";

/// The plugin.
pub struct CustomTasks {
    settings: GroupVersion,
}

impl Plugin for CustomTasks {
    fn configure(settings: &str) -> Result<Self, String> {
        Ok(Self {
            settings: GroupVersion::from_settings(settings, GROUP, "v1")?,
        })
    }

    fn describe(&self) -> Description {
        describe::description(&self.settings)
    }
}

impl Admission for CustomTasks {
    fn admit(
        &self,
        _resource: &str,
        review: &Review,
        kubernetes: &dyn Kubernetes,
    ) -> Result<Verdict, Failure> {
        if review.operation == Operation::Delete || review.subresource.is_some() {
            return Ok(Verdict::default());
        }
        let mut task = parse(review.object.as_deref())?;
        let old = review
            .old_object
            .as_deref()
            .map(|old| parse(Some(old)))
            .transpose()?;
        // A write of labels or finalizers takes nothing from the ClusterTask, for the spec has been judged. And what is on its way out
        // must be able to lose its finalizers, whatever else has changed meanwhile.
        let judged = old.as_ref().is_some_and(|old| old["spec"] == task["spec"]);
        let going = task
            .pointer("/metadata/deletionTimestamp")
            .is_some_and(Value::is_string);
        if judged && going {
            return Ok(Verdict::default());
        }
        let before = task.clone();
        let what = format!("CustomTask.{} {:?}", self.settings.group, review.key.name);

        let from = if judged {
            None
        } else {
            self.cluster_task(&what, &task, old.as_ref(), kubernetes)?
        };
        let now = Timestamp::from_millis(review.now);
        let created = task
            .pointer("/metadata/creationTimestamp")
            .and_then(Value::as_str)
            .and_then(Timestamp::parse);
        let spec = child(&mut task, "spec");
        if let Some(from) = &from {
            from.complete(spec, created.unwrap_or(now));
        }
        let deadline = check(&what, spec)?;
        let mut warnings = Vec::new();
        if review.operation == Operation::Create && deadline.is_some_and(|deadline| deadline <= now)
        {
            warnings.push("spec.deadline: has already passed".to_owned());
        }
        conditions::write(&mut task, now);
        let object = (task != before).then(|| task.to_string().into_bytes());
        Ok(Verdict { object, warnings })
    }
}

impl CustomTasks {
    /// The ClusterTask that the task takes from; none when it refers to none, or needs nothing of the one that it has
    /// referred to before.
    fn cluster_task(
        &self,
        what: &str,
        task: &Value,
        old: Option<&Value>,
        kubernetes: &dyn Kubernetes,
    ) -> Result<Option<ClusterTask>, Failure> {
        const REF: &str = "/spec/clusterTaskRef/name";
        const FIELD: &str = "spec.clusterTaskRef.name";
        let Some(name) = task.pointer(REF).and_then(Value::as_str) else {
            return Ok(None);
        };
        let new = old.and_then(|old| old.pointer(REF)).and_then(Value::as_str) != Some(name);
        if !new && !defaults::lacks(&task["spec"]) {
            return Ok(None);
        }
        let GroupVersion { group, version } = &self.settings;
        let found = kubernetes.get(
            &GroupVersionResource::new(group, version, "clustertasks"),
            &ObjectKey {
                namespace: None,
                name: name.to_owned(),
            },
        )?;
        let Some(found) = found else {
            return if new {
                Err(Failure::invalid(what, vec![Cause::not_found(FIELD, name)]))
            } else {
                Ok(None)
            };
        };
        let found: ClusterTask = serde_json::from_slice(&found).map_err(|error| {
            Failure::internal(format!("unreadable ClusterTask {name:?}: {error}"))
        })?;
        if new && let Some(why) = found.refuses() {
            let detail = format!("ClusterTask {name:?} {why}");
            return Err(Failure::invalid(
                what,
                vec![Cause::forbidden(FIELD, &detail)],
            ));
        }
        Ok(Some(found))
    }
}

fn parse(object: Option<&[u8]>) -> Result<Value, Failure> {
    let object = object.ok_or_else(|| Failure::internal("a write without an object"))?;
    match serde_json::from_slice(object) {
        Ok(task @ Value::Object(_)) => Ok(task),
        Ok(_) => Err(Failure::new("BadRequest", "a CustomTask is a JSON object")),
        Err(error) => Err(Failure::new(
            "BadRequest",
            format!("unreadable CustomTask: {error}"),
        )),
    }
}

/// A member that is an object, made if it is missing.
fn child<'a>(object: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    if !object[name].is_object() {
        object[name] = Value::Object(Map::new());
    }
    match &mut object[name] {
        Value::Object(map) => map,
        _ => unreachable!("made above"),
    }
}

/// What must hold once all defaults are in; the deadline, if there is one.
fn check(what: &str, spec: &Map<String, Value>) -> Result<Option<Timestamp>, Failure> {
    let mut causes = Vec::new();
    if !spec.get("priority").is_some_and(Value::is_number) {
        let detail = "from 0 to 10, here or in the ClusterTask of spec.clusterTaskRef";
        causes.push(Cause::required("spec.priority", detail));
    }
    let deadline = spec.get("deadline").and_then(Value::as_str);
    let time = deadline.and_then(Timestamp::parse);
    if let (Some(text), None) = (deadline, time) {
        let detail = "a time as of RFC 3339, such as \"2030-01-31T12:00:00Z\"";
        causes.push(Cause::invalid("spec.deadline", text, detail));
    }
    if causes.is_empty() {
        Ok(time)
    } else {
        Err(Failure::invalid(what, causes))
    }
}

joinery_sdk::export_admission!(CustomTasks);

#[cfg(test)]
mod tests;
