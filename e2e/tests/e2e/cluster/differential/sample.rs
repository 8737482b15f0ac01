//! sample-apiserver, whose Flunders have another schema: what of an answer is compared with it.

use std::time::{Duration, Instant};

use joinery_e2e::{Environment, Peer};
use serde_json::Value;

use super::answer::{Answer, Body};
use crate::client::Client;

/// A running one.
pub(super) struct Sample {
    peer: Peer,
    pub(super) client: Client,
}

impl Sample {
    /// Starts it; [`Sample::wait`] before it is used. None where it is not among the programs of the control plane.
    pub(super) fn start(environment: &Environment) -> Option<Sample> {
        let peer = environment.sample_apiserver().unwrap()?;
        let client = Client::direct(environment).at(&peer.url());
        Some(Sample { peer, client })
    }

    /// Until it answers, and knows who asks: it reads whom to believe after it is ready.
    pub(super) fn wait(&self) {
        const FLUNDERS: &str = "/apis/wardle.example.com/v1alpha1/flunders";
        const PATIENCE: Duration = Duration::from_secs(60);
        let begun = Instant::now();
        loop {
            self.peer.check().unwrap();
            if let Ok(mut connection) = self.client.try_connect()
                && let Ok(answer) = connection.send("GET", FLUNDERS, &[], "")
                && answer.status == 200
            {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "sample-apiserver is not ready");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The answer without what follows from the schema: spec and status, who owns their fields, the generation (which only custom
/// resources and ours have), a Table's columns, type and version of a list's items (which lists of Go types lack), and that
/// v1alpha1 is deprecated.
pub(super) fn without_schema(answer: &Answer) -> Answer {
    let mut answer = answer.clone();
    if let Some(warnings) = answer.headers.get_mut("warning") {
        warnings.retain(|warning| !warning.contains(" is deprecated in "));
        if warnings.is_empty() {
            answer.headers.remove("warning");
        }
    }
    match &mut answer.body {
        Body::Json(value) => strip(value),
        Body::Frames(frames) => frames.iter_mut().for_each(strip),
        Body::Text(_) | Body::Compressed => {}
    }
    answer
}

fn strip(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Object(members) => {
            if let Some(Value::Object(metadata)) = members.get_mut("metadata") {
                metadata.remove("generation");
                strip_owners(metadata);
                let is_status = members.get("kind").is_some_and(|kind| kind == "Status");
                for of_the_schema in ["spec", "status"] {
                    if !is_status {
                        members.remove(of_the_schema);
                    }
                }
            }
            if members.get("kind").is_some_and(|kind| kind == "Table") {
                members.remove("columnDefinitions");
            }
            members.remove("cells");
            if let Some(Value::Array(items)) = members.get_mut("items") {
                for item in items.iter_mut().filter_map(Value::as_object_mut) {
                    item.remove("apiVersion");
                    item.remove("kind");
                }
            }
            members.values_mut().for_each(strip);
        }
        _ => {}
    }
}

fn strip_owners(metadata: &mut serde_json::Map<String, Value>) {
    let Some(Value::Array(owners)) = metadata.get_mut("managedFields") else {
        return;
    };
    owners.retain_mut(|owner| {
        let Some(Value::Object(fields)) = owner.get_mut("fieldsV1") else {
            return true;
        };
        fields.remove("f:spec");
        fields.remove("f:status");
        !fields.is_empty()
    });
    if owners.is_empty() {
        metadata.remove("managedFields");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_follows_from_the_schema_is_taken_out() {
        let mut list = json!({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": [{
            "metadata": {"name": "a", "generation": 2, "managedFields": [
                {"manager": "m", "fieldsV1": {"f:spec": {}}},
                {"manager": "n", "fieldsV1": {"f:metadata": {}, "f:spec": {}}},
            ]},
            "spec": {}, "status": {},
        }]});
        strip(&mut list);
        assert_eq!(
            list,
            json!({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": [{
                "metadata": {"name": "a", "managedFields": [{"manager": "n", "fieldsV1": {"f:metadata": {}}}]},
            }]})
        );
        let mut status = json!({"kind": "Status", "metadata": {}, "status": "Failure"});
        strip(&mut status);
        assert_eq!(status["status"], "Failure");
    }
}
