use crate::{Failure, GroupVersionResource};

/// Reading other resources, within the plugin's grants. Joinery's own come from its store, and what was read of them
/// must still hold when the write is committed: if not, the host calls `admit` again.
pub trait Kubernetes {
    /// One object as JSON, or none.
    ///
    /// # Errors
    /// As the host answers, e.g. `Forbidden` without a grant and `NotFound` for an unknown resource.
    fn get(&self, gvr: &GroupVersionResource, key: &ObjectKey) -> Result<Option<Vec<u8>>, Failure>;

    /// Objects by namespace, then name.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn list(
        &self,
        gvr: &GroupVersionResource,
        options: &ListOptions,
    ) -> Result<ObjectList, Failure>;
}

/// Names one object of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectKey {
    /// None for cluster-scoped objects.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
}

/// What to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListOptions {
    /// None: all namespaces.
    pub namespace: Option<String>,
    /// Empty for all.
    pub label_selector: String,
    /// Empty for all.
    pub field_selector: String,
    /// 0: the host's bound.
    pub limit: u32,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectList {
    /// JSON each.
    pub items: Vec<Vec<u8>>,
    /// True: there were more than the limit.
    pub truncated: bool,
}
