//! Server-side apply and managed fields (KEP-555) of resources that are stored here, as kube-apiserver has them for
//! custom resources.
//!
//! A field has owners: who wrote it last, and who applied the value that it has. They stand in
//! `metadata.managedFields`, one entry for each manager, operation, version and subresource, with the set of its
//! fields ([`FieldSet`]) as `fieldsV1`. [`FieldManager`] keeps them: [`FieldManager::update`] with every write,
//! [`FieldManager::apply`] when a client says what it wants to own.
//!
//! What can be owned for itself is in the schema: `x-kubernetes-list-type`, `x-kubernetes-list-map-keys` and
//! `x-kubernetes-map-type`.
//!
//! Behaviour and wording follow k8s.io/apimachinery/pkg/util/managedfields and sigs.k8s.io/structured-merge-diff v6 at
//! Kubernetes 1.36; the tests compare with them (host/apply/oracle). Otherwise are:
//! - A configuration that is not as the schema has it is answered with 400, not 500.
//! - Entries of a version that is not served are dropped, as they are for built-in resources; kube-apiserver refuses to
//!   apply to such a custom resource.
//! - The subresource status owns nothing but status; in kube-apiserver it comes to own fields beside spec and metadata.
//! - The oldest entries of updates are merged without loss where they are of the same second.

mod cap;
mod conflict;
mod element;
mod fields_v1;
mod go;
mod last_applied;
mod managed;
mod manager;
#[cfg(test)]
mod manager_tests;
mod set;
mod times;
mod typed;
mod types;
mod updater;
mod value;

pub use element::{Path, PathElement};
pub use fields_v1::FieldsError;
pub use manager::{FieldManager, Untracked, Writer};
pub use set::FieldSet;
pub use times::keep_times;
