//! A sequence of writes to one object, and what this crate makes of it.

use joinery_apply::{FieldManager, Writer};
use joinery_schema::StructuralSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) const API_VERSION: &str = "example.com/v1";
pub(crate) const KIND: &str = "Thing";

/// What the oracle is asked.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Case {
    #[serde(skip)]
    pub(crate) name: String,
    pub(crate) schema: Option<Value>,
    pub(crate) status_subresource: bool,
    pub(crate) steps: Vec<Step>,
}

impl Case {
    /// With its steps up to this one.
    pub(crate) fn until(&self, step: usize) -> Self {
        let mut case = self.clone();
        case.steps.truncate(step + 1);
        case
    }
}

#[derive(Clone, Default, Serialize)]
pub(crate) struct Step {
    pub(crate) apply: bool,
    pub(crate) object: Value,
    pub(crate) manager: String,
    pub(crate) subresource: String,
    pub(crate) force: bool,
    /// Set when the step is run.
    pub(crate) now: String,
}

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// As it is stored after the step.
    pub(crate) object: Option<Value>,
    /// What the applier owns of it.
    pub(crate) extracted: Option<Value>,
    pub(crate) untracked: Option<String>,
    pub(crate) error: Option<Failure>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) code: u16,
    pub(crate) message: String,
    pub(crate) causes: Option<Vec<Cause>>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Cause {
    reason: String,
    message: String,
    field: String,
}

impl Answer {
    /// None: they are the same.
    pub(crate) fn difference(&self, theirs: &Answer) -> Option<&'static str> {
        match (&self.error, &theirs.error) {
            (None, None) => {}
            (Some(ours), Some(theirs)) => return ours.difference(theirs),
            _ => return Some("only one refuses"),
        }
        if self.untracked.is_some() != theirs.untracked.is_some() {
            return Some("only one gives up on the owners");
        }
        // They extract nothing where items are equal.
        if theirs.extracted.is_some() && self.extracted != theirs.extracted {
            return Some("what the applier owns is different");
        }
        (self.object != theirs.object).then_some("the objects are different")
    }
}

impl Failure {
    fn difference(&self, theirs: &Failure) -> Option<&'static str> {
        if self.code == 409 || theirs.code == 409 {
            let sorted = |failure: &Failure| {
                let mut causes: Vec<_> = failure.causes.iter().flatten().collect::<Vec<_>>();
                causes.sort();
                serde_json::to_value(causes).unwrap()
            };
            if self.code != theirs.code || sorted(self) != sorted(theirs) {
                return Some("the conflicts are different");
            }
            return (self.message != theirs.message).then_some("the messages are different");
        }
        // They print values as Go has them in memory, and of several errors first the one that chance has. What is wrong
        // with a stored object is for the log.
        let comparable = |failure: &Failure| {
            let message = &failure.message;
            failure.code != 500 && !message.contains(", got ") && !message.contains('\n')
        };
        (comparable(self) && comparable(theirs) && self.message != theirs.message)
            .then_some("the errors are different")
    }
}

/// A case that grows step by step, each of which may depend on what the object has become.
pub(crate) struct Sequence {
    pub(crate) case: Case,
    pub(crate) answers: Vec<Answer>,
    pub(crate) live: Option<Value>,
    manager: FieldManager,
}

impl Sequence {
    pub(crate) fn new(name: String, schema: Option<&Value>, status_subresource: bool) -> Self {
        let parsed = schema.map(|schema| StructuralSchema::from_value(schema.clone()).unwrap());
        Self {
            manager: FieldManager::new(parsed.as_ref(), API_VERSION, KIND, status_subresource),
            case: Case {
                name,
                schema: schema.cloned(),
                status_subresource,
                steps: Vec::new(),
            },
            answers: Vec::new(),
            live: None,
        }
    }

    /// Runs a step, an hour after the one before.
    pub(crate) fn step(&mut self, mut step: Step) {
        let hours = u64::try_from(self.case.steps.len()).unwrap();
        // 2020-01-01, when the oracle's clock has long passed.
        let now = 1_577_836_800 + hours * 3600;
        step.now = format!("2020-01-{:02}T{:02}:00:00Z", 1 + hours / 24, hours % 24);
        let writer = Writer {
            manager: &step.manager,
            subresource: Some(step.subresource.as_str()).filter(|name| !name.is_empty()),
            now: now * 1000,
        };
        let live = self.live.as_ref();
        let mut answer = Answer::default();
        let object = if step.apply {
            match self.manager.apply(live, &step.object, &writer, step.force) {
                Ok(object) => Some(object),
                Err(status) => {
                    let causes = status
                        .details
                        .into_iter()
                        .flat_map(|details| details.causes);
                    let causes = causes.map(|cause| Cause {
                        reason: cause.reason.into_owned(),
                        message: cause.message,
                        field: cause.field,
                    });
                    answer.error = Some(Failure {
                        code: status.code,
                        message: status.message,
                        causes: Some(causes.collect()),
                    });
                    None
                }
            }
        } else {
            let mut object = step.object.clone();
            let tracked = self.manager.update(live, &mut object, &writer);
            answer.untracked = tracked.err().map(|error| error.to_string());
            Some(object)
        };
        if let Some(mut object) = object {
            self.reset(&mut object, &step.subresource);
            object["metadata"]["uid"] = "1".into();
            if step.apply {
                let extracted = self
                    .manager
                    .extract(&object, &step.manager, writer.subresource);
                // The oracle leaves out what names the kind.
                answer.extracted = extracted.map(|mut extracted| {
                    let members = extracted.as_object_mut().unwrap();
                    members.remove("apiVersion");
                    members.remove("kind");
                    extracted
                });
            }
            answer.object = Some(object.clone());
            self.live = Some(object);
        }
        self.case.steps.push(step);
        self.answers.push(answer);
    }

    /// What a write cannot change stays as it is.
    fn reset(&self, object: &mut Value, subresource: &str) {
        let copy = |to: &mut Value, from: Option<&Value>, name: &str| {
            to.as_object_mut().unwrap().remove(name);
            if let Some(value) = from.and_then(|from| from.get(name)) {
                to[name] = value.clone();
            }
        };
        if subresource == "status" {
            let mut updated = self.live.clone().unwrap();
            copy(
                &mut updated["metadata"],
                Some(&object["metadata"]),
                "managedFields",
            );
            copy(&mut updated, Some(object), "status");
            *object = updated;
        } else if self.case.status_subresource {
            copy(object, self.live.as_ref(), "status");
        }
    }
}

/// An object with these members besides those that each has.
pub(crate) fn thing(members: &Value) -> Value {
    let mut object = json!({
        "apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "thing", "namespace": "default"},
    });
    for (name, value) in members.as_object().unwrap() {
        if name == "metadata" {
            for (name, value) in value.as_object().unwrap() {
                object["metadata"][name] = value.clone();
            }
        } else {
            object[name] = value.clone();
        }
    }
    object
}
