//! authorization.k8s.io/v1 selfsubjectaccessreviews and selfsubjectrulesreviews, which `kubectl auth can-i` asks, and
//! authentication.k8s.io/v1 selfsubjectreviews, which `kubectl auth whoami` asks.
//!
//! Nothing is kept: an object is created, answered, and forgotten.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use joinery_object::{
    ListOptions, Object, ObjectKey, ResourceVersion, Status, WriteOptions, reason,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::define::{Words, definition, open_object};
use crate::access::{Attributes, SharedAuthorizer, User, check};
use crate::resource::{Caller, Definition, List, Resource, Watch, Written};

const AUTHORIZATION: &str = "authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";
/// A review has no name of its own, but an object needs one.
const NAME: &str = "self";

/// All three resources.
pub(super) fn resources(authorizer: SharedAuthorizer) -> Result<Vec<Arc<dyn Resource>>, Status> {
    let review =
        |group, plural, kind, description, spec, question| -> Result<Arc<dyn Resource>, Status> {
            let definition = definition(Words {
                group,
                plural,
                kind,
                short_names: &[],
                namespaced: false,
                verbs: &["create"],
                status_subresource: false,
                description,
                properties: json!({"spec": spec, "status": open_object("The answer.")}),
                columns: &[],
                selectable_fields: &[],
            })?;
            Ok(Arc::new(Review {
                definition: Arc::new(definition),
                authorizer: authorizer.clone(),
                question,
            }))
        };
    Ok(vec![
        review(
            AUTHENTICATION,
            "selfsubjectreviews",
            "SelfSubjectReview",
            "SelfSubjectReview asks who the current user is.",
            open_object("There is nothing to say."),
            Question::Who,
        )?,
        review(
            AUTHORIZATION,
            "selfsubjectaccessreviews",
            "SelfSubjectAccessReview",
            "SelfSubjectAccessReview asks whether the current user may do something.",
            open_object("One of resourceAttributes and nonResourceAttributes."),
            Question::Access,
        )?,
        review(
            AUTHORIZATION,
            "selfsubjectrulesreviews",
            "SelfSubjectRulesReview",
            "SelfSubjectRulesReview asks what the current user may do in a namespace.",
            json!({"type": "object", "properties": {"namespace": {"type": "string"}}}),
            Question::Rules,
        )?,
    ])
}

#[derive(Clone, Copy)]
enum Question {
    Who,
    Access,
    Rules,
}

struct Review {
    definition: Arc<Definition>,
    authorizer: SharedAuthorizer,
    question: Question,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    resource_attributes: Option<ResourceAttributes>,
    non_resource_attributes: Option<NonResourceAttributes>,
    namespace: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResourceAttributes {
    namespace: String,
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NonResourceAttributes {
    path: String,
    verb: String,
}

impl Spec {
    fn attributes(self) -> Option<Attributes> {
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        match (self.resource_attributes, self.non_resource_attributes) {
            (Some(asked), None) => Some(Attributes::Resource {
                verb: asked.verb,
                group: asked.group,
                version: asked.version,
                resource: asked.resource,
                subresource: asked.subresource,
                namespace: some(asked.namespace),
                name: some(asked.name),
                label_selector: String::new(),
                field_selector: String::new(),
            }),
            (None, Some(asked)) => Some(Attributes::Path {
                path: asked.path,
                verb: asked.verb,
            }),
            _ => None,
        }
    }
}

impl Review {
    async fn status(&self, user: &User, spec: Spec) -> Result<Value, Status> {
        match self.question {
            Question::Who => Ok(who(user)),
            Question::Access => {
                let attributes = spec.attributes().ok_or_else(|| {
                    Status::bad_request(
                        "spec must have exactly one of resourceAttributes and nonResourceAttributes",
                    )
                })?;
                self.access(user, &attributes).await
            }
            Question::Rules => self.rules(user, spec.namespace).await,
        }
    }

    async fn access(&self, user: &User, attributes: &Attributes) -> Result<Value, Status> {
        match check(&*self.authorizer, user, attributes).await {
            Ok(()) => Ok(json!({"allowed": true})),
            Err(status) if status.is(reason::FORBIDDEN) => {
                Ok(json!({"allowed": false, "reason": status.message}))
            }
            Err(status) => Err(status),
        }
    }

    /// An authorizer answers questions, it does not list rules: only who may do everything can be told so.
    async fn rules(&self, user: &User, namespace: String) -> Result<Value, Status> {
        let everything = Attributes::Resource {
            verb: "*".to_owned(),
            group: "*".to_owned(),
            version: "*".to_owned(),
            resource: "*".to_owned(),
            subresource: String::new(),
            namespace: Some(namespace),
            name: None,
            label_selector: String::new(),
            field_selector: String::new(),
        };
        let answer = self.access(user, &everything).await?;
        if answer["allowed"] == true {
            return Ok(json!({
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": false,
            }));
        }
        Ok(json!({
            "resourceRules": [],
            "nonResourceRules": [],
            "incomplete": true,
            "evaluationError": "this server cannot list rules; ask for one verb and resource instead",
        }))
    }
}

/// authentication.k8s.io/v1 UserInfo; what is empty is left out.
fn who(user: &User) -> Value {
    let mut info = json!({"username": user.name});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !user.groups.is_empty() {
        info["groups"] = user.groups.clone().into();
    }
    for (key, values) in &user.extra {
        info["extra"][key] = values.clone().into();
    }
    json!({"userInfo": info})
}

#[async_trait]
impl Resource for Review {
    fn definition(&self) -> Arc<Definition> {
        self.definition.clone()
    }

    async fn get(
        &self,
        _caller: &Caller,
        _key: &ObjectKey,
        _resource_version: Option<&str>,
    ) -> Result<Arc<Object>, Status> {
        Err(self.unsupported("get"))
    }

    async fn list(
        &self,
        _caller: &Caller,
        _namespace: Option<&str>,
        _options: &ListOptions,
    ) -> Result<List, Status> {
        Err(self.unsupported("list"))
    }

    async fn watch(
        &self,
        _caller: &Caller,
        _namespace: Option<&str>,
        _options: &ListOptions,
    ) -> Result<Watch, Status> {
        Err(self.unsupported("watch"))
    }

    async fn create(
        &self,
        caller: &Caller,
        _namespace: Option<&str>,
        _name: Option<&str>,
        body: Bytes,
        _options: &WriteOptions,
    ) -> Result<Written, Status> {
        let unreadable = |error: serde_json::Error| {
            Status::bad_request(format!("the body is no {}: {error}", self.definition.kind))
        };
        let review: Value = serde_json::from_slice(&body).map_err(unreadable)?;
        let spec = Option::<Spec>::deserialize(&review["spec"]).map_err(unreadable)?;
        let status = self.status(&caller.user, spec.unwrap_or_default()).await?;
        let mut answer = json!({
            "apiVersion": self.definition.gvr.api_version(),
            "kind": self.definition.kind,
            "metadata": {"name": NAME},
        });
        if !matches!(self.question, Question::Who) {
            answer["spec"] = review["spec"].clone();
        }
        answer["status"] = status;
        let object = Object::parse_at(answer.to_string().into(), ResourceVersion::single(0));
        Ok(Written {
            object: Arc::new(object.map_err(Status::internal)?),
            created: true,
            removed: false,
            warnings: Vec::new(),
        })
    }
}
