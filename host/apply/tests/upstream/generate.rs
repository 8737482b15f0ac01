//! Random writes. There are few names and values, so that writers meet.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Map, Value, json};

use crate::sequence::{API_VERSION, Sequence, Step, thing};

const STEPS: usize = 12;

pub(crate) fn sequence(name: &str, schema: Option<&Value>, seed: u64) -> Sequence {
    let status_subresource = !seed.is_multiple_of(3);
    let mut sequence = Sequence::new(format!("{name} {seed}"), schema, status_subresource);
    let crowd = seed.is_multiple_of(5);
    let mut generator = Generator {
        rng: StdRng::seed_from_u64(seed),
        schema: schema.cloned().unwrap_or_else(|| {
            json!({"type": "object", "properties": {
                "spec": {"x-kubernetes-preserve-unknown-fields": true, "type": "object"},
                "status": {"x-kubernetes-preserve-unknown-fields": true, "type": "object"}}})
        }),
        managers: if crowd {
            (0..16).map(|i| format!("manager-{i:02}")).collect()
        } else {
            ["alice", "bob", "carol", "kubectl"]
                .map(str::to_owned)
                .to_vec()
        },
        applied: BTreeMap::new(),
        sloppy: seed % 4 == 1,
    };
    for _ in 0..if crowd { 2 * STEPS } else { STEPS } {
        let step = generator.step(&sequence);
        sequence.step(step);
    }
    sequence
}

struct Generator {
    rng: StdRng,
    schema: Value,
    managers: Vec<String>,
    /// What each manager applied last.
    applied: BTreeMap<String, Value>,
    /// Writes what is not as the schema has it, now and then.
    sloppy: bool,
}

impl Generator {
    fn step(&mut self, sequence: &Sequence) -> Step {
        let manager = self.managers.choose(&mut self.rng).unwrap().clone();
        let status = sequence.live.is_some()
            && sequence.case.status_subresource
            && self.rng.random_bool(0.2);
        let mut step = Step {
            manager,
            subresource: if status { "status" } else { "" }.to_owned(),
            force: self.rng.random_bool(0.4),
            apply: self.rng.random_bool(0.6),
            ..Step::default()
        };
        if step.apply {
            step.object = self.config(sequence, &step);
            let key = format!("{}/{}", step.manager, step.subresource);
            self.applied.insert(key, step.object.clone());
        } else {
            step.object = self.updated(sequence.live.as_ref());
            if self.rng.random_bool(0.1) {
                step.manager = String::new();
            }
        }
        step
    }

    fn config(&mut self, sequence: &Sequence, step: &Step) -> Value {
        let last = self
            .applied
            .get(&format!("{}/{}", step.manager, step.subresource));
        let choice = self.rng.random_range(0..10);
        match (last.cloned(), &sequence.live) {
            (Some(last), _) if choice < 2 => last,
            (Some(last), _) if choice < 6 => self.changed(&last),
            (_, Some(live)) if choice == 6 => {
                // A part of what is there.
                let mut part = self.changed(live);
                part["metadata"]
                    .as_object_mut()
                    .unwrap()
                    .retain(|name, _| !matches!(name.as_str(), "managedFields" | "uid"));
                part
            }
            _ => self.fresh(),
        }
    }

    fn updated(&mut self, live: Option<&Value>) -> Value {
        let Some(live) = live else {
            return self.fresh();
        };
        let mut object = if self.rng.random_bool(0.1) {
            live.clone()
        } else {
            self.changed(live)
        };
        let managed = &mut object["metadata"]["managedFields"];
        match self.rng.random_range(0..30) {
            0 => *managed = json!([{}]),
            1 => *managed = json!([{"manager": "x", "operation": "Patch"}]),
            2 => *managed = Value::Null,
            3 => {
                if let Some(entries) = managed.as_array_mut() {
                    entries.pop();
                }
            }
            4 => {
                let entry = json!({
                    "manager": "editor", "operation": "Apply", "apiVersion": API_VERSION, "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": {".": {}, "f:title": {}, "f:any": {"f:x": {}}, "f:selector": {"f:a": {}}}},
                    "time": "2019-01-01T00:00:00Z"});
                let old = json!({
                    "manager": "old", "operation": "Update", "apiVersion": "example.com/v0", "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": {}}});
                *managed = json!([entry, old]);
            }
            _ => {}
        }
        if managed.as_array().is_some_and(Vec::is_empty) || managed.is_null() {
            // Decoding a custom resource drops an empty list.
            object["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("managedFields");
        }
        if self.rng.random_bool(0.1) {
            let mut applied = self.changed(&object);
            applied["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("managedFields");
            let annotations = &mut object["metadata"]["annotations"];
            if !annotations.is_object() {
                *annotations = json!({});
            }
            annotations["kubectl.kubernetes.io/last-applied-configuration"] =
                applied.to_string().into();
        }
        object
    }

    fn fresh(&mut self) -> Value {
        let schema = self.schema.clone();
        let members = self.object(&schema);
        let mut object = thing(&members);
        self.metadata(&mut object["metadata"]);
        object
    }

    fn metadata(&mut self, metadata: &mut Value) {
        let strings = json!({"type": "object", "additionalProperties": {"type": "string"}});
        for name in ["labels", "annotations"] {
            if self.rng.random_bool(0.2) {
                metadata[name] = self.value(&strings);
            }
        }
        if self.rng.random_bool(0.2) {
            let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
            metadata["finalizers"] = self.value(&set);
        }
        if self.rng.random_bool(0.2) {
            let name = self.string();
            metadata["ownerReferences"] =
                json!([{"apiVersion": "v1", "kind": "K", "name": name, "uid": self.string()}]);
        }
    }

    /// An object with some of its members as in another.
    fn changed(&mut self, object: &Value) -> Value {
        let mut other = self.fresh();
        let mut metadata = object["metadata"].clone();
        self.mix(&mut metadata, &other["metadata"]);
        other["metadata"].take();
        let mut object = object.clone();
        self.mix(&mut object, &other);
        for name in ["name", "namespace", "uid"] {
            let value = match name {
                "name" => Some("thing".into()),
                "namespace" => Some("default".into()),
                _ => metadata.get(name).cloned(),
            };
            if let Some(value) = value {
                metadata[name] = value;
            }
        }
        object["metadata"] = metadata;
        object["apiVersion"] = API_VERSION.into();
        object["kind"] = "Thing".into();
        object
    }

    fn mix(&mut self, value: &mut Value, other: &Value) {
        match (&mut *value, other) {
            (Value::Object(members), Value::Object(others)) => {
                let names: Vec<_> = members.keys().chain(others.keys()).cloned().collect();
                for name in names {
                    match (self.rng.random_range(0..10), others.get(&name)) {
                        (0, _) if name != "managedFields" => {
                            members.remove(&name);
                        }
                        (1..4, Some(other)) => {
                            let member = members.entry(name).or_insert_with(|| other.clone());
                            self.mix(member, other);
                        }
                        (4, Some(other)) => {
                            members.insert(name, other.clone());
                        }
                        _ => {}
                    }
                }
            }
            (Value::Array(items), Value::Array(others)) => match self.rng.random_range(0..6) {
                0 => items.clone_from(others),
                4 | 5 => {
                    let item = items.iter_mut().filter(|item| item.is_object());
                    let other = others.choose(&mut self.rng).cloned();
                    if let (Some(item), Some(mut other)) = (item.last(), other) {
                        // It stays the item that it is.
                        for key in ["name", "port", "protocol", "type", "id"] {
                            if let Some(other) = other.as_object_mut() {
                                other.remove(key);
                                other.extend(
                                    item.get(key).map(|value| (key.to_owned(), value.clone())),
                                );
                            }
                        }
                        *item = other;
                    }
                }
                1 if !items.is_empty() => {
                    items.remove(self.rng.random_range(0..items.len()));
                }
                2 => items.reverse(),
                _ => {
                    let new = others.iter().filter(|other| !items.contains(other));
                    let new: Vec<_> = new.cloned().collect();
                    // Items of equal keys are not applied together.
                    if new.iter().all(|item| !item.is_object()) {
                        items.extend(new);
                    }
                }
            },
            _ => {
                if self.rng.random_bool(0.3) {
                    *value = other.clone();
                }
            }
        }
    }

    fn value(&mut self, schema: &Value) -> Value {
        if self.rng.random_bool(0.02) {
            return Value::Null;
        }
        if self.sloppy && self.rng.random_bool(0.004) {
            return [
                json!("wrong"),
                json!(1),
                json!(["wrong"]),
                json!({"wrong": 1}),
            ]
            .choose(&mut self.rng)
            .unwrap()
            .clone();
        }
        match schema["type"].as_str() {
            Some("object") => self.object(schema),
            Some("array") => self.array(schema),
            Some("integer") => [0, 1, 2, 3, 1_000_000]
                .choose(&mut self.rng)
                .copied()
                .into(),
            Some("number") => [json!(0.5), json!(1), json!(2), json!(1.5)]
                .choose(&mut self.rng)
                .unwrap()
                .clone(),
            Some("boolean") => self.rng.random::<bool>().into(),
            Some(_) if schema["format"] == "date-time" => "2026-01-01T00:00:00Z".into(),
            Some(_) => self.string().into(),
            None if schema["x-kubernetes-int-or-string"] == true => {
                [json!(1), json!("a"), json!("50%")]
                    .choose(&mut self.rng)
                    .unwrap()
                    .clone()
            }
            None => self.anything(2),
        }
    }

    fn string(&mut self) -> String {
        let strings = ["a", "b", "c", "d", "<&>", "\"é\n"];
        (*strings.choose(&mut self.rng).unwrap()).to_owned()
    }

    fn object(&mut self, schema: &Value) -> Value {
        let mut out = Map::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let required = schema["required"]
                .as_array()
                .is_some_and(|r| r.contains(&json!(name)));
            if required || self.rng.random_bool(0.45) {
                out.insert(name.clone(), self.value(property));
            }
        }
        if let Some(additional) = schema.get("additionalProperties") {
            for _ in 0..self.rng.random_range(0..3) {
                out.insert(self.string(), self.value(additional));
            }
        }
        if schema["x-kubernetes-embedded-resource"] == true {
            out.insert("apiVersion".to_owned(), "v1".into());
            out.insert("kind".to_owned(), "K".into());
            let mut metadata = json!({});
            self.metadata(&mut metadata);
            out.insert("metadata".to_owned(), metadata);
        }
        if schema["x-kubernetes-preserve-unknown-fields"] == true {
            for _ in 0..self.rng.random_range(0..3) {
                let name = ["x", "y", "z"].choose(&mut self.rng).unwrap();
                out.insert((*name).to_owned(), self.anything(2));
            }
        } else if self.sloppy && self.rng.random_bool(0.01) {
            out.insert("undeclared".to_owned(), 1.into());
        }
        Value::Object(out)
    }

    fn array(&mut self, schema: &Value) -> Value {
        let mut out: Vec<Value> = Vec::new();
        let keys: Vec<&str> = schema["x-kubernetes-list-map-keys"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let granular = matches!(
            schema["x-kubernetes-list-type"].as_str(),
            Some("set" | "map")
        );
        for _ in 0..self.rng.random_range(0..4) {
            let item = self.value(&schema["items"]);
            let key = |item: &Value| -> Vec<Value> {
                if keys.is_empty() {
                    return vec![item.clone()];
                }
                let default = |name: &str| schema["items"]["properties"][name]["default"].clone();
                keys.iter()
                    .map(|name| item.get(name).cloned().unwrap_or_else(|| default(name)))
                    .collect()
            };
            let repeated = granular && out.iter().any(|other| key(other) == key(&item));
            let broken = granular && (item.is_null() || key(&item).contains(&Value::Null));
            if (!repeated && !broken) || (self.sloppy && self.rng.random_bool(0.2)) {
                out.push(item);
            }
        }
        Value::Array(out)
    }

    fn anything(&mut self, depth: u32) -> Value {
        match self.rng.random_range(0..if depth == 0 { 3 } else { 6 }) {
            0 => self.string().into(),
            1 => 1.into(),
            2 => true.into(),
            3 => Value::Array(vec![self.anything(depth - 1), self.anything(depth - 1)]),
            _ => {
                let mut out = Map::new();
                for name in ["x", "y"] {
                    if self.rng.random_bool(0.5) {
                        out.insert(name.to_owned(), self.anything(depth - 1));
                    }
                }
                Value::Object(out)
            }
        }
    }
}
