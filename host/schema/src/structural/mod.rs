//! Structural schemas, as a CRD's `openAPIV3Schema` must be: every field has one type that is known without looking
//! into `allOf`, `anyOf`, `oneOf` or `not`, so that an object can be pruned and defaulted.
//!
//! The rules and the wording follow k8s.io/apiextensions-apiserver (pkg/apiserver/schema, pkg/apiserver/validation)
//! and k8s.io/kube-openapi (pkg/validation/validate) at Kubernetes 1.36.

mod cause;
mod check;
mod defaulting;
mod format;
mod list_type;
mod node;
mod parse;
#[cfg(test)]
mod parse_tests;
mod pattern;
mod prune;
mod structure;
mod time;
mod validate;
#[cfg(test)]
mod validate_tests;

use std::sync::Arc;

use serde_json::Value;

pub use cause::Cause;
pub use parse::{Problem, SchemaError};

pub(crate) use node::{Node, Type};

/// A checked structural schema of one kind. Cloning is cheap.
///
/// `metadata` is ObjectMeta whether or not the schema mentions it, and `apiVersion` and `kind` are always known.
#[derive(Clone, Debug)]
pub struct StructuralSchema {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: Node,
    source: Value,
}

impl StructuralSchema {
    /// Reads and checks the JSON text of an `openAPIV3Schema`.
    ///
    /// # Errors
    /// Text that is no JSON object, or a schema that is not structural: each problem names the path of the field in
    /// the schema and what is allowed there.
    pub fn parse(text: &str) -> Result<Self, SchemaError> {
        let source: Value = serde_json::from_str(text).map_err(|e| SchemaError::not_json(&e))?;
        Self::from_value(source)
    }

    /// As [`StructuralSchema::parse`], from JSON that is read already.
    ///
    /// # Errors
    /// As [`StructuralSchema::parse`].
    pub fn from_value(source: Value) -> Result<Self, SchemaError> {
        let root = parse::root(&source)?;
        Ok(Self {
            inner: Arc::new(Inner { root, source }),
        })
    }

    /// The schema as it was given.
    #[must_use]
    pub fn source(&self) -> &Value {
        &self.inner.source
    }

    /// Drops the fields that the schema does not specify and says which: sorted, each as kube-apiserver words it in
    /// warnings and strict errors, e.g. `unknown field "spec.x"`. Unknown fields of ObjectMeta go too.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::root(&self.inner.root, object)
    }

    /// Fills in defaults. Nulls where the schema allows none are dropped first, so that they too get the default.
    pub fn default(&self, object: &mut Value) {
        defaulting::drop_nulls(&self.inner.root, object);
        defaulting::apply(&self.inner.root, object);
    }

    /// Fills in defaults. Nulls for which there is none stay, and are refused by [`validate`](Self::validate): as kube-apiserver has it
    /// of what an apply comes to, which is no body that was decoded.
    pub fn default_but_keep_nulls(&self, object: &mut Value) {
        defaulting::apply(&self.inner.root, object);
    }

    /// What is wrong with the object, worded as kube-apiserver does for custom resources; empty when it is valid.
    /// The content of ObjectMeta is not judged here, only what the schema says of `name` and `generateName`.
    #[must_use]
    pub fn validate(&self, object: &Value) -> Vec<Cause> {
        let mut causes = validate::root(&self.inner.root, object);
        list_type::check(&self.inner.root, object, &mut causes);
        validate::embedded(&self.inner.root, object, &mut causes);
        causes
    }

    pub(crate) fn root(&self) -> &Node {
        &self.inner.root
    }
}
