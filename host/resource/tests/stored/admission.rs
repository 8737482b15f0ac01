//! What a plugin's rules can do to a write, and what they cannot.

use std::sync::Arc;

use async_trait::async_trait;
use joinery_object::{GroupVersionResource, Status, WriteOptions};
use joinery_resource::builtin::from_crd;
use joinery_resource::{Admit, Lookup, Operation, Resource, Review, Verdict};
use serde_json::{Value, json};

use crate::support::{Host, Speak, admin, bytes, crd, json as value, key, widget};

/// Does to each object what a function does.
struct Rule(fn(&mut Value, &Review) -> Result<(), Status>);

#[async_trait]
impl Admit for Rule {
    async fn admit(
        &self,
        _resource: &GroupVersionResource,
        review: Review,
        _lookup: Arc<dyn Lookup>,
    ) -> Result<Verdict, Status> {
        let text = review.object.as_ref().or(review.old_object.as_ref());
        let mut object: Value = serde_json::from_slice(text.unwrap()).unwrap();
        (self.0)(&mut object, &review)?;
        Ok(Verdict {
            object: (review.operation != Operation::Delete).then(|| bytes(&object)),
            warnings: vec!["seen".to_owned()],
        })
    }
}

#[tokio::test]
async fn rules_may_change_the_object_but_not_who_it_is() {
    let host = Host::start().await;
    let rule = Rule(|object, _| {
        object["spec"]["color"] = "grey".into();
        object["status"] = json!({"seen": 1});
        object["metadata"]["name"] = "renamed".into();
        object["metadata"]["uid"] = "stolen".into();
        object["metadata"]["labels"] = json!({"by": "rule"});
        Ok(())
    });
    let widgets = host.custom("widgets", true, Some(Arc::new(rule))).await;
    let written = widgets.post(widget("a", json!({}))).await.unwrap();
    assert_eq!(written.warnings, ["seen"]);
    let created = value(&written.object);
    assert_eq!(created["spec"], json!({"color": "grey", "size": 1}));
    assert_eq!(created["status"], json!({"seen": 1}));
    assert_eq!(created["metadata"]["name"], "a");
    assert_eq!(created["metadata"]["labels"]["by"], "rule");
    assert_ne!(created["metadata"]["uid"], "stolen");
    // A status is all that a write of the status changes.
    let body = bytes(
        &json!({"metadata": {"name": "a", "resourceVersion": created["metadata"]["resourceVersion"]},
        "status": {"seen": 2}, "spec": {"color": "red"}}),
    );
    let written = widgets
        .update(
            &admin(),
            &key("a"),
            Some("status"),
            body,
            &WriteOptions::default(),
        )
        .await
        .unwrap();
    assert_eq!(value(&written.object)["metadata"]["generation"], 1);
}

#[tokio::test]
async fn rules_make_no_other_kind_and_nothing_too_large() {
    let host = Host::start().await;
    let rule = Rule(|object, review| {
        match &*review.key.name {
            "kind" => object["kind"] = "Secret".into(),
            "version" => object["apiVersion"] = "v1".into(),
            _ => object["status"] = json!({"seen": "x".repeat(4 << 20)}),
        }
        Ok(())
    });
    let widgets = host.custom("widgets", true, Some(Arc::new(rule))).await;
    for (name, said) in [
        ("kind", "its kind is \"Secret\", not \"Widget\""),
        ("version", "its apiVersion is \"v1\""),
        ("large", "at most 3145728 are stored"),
    ] {
        let status = widgets.post(widget(name, json!({}))).await.unwrap_err();
        assert_eq!(status.code, 500);
        assert!(status.message.contains(said), "{}", status.message);
    }
    assert!(widgets.all("").await.unwrap().items.is_empty());
}

#[tokio::test]
async fn rules_see_the_object_before_and_after() {
    let host = Host::start().await;
    let rule = Rule(|_, review| {
        let version = |text: &Option<bytes::Bytes>| -> Option<Value> {
            let object: Value = serde_json::from_slice(text.as_ref()?).unwrap();
            Some(object["metadata"]["resourceVersion"].clone())
        };
        match review.operation {
            Operation::Create => assert_eq!(version(&review.object), Some(Value::Null)),
            Operation::Update => assert_eq!(version(&review.object), version(&review.old_object)),
            Operation::Delete => assert!(review.object.is_none() && review.old_object.is_some()),
        }
        assert_eq!(review.user.name, "admin");
        Ok(())
    });
    let widgets = host.custom("widgets", true, Some(Arc::new(rule))).await;
    widgets.post(widget("a", json!({}))).await.unwrap();
    widgets
        .merge("a", json!({"spec": {"size": 2}}))
        .await
        .unwrap();
    widgets.remove("a").await.unwrap();
}

#[tokio::test]
async fn what_rules_return_must_be_valid_too() {
    let host = Host::start().await;
    let rule = Rule(|object, _| {
        object["spec"]["size"] = 11.into();
        Ok(())
    });
    let widgets = host.custom("widgets", true, Some(Arc::new(rule))).await;
    let status = widgets.post(widget("a", json!({}))).await.unwrap_err();
    assert_eq!(status.code, 422);
    assert!(status.message.ends_with("(as admission made the object)"));
    assert_eq!(status.details.unwrap().causes[0].field, "spec.size");
}

#[tokio::test]
async fn what_grows_too_large_by_what_the_host_adds_is_the_clients_and_is_not_stored() {
    let host = Host::start().await;
    let rule = Rule(|_, _| Ok(()));
    let admitted = host.custom("widgets", true, Some(Arc::new(rule))).await;
    let plain = host.custom("gadgets", true, None).await;
    for widgets in [&admitted, &plain] {
        let widget = |name: &str, finalizers: usize| {
            let finalizers: Vec<_> = (0..finalizers).map(|i| format!("a.b/f{i}")).collect();
            let mut widget = widget(name, json!({}));
            widget["metadata"]["finalizers"] = finalizers.into();
            widget
        };
        // Each is an entry of managedFields too: that is more than the body itself.
        let large = widget("large", 100_000);
        assert!(bytes(&large).len() < 3 << 20);
        let status = widgets.post(large).await.unwrap_err();
        assert_eq!(status.code, 413, "{}", status.message);
        assert!(status.message.contains("managedFields"));
        widgets.post(widget("small", 1)).await.unwrap();
        let finalizers: Vec<_> = (0..100_000).map(|i| format!("a.b/f{i}")).collect();
        let patch = json!({"metadata": {"finalizers": finalizers}});
        assert_eq!(widgets.merge("small", patch).await.unwrap_err().code, 413);
        let all = widgets.all("").await.unwrap().items;
        assert_eq!((all.len(), &*all[0].key().name), (1, "small"));
        assert!(all[0].len() < 1024);
    }
}

#[tokio::test]
async fn a_refusal_changes_nothing() {
    let host = Host::start().await;
    let rule = Rule(|_, review| match review.operation {
        Operation::Delete => Err(Status::bad_request("not today")),
        _ => Ok(()),
    });
    let widgets = host.custom("widgets", true, Some(Arc::new(rule))).await;
    widgets.post(widget("a", json!({}))).await.unwrap();
    assert_eq!(widgets.remove("a").await.unwrap_err().message, "not today");
    widgets.read("a").await.unwrap();
}

#[tokio::test]
async fn rules_and_schema_are_exchanged_while_a_watch_goes_on() {
    let host = Host::start().await;
    let widgets = host.widgets().await;
    let mut watch = widgets.follow("").await;
    widgets
        .post(widget("a", json!({"size": 10})))
        .await
        .unwrap();
    let mut narrower = crd("widgets", true);
    narrower["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        ["size"]["maximum"] = 5.into();
    let (definition, schema) = from_crd(&narrower).unwrap();
    let refuse = Rule(|_, _| Err(Status::bad_request("closed")));
    widgets
        .replace(definition, Some(schema), Some(Arc::new(refuse)))
        .unwrap();
    let too_big = widgets
        .post(widget("b", json!({"size": 10})))
        .await
        .unwrap_err();
    assert_eq!(too_big.code, 422);
    let closed = widgets
        .post(widget("b", json!({"size": 5})))
        .await
        .unwrap_err();
    assert_eq!(closed.message, "closed");
    let (definition, schema) = from_crd(&crd("widgets", true)).unwrap();
    widgets.replace(definition, Some(schema), None).unwrap();
    widgets
        .post(widget("b", json!({"size": 10})))
        .await
        .unwrap();
    assert_eq!(watch.take(2).await, ["ADDED a", "ADDED b"]);
    let (other, schema) = from_crd(&crd("gadgets", true)).unwrap();
    assert_eq!(
        widgets.replace(other, Some(schema), None).unwrap_err().code,
        409
    );
}
