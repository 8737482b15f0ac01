//! Which objects a list, a watch or a deletecollection is about.

use std::ops::Bound;
use std::sync::Arc;

use joinery_object::{
    FieldSelector, LabelSelector, ListOptions, Object, ObjectKey, Objects, Scope, Status,
};

use crate::fields::{self, Fields};

/// A namespace and selectors, checked against the fields of the resource.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    namespace: Option<Arc<str>>,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    /// # Errors
    /// 400 for a field that is not selectable.
    pub(crate) fn new(
        namespace: Option<&str>,
        labels: LabelSelector,
        fields: FieldSelector,
        selectable: &Fields,
    ) -> Result<Self, Status> {
        // That what has no namespace is not selected by it, is the server's check: here it selects nothing.
        fields.check_fields(true, selectable.names())?;
        Ok(Self {
            namespace: namespace.map(Into::into),
            labels,
            fields,
        })
    }

    /// What the options of a request are about.
    ///
    /// # Errors
    /// 400 for a field that is not selectable.
    pub(crate) fn from_options(
        namespace: Option<&str>,
        options: &ListOptions,
        selectable: &Fields,
    ) -> Result<Self, Status> {
        let (labels, fields) = (&options.label_selector, &options.field_selector);
        Self::new(namespace, labels.clone(), fields.clone(), selectable)
    }

    /// Whether only the namespace narrows it.
    pub(crate) fn has_no_selectors(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The one namespace; none for all.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// How many of these objects the namespace has: those that are meant, if there are no selectors.
    pub(crate) fn count(&self, objects: &Objects) -> u64 {
        objects.count(self.namespace.as_ref())
    }

    /// As far as keys tell.
    pub(crate) fn scope(&self) -> Scope {
        let name = self.fields.requires_exact_match("metadata.name");
        Scope {
            namespace: self.namespace.clone(),
            name: name.map(Into::into),
        }
    }

    /// Whether the object is meant.
    pub(crate) fn matches(&self, object: &Object) -> bool {
        (self.namespace.is_none() || self.namespace == object.key().namespace)
            && self.labels.matches(|key| object.label(key))
            && self.fields_match(object)
    }

    fn fields_match(&self, object: &Object) -> bool {
        self.fields.requirements().iter().all(|requirement| {
            let equal = match requirement.field.as_str() {
                "metadata.name" => *object.key().name == *requirement.value,
                "metadata.namespace" => {
                    object.key().namespace.as_deref().unwrap_or_default() == requirement.value
                }
                field => fields::value(object, field) == requirement.value,
            };
            equal != requirement.negated
        })
    }

    /// The objects that are meant, in the order of their keys, after this one.
    pub(crate) fn of<'a>(
        &'a self,
        objects: &'a Objects,
        after: Option<&ObjectKey>,
    ) -> impl Iterator<Item = &'a Arc<Object>> {
        let name = self.fields.requires_exact_match("metadata.name");
        let start = match (after, &self.namespace) {
            (Some(after), _) => Bound::Excluded(after.clone()),
            (None, Some(namespace)) => {
                Bound::Included(ObjectKey::new(Some(namespace), name.unwrap_or_default()))
            }
            (None, None) => Bound::Unbounded,
        };
        objects
            .from(start)
            .take_while(move |object| {
                // Keys of a namespace lie together, so what follows another namespace, or the one name, is not meant.
                let namespace = &object.key().namespace;
                self.namespace.is_none()
                    || (self.namespace == *namespace
                        && name.is_none_or(|name| *object.key().name <= *name))
            })
            .filter(|object| self.matches(object))
    }
}

#[cfg(test)]
mod tests {
    use joinery_object::ResourceVersion;

    use super::*;

    fn objects() -> Objects {
        ["a/x", "b/w", "b/x", "b/y", "c/x"]
            .into_iter()
            .map(|key| {
                let (namespace, name) = key.split_once('/').unwrap();
                let text = format!(
                    r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","labels":{{"l":"{name}"}}}},"spec":{{"p":1}}}}"#
                );
                let object = Object::parse_at(text.into(), ResourceVersion::single(1)).unwrap();
                (object.key().clone(), Arc::new(object))
            })
            .collect()
    }

    fn names(
        namespace: Option<&str>,
        labels: &str,
        fields: &str,
        after: Option<&str>,
    ) -> Vec<String> {
        let selectable = Fields::new(&[".spec.p"]);
        let selection = Selection::new(
            namespace,
            labels.parse().unwrap(),
            fields.parse().unwrap(),
            &selectable,
        )
        .unwrap();
        let after = after.map(|name| ObjectKey::new(namespace, name));
        selection
            .of(&objects(), after.as_ref())
            .map(|object| object.key().to_string())
            .collect()
    }

    #[test]
    fn namespaces_and_selectors_narrow_it() {
        assert_eq!(names(None, "", "", None).len(), 5);
        assert_eq!(names(Some("b"), "", "", None), ["b/w", "b/x", "b/y"]);
        assert_eq!(names(Some("b"), "", "", Some("w")), ["b/x", "b/y"]);
        assert_eq!(names(None, "l in (x)", "", None), ["a/x", "b/x", "c/x"]);
        assert_eq!(names(Some("b"), "", "metadata.name=x", None), ["b/x"]);
        assert_eq!(
            names(None, "", "metadata.name=x,metadata.namespace!=b", None),
            ["a/x", "c/x"]
        );
        assert_eq!(names(None, "", "spec.p=1,metadata.name=w", None), ["b/w"]);
        assert!(names(None, "", "spec.p=2", None).is_empty());
        assert!(names(Some("d"), "", "", None).is_empty());
    }

    #[test]
    fn a_field_that_is_not_declared_is_a_bad_request() {
        let fields = "spec.q=1".parse().unwrap();
        let result = Selection::new(None, LabelSelector::default(), fields, &Fields::default());
        assert_eq!(result.unwrap_err().code, 400);
    }
}
