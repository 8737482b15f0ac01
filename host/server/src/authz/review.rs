//! Authorization by kube-apiserver: SubjectAccessReview.

use std::time::Duration;

use async_trait::async_trait;
use joinery_object::{FieldSelector, LabelSelector, Operator, Status};
use joinery_resource::{Attributes, Authorizer, Decision, User};
use k8s_openapi::api::authorization::v1::{
    FieldSelectorAttributes, LabelSelectorAttributes, NonResourceAttributes, ResourceAttributes,
    SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    FieldSelectorRequirement, LabelSelectorRequirement,
};
use kube::api::PostParams;
use kube::{Api, Client};
use prometheus_client::registry::Registry;

use crate::expiring::Expiring;
use crate::retry::{Requests, retry};

/// Both answers hold that long, as in k8s.io/apiserver's delegated authorization.
const LIFETIME: Duration = Duration::from_secs(10);
const CAPACITY: usize = 8192;

/// Asks kube-apiserver whether a user may. Errors are not remembered.
pub struct SubjectAccessReviews {
    api: Api<SubjectAccessReview>,
    requests: Requests,
    answers: Expiring<(User, Attributes), Decision>,
}

impl SubjectAccessReviews {
    /// The client needs the right to create subjectaccessreviews (ClusterRole `system:auth-delegator`).
    pub fn new(client: Client) -> Self {
        Self {
            api: Api::all(client),
            requests: Requests::default(),
            answers: Expiring::new(CAPACITY, LIFETIME),
        }
    }

    /// Adds the metric of the requests to a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "apiserver_delegated_authz_request",
            "SubjectAccessReviews sent, by the code of the answer",
            self.requests.clone(),
        );
    }

    async fn review(&self, review: &SubjectAccessReview) -> Result<Decision, kube::Error> {
        let answer = self.api.create(&PostParams::default(), review).await?;
        let status = answer.status.unwrap_or_default();
        Ok(if status.allowed && status.denied != Some(true) {
            Decision::Allowed
        } else {
            Decision::Denied(status.reason.unwrap_or_default())
        })
    }
}

#[async_trait]
impl Authorizer for SubjectAccessReviews {
    async fn authorize(&self, user: &User, attributes: &Attributes) -> Result<Decision, Status> {
        let key = (user.clone(), attributes.clone());
        if let Some(answer) = self.answers.get(&key) {
            return Ok(answer);
        }
        let review = SubjectAccessReview {
            spec: spec(user, attributes),
            ..SubjectAccessReview::default()
        };
        let answer = retry(&self.requests, || self.review(&review))
            .await
            .map_err(|error| {
                tracing::warn!(%error, "SubjectAccessReview failed");
                Status::internal(format!("cannot authorize: {error}"))
            })?;
        self.answers.put(key, answer.clone());
        Ok(answer)
    }
}

fn spec(user: &User, attributes: &Attributes) -> SubjectAccessReviewSpec {
    let mut spec = SubjectAccessReviewSpec {
        user: some(&user.name),
        uid: some(&user.uid),
        groups: Some(user.groups.clone()),
        extra: (!user.extra.is_empty()).then(|| user.extra.iter().cloned().collect()),
        ..SubjectAccessReviewSpec::default()
    };
    match attributes {
        Attributes::Path { path, verb } => {
            spec.non_resource_attributes = Some(NonResourceAttributes {
                path: some(path),
                verb: some(verb),
            });
        }
        Attributes::Resource {
            verb,
            group,
            version,
            resource,
            subresource,
            namespace,
            name,
            label_selector,
            field_selector,
        } => {
            spec.resource_attributes = Some(ResourceAttributes {
                verb: some(verb),
                group: some(group),
                version: some(version),
                resource: some(resource),
                subresource: some(subresource),
                namespace: namespace.clone(),
                name: name.clone(),
                label_selector: labels(label_selector),
                field_selector: fields(field_selector),
            });
        }
    }
    spec
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// None also for what cannot be read: the request fails later with a 400, or is authorized without the selector's
/// help, which never grants more.
fn labels(selector: &str) -> Option<LabelSelectorAttributes> {
    let selector: LabelSelector = selector.parse().ok()?;
    let requirements: Vec<_> = selector
        .requirements()
        .iter()
        .filter_map(|requirement| {
            let operator = match requirement.operator() {
                Operator::Exists => "Exists",
                Operator::DoesNotExist => "DoesNotExist",
                Operator::Equals | Operator::DoubleEquals | Operator::In => "In",
                Operator::NotEquals | Operator::NotIn => "NotIn",
                // Not known to the review, and left out upstream too.
                Operator::GreaterThan | Operator::LessThan => return None,
            };
            Some(LabelSelectorRequirement {
                key: requirement.key().to_owned(),
                operator: operator.to_owned(),
                values: (!requirement.values().is_empty()).then(|| requirement.values().to_vec()),
            })
        })
        .collect();
    (!requirements.is_empty()).then_some(LabelSelectorAttributes {
        raw_selector: None,
        requirements: Some(requirements),
    })
}

fn fields(selector: &str) -> Option<FieldSelectorAttributes> {
    let selector: FieldSelector = selector.parse().ok()?;
    let requirements: Vec<_> = selector
        .requirements()
        .iter()
        .map(|requirement| FieldSelectorRequirement {
            key: requirement.field.clone(),
            operator: if requirement.negated { "NotIn" } else { "In" }.to_owned(),
            values: Some(vec![requirement.value.clone()]),
        })
        .collect();
    (!requirements.is_empty()).then_some(FieldSelectorAttributes {
        raw_selector: None,
        requirements: Some(requirements),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_review_carries_user_resource_and_selectors_unchanged() {
        let user = User {
            name: "u".to_owned(),
            uid: "1".to_owned(),
            groups: vec!["a".to_owned(), "b".to_owned()],
            extra: vec![(
                "example.com/team".to_owned(),
                vec!["x".to_owned(), "y".to_owned()],
            )],
        };
        let attributes = Attributes::Resource {
            verb: "list".to_owned(),
            group: "g".to_owned(),
            version: "v1".to_owned(),
            resource: "things".to_owned(),
            subresource: String::new(),
            namespace: Some("n".to_owned()),
            name: Some("x".to_owned()),
            label_selector: "a in (1,2),!b,c>1".to_owned(),
            field_selector: "metadata.name=x".to_owned(),
        };
        let json = serde_json::to_value(spec(&user, &attributes)).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "user": "u", "uid": "1", "groups": ["a", "b"], "extra": {"example.com/team": ["x", "y"]},
                "resourceAttributes": {
                    "verb": "list", "group": "g", "version": "v1", "resource": "things", "namespace": "n", "name": "x",
                    "labelSelector": {"requirements": [
                        {"key": "a", "operator": "In", "values": ["1", "2"]},
                        {"key": "b", "operator": "DoesNotExist"},
                    ]},
                    "fieldSelector": {"requirements": [{"key": "metadata.name", "operator": "In", "values": ["x"]}]},
                }
            })
        );
    }
}
