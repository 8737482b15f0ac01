use crate::{Failure, Kubernetes, ObjectKey, Plugin};

/// Decides what the host may store, and completes it.
pub trait Admission: Plugin {
    /// Admits one object of one request. Called again when the write is retried.
    ///
    /// # Errors
    /// The answer to the request.
    fn admit(
        &self,
        resource: &str,
        review: &Review,
        kubernetes: &dyn Kubernetes,
    ) -> Result<Verdict, Failure>;
}

/// What the request does to the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operation {
    /// There is no such object yet.
    #[default]
    Create,
    /// There is one.
    Update,
    /// It is to go.
    Delete,
}

/// One write, before it is stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Review {
    /// What the request does.
    pub operation: Operation,
    /// `status`, `scale`; none for the resource itself.
    pub subresource: Option<String>,
    /// Which object.
    pub key: ObjectKey,
    /// JSON, after patch, defaults, pruning and schema validation. None on delete.
    pub object: Option<Vec<u8>>,
    /// JSON, as stored. None on create.
    pub old_object: Option<Vec<u8>>,
    /// Who asks.
    pub user: User,
    /// Nothing will be stored.
    pub dry_run: bool,
    /// The time of the request, ms since 1970: the only clock there is.
    pub now: u64,
}

/// Who makes the request, as authenticated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct User {
    /// E.g. `system:serviceaccount:default:builder`.
    pub name: String,
    /// None where the authenticator knows none.
    pub uid: Option<String>,
    /// With `system:authenticated` or `system:unauthenticated`.
    pub groups: Vec<String>,
    /// Keys in lower case.
    pub extra: Vec<(String, Vec<String>)>,
}

/// The write is allowed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// JSON; none: as it came.
    pub object: Option<Vec<u8>>,
    /// Sent to the client as `Warning: 299`.
    pub warnings: Vec<String>,
}
