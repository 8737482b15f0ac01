//! Server-side apply: a patch that creates what is not there, for who may create.

use bytes::Bytes;
use joinery_object::{ObjectKey, PatchOptions, Status};
use joinery_resource::{Attributes, Authorizer, Caller, PatchType, Resource, Written};
use serde_json::{Map, Value};

use crate::authz;

/// How often an apply begins anew because the object went meanwhile.
const ATTEMPTS: usize = 5;

/// Where a configuration is applied, by whom, and who decides whether they may.
pub(super) struct Apply<'a> {
    pub(super) resource: &'a dyn Resource,
    pub(super) authorizer: &'a dyn Authorizer,
    pub(super) caller: &'a Caller,
    pub(super) key: &'a ObjectKey,
    pub(super) subresource: Option<&'a str>,
    /// Of the patch, which has been allowed.
    pub(super) attributes: Attributes,
    pub(super) options: &'a PatchOptions,
}

impl Apply<'_> {
    /// Applies a configuration. Whether the user may create is asked if there is no object.
    ///
    /// What is there when that is decided is named in the configuration by its uid: should it go before the write, the
    /// write fails, and nothing comes to be that nobody was asked about.
    ///
    /// # Errors
    /// 403 as of a create, and those of the patch.
    pub(super) async fn run(&self, configuration: Bytes) -> Result<Written, Status> {
        // Nothing is created by its subresource.
        if self.subresource.is_some() {
            return self.once(configuration).await;
        }
        let mut attempt = 1;
        loop {
            let Some(uid) = self.uid().await? else {
                self.may_create().await?;
                return self.once(configuration).await;
            };
            match self.once(pin(&configuration, &uid)).await {
                // 422: there is another of that name now.
                Err(refused) if matches!(refused.code, 409 | 422) && attempt < ATTEMPTS => {
                    if self.uid().await?.as_deref() == Some(&uid) {
                        return Err(refused);
                    }
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    async fn once(&self, configuration: Bytes) -> Result<Written, Status> {
        self.resource
            .patch(
                self.caller,
                self.key,
                self.subresource,
                PatchType::Apply,
                configuration,
                self.options,
            )
            .await
    }

    /// The uid of the object that there is now.
    async fn uid(&self) -> Result<Option<String>, Status> {
        match self.resource.get(self.caller, self.key, None).await {
            Ok(object) => Ok(Some(object.uid().to_owned())),
            Err(status) if status.code == 404 => Ok(None),
            Err(status) => Err(status),
        }
    }

    async fn may_create(&self) -> Result<(), Status> {
        let mut attributes = self.attributes.clone();
        if let Attributes::Resource { verb, .. } = &mut attributes {
            "create".clone_into(verb);
        }
        authz::check(self.authorizer, &self.caller.user, &attributes).await
    }
}

/// The configuration with a uid, if it names none. One that is no object stays as it is: it is refused anyway.
fn pin(configuration: &Bytes, uid: &str) -> Bytes {
    let Ok(mut value) = serde_json::from_slice::<Value>(configuration) else {
        return configuration.clone();
    };
    let Some(members) = value.as_object_mut() else {
        return configuration.clone();
    };
    let metadata = members.entry("metadata").or_insert(Value::Null);
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    if let Some(metadata) = metadata.as_object_mut() {
        let named = metadata.entry("uid").or_insert(Value::Null);
        if named.is_null() || named == "" {
            *named = uid.into();
        }
    }
    value.to_string().into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use joinery_object::{GroupVersionResource, ListOptions, Object};
    use joinery_resource::{Decision, Definition, List, User, Watch};
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;

    /// One object, or none, as each of its reads shall find it; and what was asked and written.
    #[derive(Default)]
    struct Fake {
        found: Mutex<Vec<Option<&'static str>>>,
        may_create: bool,
        told: Mutex<Vec<String>>,
    }

    fn gvr() -> GroupVersionResource {
        GroupVersionResource::new("g", "v1", "things")
    }

    fn object(uid: &str) -> Arc<Object> {
        let text = json!({"metadata": {"name": "x", "uid": uid, "resourceVersion": "1"}});
        Arc::new(Object::parse(text.to_string().into()).unwrap())
    }

    #[async_trait]
    impl Authorizer for Fake {
        async fn authorize(&self, _: &User, attributes: &Attributes) -> Result<Decision, Status> {
            if let Attributes::Resource { verb, name, .. } = attributes {
                let name = name.as_deref().unwrap_or_default();
                self.told.lock().push(format!("may {verb} {name}"));
            }
            Ok(if self.may_create {
                Decision::Allowed
            } else {
                Decision::Denied(String::new())
            })
        }
    }

    #[async_trait]
    impl Resource for Fake {
        fn definition(&self) -> Arc<Definition> {
            unreachable!("an apply does not ask for it")
        }

        async fn get(
            &self,
            _: &Caller,
            key: &ObjectKey,
            _: Option<&str>,
        ) -> Result<Arc<Object>, Status> {
            match self.found.lock().remove(0) {
                Some(uid) => Ok(object(uid)),
                None => Err(Status::not_found(&gvr(), &key.name)),
            }
        }

        async fn list(&self, _: &Caller, _: Option<&str>, _: &ListOptions) -> Result<List, Status> {
            unreachable!("an apply does not ask for it")
        }

        async fn watch(
            &self,
            _: &Caller,
            _: Option<&str>,
            _: &ListOptions,
        ) -> Result<Watch, Status> {
            unreachable!("an apply does not ask for it")
        }

        async fn patch(
            &self,
            _: &Caller,
            key: &ObjectKey,
            _: Option<&str>,
            _: PatchType,
            body: Bytes,
            _: &PatchOptions,
        ) -> Result<Written, Status> {
            let configuration: Value = serde_json::from_slice(&body).unwrap();
            let uid = configuration["metadata"]["uid"].as_str();
            self.told.lock().push(format!("apply to {uid:?}"));
            match uid {
                Some("gone") => Err(Status::conflict(&gvr(), &key.name, "uid mismatch")),
                uid => Ok(Written {
                    object: object(uid.unwrap_or("new")),
                    created: uid.is_none(),
                    removed: false,
                    warnings: Vec::new(),
                }),
            }
        }
    }

    async fn apply(
        fake: &Fake,
        subresource: Option<&str>,
        configuration: &'static str,
    ) -> Result<bool, Status> {
        let caller = Caller {
            user: User {
                name: "u".to_owned(),
                ..User::default()
            },
            now: 0,
        };
        let apply = Apply {
            resource: fake,
            authorizer: fake,
            caller: &caller,
            key: &ObjectKey::new(Some("n"), "x"),
            subresource,
            attributes: Attributes::Resource {
                verb: "patch".to_owned(),
                group: "g".to_owned(),
                version: "v1".to_owned(),
                resource: "things".to_owned(),
                subresource: String::new(),
                namespace: Some("n".to_owned()),
                name: Some("x".to_owned()),
                label_selector: String::new(),
                field_selector: String::new(),
            },
            options: &PatchOptions::default(),
        };
        let written = apply.run(Bytes::from_static(configuration.as_bytes()));
        written.await.map(|written| written.created)
    }

    fn finding(found: &[Option<&'static str>], may_create: bool) -> Fake {
        Fake {
            found: Mutex::new(found.to_vec()),
            may_create,
            told: Mutex::default(),
        }
    }

    #[tokio::test]
    async fn only_who_may_create_creates_by_applying() {
        let fake = finding(&[None], true);
        assert!(apply(&fake, None, "{}").await.unwrap());
        assert_eq!(*fake.told.lock(), ["may create x", "apply to None"]);
        let fake = finding(&[None], false);
        let status = apply(&fake, None, "{}").await.unwrap_err();
        assert_eq!(
            status.message,
            "things.g \"x\" is forbidden: User \"u\" cannot create resource \"things\" in API group \"g\" in the \
             namespace \"n\""
        );
        assert_eq!(*fake.told.lock(), ["may create x"]);
    }

    #[tokio::test]
    async fn nobody_is_asked_about_a_create_if_the_object_is_there() {
        let fake = finding(&[Some("u")], false);
        assert!(!apply(&fake, None, "{}").await.unwrap());
        assert_eq!(*fake.told.lock(), ["apply to Some(\"u\")"]);
    }

    #[tokio::test]
    async fn an_object_that_goes_meanwhile_is_not_created_unasked() {
        let fake = finding(&[Some("gone"), None, None], false);
        assert_eq!(apply(&fake, None, "{}").await.unwrap_err().code, 403);
        assert_eq!(
            *fake.told.lock(),
            ["apply to Some(\"gone\")", "may create x"]
        );
        // Another of its name is applied to.
        let fake = finding(&[Some("gone"), Some("u"), Some("u")], false);
        assert!(!apply(&fake, None, "{}").await.unwrap());
    }

    #[tokio::test]
    async fn a_conflict_about_what_is_there_is_told() {
        let fake = finding(&[Some("u"), Some("u")], false);
        let configuration = r#"{"metadata":{"uid":"gone"}}"#;
        let status = apply(&fake, None, configuration).await.unwrap_err();
        assert_eq!(status.code, 409);
    }

    #[tokio::test]
    async fn a_subresource_is_applied_to_without_a_look() {
        let fake = finding(&[], false);
        apply(&fake, Some("status"), "{}").await.unwrap();
        assert_eq!(*fake.told.lock(), ["apply to None"]);
    }

    #[test]
    fn a_configuration_is_pinned_to_what_is_there_unless_it_says_which_it_means() {
        for (configuration, pinned) in [
            ("{}", r#"{"metadata":{"uid":"u"}}"#),
            (r#"{"metadata":null}"#, r#"{"metadata":{"uid":"u"}}"#),
            (r#"{"metadata":{"uid":""}}"#, r#"{"metadata":{"uid":"u"}}"#),
            (r#"{"metadata":{"uid":"x"}}"#, r#"{"metadata":{"uid":"x"}}"#),
            (r#"{"metadata":1}"#, r#"{"metadata":1}"#),
            ("[]", "[]"),
            ("", ""),
        ] {
            let configuration = Bytes::from_static(configuration.as_bytes());
            assert_eq!(pin(&configuration, "u"), pinned);
        }
    }
}
