//! The real plugins.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use joinery_object::{GroupVersionResource, ObjectKey, Status};
use joinery_plugin::Shape;
use joinery_resource::{Lookup, LookupList, Operation, Review, User};
use joinery_view::{Branch, Group, Selection, Side};
use serde_json::{Value, json};

use crate::guests::load;

const GROUP: &str = "aggregated.tasks.example.com";

fn gvr(resource: &str) -> GroupVersionResource {
    GroupVersionResource::new(GROUP, "v1", resource)
}

#[tokio::test]
async fn combined_tasks_joins_tasks_and_events() {
    let generation = load("combined_tasks", json!({})).await.unwrap();
    let [resource] = generation.description().resources.as_slice() else {
        panic!("one resource")
    };
    assert_eq!(resource.definition.gvr, gvr("combinedtasks"));
    assert_eq!(resource.definition.kind, "CombinedTask");
    assert_eq!(resource.definition.list_kind, "CombinedTaskList");
    let Shape::View(view) = &resource.shape else {
        panic!("a view")
    };
    assert_eq!(
        view.sources[0].gvr.to_string(),
        "tasks.example.com/v1, tasks"
    );
    assert_eq!(view.sources[1].label_selector, "tasks.example.com/task-uid");

    let join = generation.join(&gvr("combinedtasks")).unwrap();
    let task = Bytes::from(
        json!({"metadata": {"name": "t", "namespace": "n", "uid": "u1", "resourceVersion": "7"}, "spec": {"priority": 3}})
            .to_string(),
    );
    let event = |uid: &str, hour: u32| {
        let labels = json!({"tasks.example.com/task-uid": "u1"});
        let time = format!("2026-01-01T{hour:02}:00:00Z");
        let event = json!({"metadata": {"uid": uid, "labels": labels}, "reason": uid, "lastTimestamp": time});
        Bytes::from(event.to_string())
    };
    let events = vec![event("late", 9), event("early", 8)];
    assert_eq!(
        join.keys(0, Side::Parent, vec![task.clone()])
            .await
            .unwrap(),
        [["u1"]]
    );
    assert_eq!(
        join.keys(0, Side::Child, events.clone()).await.unwrap(),
        [["u1"], ["u1"]]
    );
    let Selection::Selector { label_selector, .. } =
        join.query(0, vec!["u1".into(), "u2".into()]).await.unwrap()
    else {
        panic!("a selector")
    };
    assert_eq!(label_selector, "tasks.example.com/task-uid in (u1,u2)");

    let branch = Branch {
        objects: events,
        parents: vec![Vec::new(); 2],
        omitted: 0,
    };
    let mut results = join
        .combine(vec![Group {
            primary: task,
            branches: vec![branch],
        }])
        .await
        .unwrap();
    let composed = results.remove(0).unwrap().unwrap();
    let inputs: Vec<u32> = composed.inserts.iter().map(|(_, input)| *input).collect();
    assert_eq!(inputs, [2, 1], "oldest first");
    let text = std::str::from_utf8(&composed.text).unwrap();
    assert!(
        text.contains(r#""events":[,]"#) && text.contains(r#""taskResourceVersion":"7""#),
        "{text}"
    );
}

#[tokio::test]
async fn the_names_of_the_public_original_are_settings() {
    let generation = load(
        "combined_tasks",
        json!({"settings": {"group": "search.task.example.example.com", "task": {"group": "example.example.com"},
            "eventLabel": "example.example.com/task-uid"}}),
    )
    .await
    .unwrap();
    let resource = &generation.description().resources[0];
    assert_eq!(
        resource.definition.gvr.to_string(),
        "search.task.example.example.com/v1, combinedtasks"
    );
    let Shape::View(view) = &resource.shape else {
        panic!("a view")
    };
    assert_eq!(
        view.sources[0].gvr.to_string(),
        "example.example.com/v1, tasks"
    );
    assert_eq!(
        view.sources[1].label_selector,
        "example.example.com/task-uid"
    );
}

/// One ClusterTask, and the CustomTasks that use it.
struct Cluster(Vec<&'static str>);

#[async_trait]
impl Lookup for Cluster {
    async fn get(
        &self,
        gvr: &GroupVersionResource,
        key: &ObjectKey,
    ) -> Result<Option<Bytes>, Status> {
        assert_eq!(&*gvr.resource, "clustertasks");
        let task = json!({"metadata": {"name": "nightly"}, "spec": {"priority": 7, "deadlineAfter": "1h"}});
        Ok((&*key.name == "nightly").then(|| task.to_string().into()))
    }

    async fn list(
        &self,
        gvr: &GroupVersionResource,
        options: &LookupList,
    ) -> Result<(Vec<Bytes>, bool), Status> {
        assert_eq!(&*gvr.resource, "customtasks");
        assert_eq!(options.field_selector, "spec.clusterTaskRef.name=nightly");
        let task = |name: &&str| {
            json!({"metadata": {"namespace": "default", "name": name}})
                .to_string()
                .into()
        };
        Ok((self.0.iter().take(1).map(task).collect(), self.0.len() > 1))
    }
}

fn review(operation: Operation, name: &str, object: Option<Value>) -> Review {
    Review {
        operation,
        subresource: None,
        key: ObjectKey::new(None, name),
        object: object.map(|o| o.to_string().into()),
        old_object: None,
        user: User::default(),
        dry_run: false,
        now: 1_767_225_600_000,
    }
}

#[tokio::test]
async fn custom_task_takes_what_it_lacks() {
    let generation = load("custom_task", json!({})).await.unwrap();
    let resource = &generation.description().resources[0];
    assert_eq!(resource.definition.gvr, gvr("customtasks"));
    assert!(resource.definition.status_subresource);
    let admit = generation.admit();
    let create = async |spec: Value| {
        let object = json!({"metadata": {"name": "a"}, "spec": spec});
        admit
            .admit(
                &gvr("customtasks"),
                review(Operation::Create, "a", Some(object)),
                Arc::new(Cluster(vec![])),
            )
            .await
    };
    let verdict = create(json!({"clusterTaskRef": {"name": "nightly"}}))
        .await
        .unwrap();
    let object: Value = serde_json::from_slice(&verdict.object.unwrap()).unwrap();
    assert_eq!(object["spec"]["priority"], 7);
    assert_eq!(object["spec"]["deadline"], "2026-01-01T01:00:00Z");
    assert_eq!(object["status"]["conditions"][0]["type"], "Accepted");
    let refused = create(json!({"clusterTaskRef": {"name": "daily"}}))
        .await
        .unwrap_err();
    assert_eq!(refused.code, 422);
    assert_eq!(
        refused.message,
        "CustomTask.aggregated.tasks.example.com \"a\" is invalid: spec.clusterTaskRef.name: Not found: \"daily\""
    );
}

#[tokio::test]
async fn cluster_task_in_use_stays() {
    let generation = load("cluster_task", json!({})).await.unwrap();
    let resource = &generation.description().resources[0];
    assert!(!resource.definition.namespaced);
    let admit = generation.admit();
    let delete = async |users| {
        admit
            .admit(
                &gvr("clustertasks"),
                review(Operation::Delete, "nightly", None),
                Arc::new(Cluster(users)),
            )
            .await
    };
    assert!(delete(vec![]).await.is_ok());
    let refused = delete(vec!["a", "b"]).await.unwrap_err();
    assert_eq!((refused.code, &*refused.reason), (409, "Conflict"));
    assert!(
        refused.message.contains("\"default/a\" and others"),
        "{refused}"
    );
}

/// None of their schemas, columns or selectable fields is odd, in any of the settings of the public original.
#[tokio::test]
async fn stored_plugins_serve_any_group() {
    for name in ["cluster_task", "custom_task"] {
        let generation = load(
            name,
            json!({"settings": {"group": "search.task.example.example.com"}}),
        )
        .await
        .unwrap();
        assert_eq!(
            &*generation.description().resources[0].definition.gvr.group,
            "search.task.example.example.com"
        );
    }
}
