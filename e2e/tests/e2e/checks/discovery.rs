//! What discovery advertises is what works, and nothing else is.

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::fixtures::{Namespace, VIEW, custom_task, task, text};
use crate::shared::Shared;

const LABEL: (&str, &str) = ("made-by", "e2e-discovery");
/// In an order in which each finds what it needs.
const VERBS: [&str; 8] = [
    "create",
    "get",
    "list",
    "watch",
    "update",
    "patch",
    "delete",
    "deletecollection",
];

/// Every verb that discovery advertises succeeds, every other one is 405, resource by resource.
pub(crate) fn each_verb_works_as_discovery_says(environment: &Shared) {
    let _gate = environment.in_common();
    let namespace = Namespace::new(environment.kubectl(), "verbs");
    // Of the view there is an object when there is a Task.
    namespace.task("one");
    let client = Client::admin(environment);
    let mut groups = vec![VIEW];
    if environment.front_proxy().is_none() {
        groups.extend([
            "/api/v1",
            "/apis/tasks.example.com/v1",
            "/apis/coordination.k8s.io/v1",
            "/apis/authorization.k8s.io/v1",
            "/apis/authentication.k8s.io/v1",
            "/apis/apiextensions.k8s.io/v1",
        ]);
    }
    let mut wrong = Vec::new();
    let mut seen = 0;
    for group in groups {
        let discovered = client.get(group).json();
        for resource in discovered["resources"].as_array().unwrap() {
            seen += 1;
            let asked = Asked::new(&client, group, &namespace.name, resource);
            for verb in VERBS {
                let advertised = resource["verbs"].as_array().unwrap().contains(&verb.into());
                let answer = asked.ask(verb);
                // Of what cannot be created here there may be no object of that name.
                let absent = verb == "get"
                    && ["services", "customresourcedefinitions"].contains(&text(resource, "/name"));
                let fits = match advertised {
                    true if absent => answer.status == 404,
                    true => answer.status.is_success(),
                    false => answer.status == 405,
                };
                if !fits {
                    wrong.push(format!(
                        "{verb} of {}, {}advertised: {} {}",
                        text(resource, "/name"),
                        if advertised { "" } else { "not " },
                        answer.status,
                        answer.text()
                    ));
                }
            }
        }
    }
    assert!(seen >= 4, "only {seen} resources were discovered");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// One resource or subresource, and how to ask for it.
struct Asked<'a> {
    client: &'a Client,
    /// Of the collection.
    base: String,
    name: String,
    /// With a slash before it; empty for none.
    subresource: String,
    object: Value,
}

impl<'a> Asked<'a> {
    fn new(client: &'a Client, group: &str, namespace: &str, resource: &Value) -> Asked<'a> {
        let (plural, subresource) = match text(resource, "/name").split_once('/') {
            Some((plural, subresource)) => (plural, format!("/{subresource}")),
            None => (text(resource, "/name"), String::new()),
        };
        let namespaced = resource["namespaced"] == true;
        // The view's is the Task's; others must not meet those of tests beside this one.
        let name = match plural {
            "combinedtasks" => "one".to_owned(),
            _ if subresource.is_empty() => format!("{namespace}-made"),
            _ => format!("{namespace}-parent"),
        };
        let mut object = object(text(resource, "/kind"), namespace, &name);
        let group_version = group
            .trim_start_matches("/apis/")
            .trim_start_matches("/api/");
        object["apiVersion"] = group_version.into();
        object["kind"] = resource["kind"].clone();
        object["metadata"]["name"] = name.clone().into();
        object["metadata"]["labels"] = json!({ LABEL.0: LABEL.1 });
        let asked = Asked {
            client,
            base: if namespaced {
                format!("{group}/namespaces/{namespace}/{plural}")
            } else {
                format!("{group}/{plural}")
            },
            name,
            subresource,
            object,
        };
        if !asked.subresource.is_empty() {
            let json = [("Content-Type", "application/json")];
            let made = client.send("POST", &asked.base, &json, asked.object.to_string());
            assert!(made.status.is_success(), "{}", made.text());
        }
        asked
    }

    fn ask(&self, verb: &str) -> Answer {
        let collection = format!("{}?labelSelector={}%3D{}", self.base, LABEL.0, LABEL.1);
        let one = format!("{}/{}{}", self.base, self.name, self.subresource);
        let sent = |method: &str, path: &str, content_type: &str, body: &Value| {
            let headers = [("Content-Type", content_type)];
            self.client.send(method, path, &headers, body.to_string())
        };
        let json = "application/json";
        match verb {
            "create" if self.subresource.is_empty() => sent("POST", &self.base, json, &self.object),
            "create" => sent("POST", &one, json, &self.object),
            "get" => self.client.get(&one),
            // There is no collection of a subresource; the same method on it is a get.
            "list" | "watch" | "deletecollection" if !self.subresource.is_empty() => {
                sent("DELETE", &one, json, &json!({}))
            }
            "list" => self.client.get(&collection),
            "watch" => self
                .client
                .get(&format!("{collection}&watch=true&timeoutSeconds=1")),
            "update" => loop {
                let current = self.client.get(&one);
                let object = if current.status.is_success() {
                    current.json()
                } else {
                    self.object.clone()
                };
                let answer = sent("PUT", &one, json, &object);
                // The controller may have written in between.
                if answer.status != 409 {
                    break answer;
                }
            },
            "patch" => {
                let patch = json!({ "metadata": { "annotations": { "seen": "yes" } } });
                sent("PATCH", &one, "application/merge-patch+json", &patch)
            }
            "delete" => sent("DELETE", &one, json, &json!({})),
            "deletecollection" => sent("DELETE", &collection, json, &json!({})),
            other => panic!("no verb {other}"),
        }
    }
}

fn object(kind: &str, namespace: &str, name: &str) -> Value {
    match kind {
        "CombinedTask" | "Task" => task(namespace, name, 1),
        "CustomTask" => custom_task(namespace, name),
        "ClusterTask" => {
            json!({ "metadata": {}, "spec": { "priority": 1, "details": "made by a test" } })
        }
        "Event" => json!({
            "metadata": { "namespace": namespace },
            "involvedObject": { "kind": "Namespace", "name": namespace, "namespace": namespace },
            "reason": "Seen", "message": "by a test", "type": "Normal",
        }),
        "SelfSubjectAccessReview" => {
            json!({ "metadata": {}, "spec": { "resourceAttributes": { "verb": "get", "resource": "events" } } })
        }
        "SelfSubjectRulesReview" => json!({ "metadata": {}, "spec": { "namespace": namespace } }),
        _ => json!({ "metadata": {} }),
    }
}
