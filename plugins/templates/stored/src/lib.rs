//! @KIND@: a resource whose objects the host stores; this decides what is admitted, and completes it.

use joinery_sdk::{
    Admission, ApiResource, Cause, Column, Description, Failure, GroupVersion, Kubernetes,
    Operation, Plugin, Review, Shape, Subresource, Verdict,
};
use serde_json::{Value, json};

/// The plugin: its settings, and nothing else.
pub struct Logic {
    at: GroupVersion,
}

impl Plugin for Logic {
    fn configure(settings: &str) -> Result<Self, String> {
        let at = GroupVersion::from_settings(settings, "@GROUP@", "v1")?;
        Ok(Self { at })
    }

    fn describe(&self) -> Description {
        let resource = ApiResource {
            group: self.at.group.clone(),
            version: self.at.version.clone(),
            kind: "@KIND@".into(),
            plural: "@PLURAL@".into(),
            namespaced: true,
            schema: include_str!("schema.json").into(),
            columns: vec![
                Column::new("Level", "string", ".spec.level", "How urgent it is."),
                Column::new("Words", "integer", ".status.words", "Words of the message."),
                Column::new("Age", "date", ".metadata.creationTimestamp", ""),
            ],
            selectable_fields: vec![".spec.level".into()],
            subresources: vec![Subresource::Status],
            shape: Shape::Stored,
            ..ApiResource::default()
        };
        Description {
            resources: vec![resource],
            ..Description::default()
        }
    }
}

impl Admission for Logic {
    fn admit(
        &self,
        _resource: &str,
        review: &Review,
        _kubernetes: &dyn Kubernetes,
    ) -> Result<Verdict, Failure> {
        // Anybody with the right to may delete, and write the status.
        if review.operation == Operation::Delete || review.subresource.is_some() {
            return Ok(Verdict::default());
        }
        let text = review.object.as_deref().unwrap_or_default();
        // It has passed the schema: it is an object, and has a spec with a message.
        let mut object: Value = serde_json::from_slice(text)
            .map_err(|error| Failure::new("BadRequest", error.to_string()))?;

        let message = object["spec"]["message"].as_str().unwrap_or_default();
        let words = message.split_whitespace().count();
        if words == 0 {
            let what = format!("@KIND@.{} {:?}", self.at.group, review.key.name);
            let cause = Cause::required("spec.message", "at least one word");
            return Err(Failure::invalid(&what, vec![cause]));
        }
        let mut warnings = Vec::new();
        if words > 100 {
            warnings.push("spec.message: this is a long one".to_owned());
        }
        if object["spec"].get("level").is_none() {
            object["spec"]["level"] = json!("info");
        }
        // On create and update of the object itself the plugin writes the status; clients cannot.
        object["status"]["words"] = json!(words);
        Ok(Verdict {
            object: Some(object.to_string().into_bytes()),
            warnings,
        })
    }
}

joinery_sdk::export_admission!(Logic);

#[cfg(test)]
mod tests {
    use joinery_sdk::{GroupVersionResource, ListOptions, ObjectKey, ObjectList};

    use super::*;

    /// A cluster in which there is nothing.
    struct Empty;

    impl Kubernetes for Empty {
        fn get(&self, _: &GroupVersionResource, _: &ObjectKey) -> Result<Option<Vec<u8>>, Failure> {
            Ok(None)
        }

        fn list(&self, _: &GroupVersionResource, _: &ListOptions) -> Result<ObjectList, Failure> {
            Ok(ObjectList::default())
        }
    }

    fn create(spec: Value) -> Result<Value, Failure> {
        let logic = Logic::configure("").expect("no settings are good settings");
        let object = json!({"metadata": {"name": "a", "namespace": "default"}, "spec": spec});
        let review = Review {
            object: Some(object.to_string().into_bytes()),
            ..Review::default()
        };
        let verdict = logic.admit("@PLURAL@", &review, &Empty)?;
        let text = verdict.object.expect("it writes the status");
        Ok(serde_json::from_slice(&text).expect("JSON"))
    }

    #[test]
    fn what_is_left_out_is_filled_in() {
        let object = create(json!({"message": "two words"})).expect("admitted");
        assert_eq!(object["spec"]["level"], "info");
        assert_eq!(object["status"]["words"], 2);
    }

    #[test]
    fn an_empty_message_is_refused() {
        let failure = create(json!({"message": "  "})).expect_err("refused");
        assert_eq!(failure.reason, "Invalid");
        assert_eq!(failure.causes[0].field, "spec.message");
    }

    #[test]
    fn the_operator_may_choose_the_group() {
        let logic = Logic::configure(r#"{"group":"notes.example.org"}"#).expect("good settings");
        assert_eq!(logic.describe().resources[0].group, "notes.example.org");
    }
}
