//! ClusterTask: a kind of task that the whole cluster shares. CustomTasks refer to it and take what they lack from it,
//! so it is not deleted while one does.

mod describe;

use std::time::Duration;

use joinery_sdk::time::parse_duration;
use joinery_sdk::{
    Admission, Cause, Description, Failure, GroupVersion, GroupVersionResource, Kubernetes,
    ListOptions, Operation, Plugin, Review, Verdict,
};
use serde::Deserialize;

/// The API group of ClusterTasks and CustomTasks, unless the operator sets another.
const GROUP: &str = "aggregated.tasks.example.com";

/// Times end with the year 9999; nothing that is to be done in time takes so long.
const LONGEST: Duration = Duration::from_secs(876_000 * 3600);

/// The plugin.
pub struct ClusterTasks {
    settings: GroupVersion,
}

#[derive(Deserialize)]
struct ClusterTask {
    #[serde(default)]
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    deadline_after: Option<String>,
}

#[derive(Deserialize)]
struct CustomTask {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    namespace: String,
    name: String,
}

impl Plugin for ClusterTasks {
    fn configure(settings: &str) -> Result<Self, String> {
        Ok(Self {
            settings: GroupVersion::from_settings(settings, GROUP, "v1")?,
        })
    }

    fn describe(&self) -> Description {
        describe::description(&self.settings)
    }
}

impl Admission for ClusterTasks {
    fn admit(
        &self,
        _resource: &str,
        review: &Review,
        kubernetes: &dyn Kubernetes,
    ) -> Result<Verdict, Failure> {
        let name = &review.key.name;
        match (review.operation, &review.object) {
            (Operation::Delete, _) => self.unused(name, kubernetes)?,
            (_, Some(object)) => self.valid(name, object)?,
            (_, None) => return Err(Failure::internal("a write without an object")),
        }
        Ok(Verdict::default())
    }
}

impl ClusterTasks {
    /// Refuses while a CustomTask refers to it. The host repeats the question when the answer changed before the
    /// ClusterTask is gone, so that a racing create is never left with a dangling reference.
    fn unused(&self, name: &str, kubernetes: &dyn Kubernetes) -> Result<(), Failure> {
        let GroupVersion { group, version } = &self.settings;
        let users = kubernetes.list(
            &GroupVersionResource::new(group, version, "customtasks"),
            &ListOptions {
                field_selector: format!("spec.clusterTaskRef.name={name}"),
                limit: 1,
                ..ListOptions::default()
            },
        );
        let users = match users {
            Ok(users) => users,
            // Nobody serves CustomTasks here.
            Err(failure) if failure.reason == "NotFound" => return Ok(()),
            Err(failure) => return Err(failure),
        };
        let Some(user) = users.items.first() else {
            return Ok(());
        };
        let user: CustomTask = serde_json::from_slice(user)
            .map_err(|error| Failure::internal(format!("unreadable CustomTask: {error}")))?;
        let (more, refer) = match users.truncated {
            true => (" and others", "refer"),
            false => ("", "refers"),
        };
        Err(Failure::new(
            "Conflict",
            format!(
                "ClusterTask {name:?} cannot be deleted: CustomTask \"{}/{}\"{more} {refer} to it in \
                 spec.clusterTaskRef; delete or change them first",
                user.metadata.namespace, user.metadata.name
            ),
        ))
    }

    fn valid(&self, name: &str, object: &[u8]) -> Result<(), Failure> {
        let what = format!("ClusterTask.{} {name:?}", self.settings.group);
        let task: ClusterTask = serde_json::from_slice(object)
            .map_err(|error| Failure::new("BadRequest", format!("{what}: {error}")))?;
        let judged = |text: &String| match parse_duration(text)? {
            after if after > LONGEST => {
                Err("at most 876000h, a hundred years, is allowed".to_owned())
            }
            _ => Ok(()),
        };
        if let Some(text) = &task.spec.deadline_after
            && let Err(detail) = judged(text)
        {
            return Err(Failure::invalid(
                &what,
                vec![Cause::invalid("spec.deadlineAfter", text, &detail)],
            ));
        }
        Ok(())
    }
}

joinery_sdk::export_admission!(ClusterTasks);

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use joinery_sdk::{ObjectKey, ObjectList};

    use super::*;

    /// Answers each list alike, and keeps what was asked.
    struct Cluster {
        answer: Result<ObjectList, Failure>,
        asked: RefCell<Vec<(GroupVersionResource, ListOptions)>>,
    }

    impl Cluster {
        fn new(answer: Result<ObjectList, Failure>) -> Self {
            Self {
                answer,
                asked: RefCell::default(),
            }
        }
        fn with_users(users: &[&str]) -> Self {
            let items = users.iter().take(1).map(|name| {
                format!(r#"{{"metadata":{{"namespace":"default","name":"{name}"}}}}"#).into_bytes()
            });
            Self::new(Ok(ObjectList {
                items: items.collect(),
                truncated: users.len() > 1,
            }))
        }
    }

    impl Kubernetes for Cluster {
        fn get(&self, _: &GroupVersionResource, _: &ObjectKey) -> Result<Option<Vec<u8>>, Failure> {
            panic!("nothing to get")
        }
        fn list(
            &self,
            gvr: &GroupVersionResource,
            options: &ListOptions,
        ) -> Result<ObjectList, Failure> {
            self.asked.borrow_mut().push((gvr.clone(), options.clone()));
            self.answer.clone()
        }
    }

    fn admit(
        operation: Operation,
        object: Option<&str>,
        cluster: &Cluster,
    ) -> Result<Verdict, Failure> {
        let review = Review {
            operation,
            key: ObjectKey {
                namespace: None,
                name: "nightly".into(),
            },
            object: object.map(|o| o.as_bytes().to_vec()),
            ..Review::default()
        };
        ClusterTasks::configure("")
            .unwrap()
            .admit("clustertasks", &review, cluster)
    }

    #[test]
    fn one_in_use_is_not_deleted() {
        let cluster = Cluster::with_users(&["backup"]);
        let failure = admit(Operation::Delete, None, &cluster).unwrap_err();
        assert_eq!(failure.reason, "Conflict");
        assert!(
            failure.message.contains("\"default/backup\" refer"),
            "{}",
            failure.message
        );
        let (gvr, options) = &cluster.asked.borrow()[0];
        assert_eq!(
            gvr,
            &GroupVersionResource::new("aggregated.tasks.example.com", "v1", "customtasks")
        );
        assert_eq!(options.field_selector, "spec.clusterTaskRef.name=nightly");
        assert_eq!(options.namespace, None);

        let failure =
            admit(Operation::Delete, None, &Cluster::with_users(&["a", "b"])).unwrap_err();
        assert!(
            failure.message.contains("\"default/a\" and others"),
            "{}",
            failure.message
        );
    }

    #[test]
    fn one_that_nobody_uses_is_deleted() {
        assert_eq!(
            admit(Operation::Delete, None, &Cluster::with_users(&[])),
            Ok(Verdict::default())
        );
        let unknown = Cluster::new(Err(Failure::new("NotFound", "no customtasks")));
        assert_eq!(
            admit(Operation::Delete, None, &unknown),
            Ok(Verdict::default())
        );
    }

    #[test]
    fn when_the_users_cannot_be_listed_it_stays() {
        let down = Failure::new("ServiceUnavailable", "later");
        assert_eq!(
            admit(Operation::Delete, None, &Cluster::new(Err(down.clone()))),
            Err(down)
        );
    }

    #[test]
    fn deadline_after_is_a_duration() {
        let cluster = Cluster::with_users(&[]);
        for good in [
            r#"{}"#,
            r#"{"spec":{}}"#,
            r#"{"spec":{"deadlineAfter":"36h","suspended":true}}"#,
        ] {
            assert_eq!(
                admit(Operation::Create, Some(good), &cluster),
                Ok(Verdict::default()),
                "{good}"
            );
        }
        let failure = admit(
            Operation::Update,
            Some(r#"{"spec":{"deadlineAfter":"2d"}}"#),
            &cluster,
        )
        .unwrap_err();
        assert_eq!(failure.reason, "Invalid");
        assert_eq!(failure.causes[0].field, "spec.deadlineAfter");
        assert!(failure.message.starts_with(
            r#"ClusterTask.aggregated.tasks.example.com "nightly" is invalid: spec.deadlineAfter: Invalid value: "2d""#
        ));
        for (text, allowed) in [
            ("876000h", true),
            ("876000h1s", false),
            ("70000000h", false),
        ] {
            let object = format!(r#"{{"spec":{{"deadlineAfter":"{text}"}}}}"#);
            let verdict = admit(Operation::Create, Some(&object), &cluster);
            assert_eq!(verdict.is_ok(), allowed, "{text}");
        }
        assert!(cluster.asked.borrow().is_empty());
    }
}
