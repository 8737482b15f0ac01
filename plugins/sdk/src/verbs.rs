use crate::{Failure, Kubernetes, Plugin, User};

/// Answers the verbs of a resource by itself. Those that [`Shape::Served`](crate::Shape::Served) lists are asked for; the
/// host adds watch, patch and deletecollection, selectors, tables and resource versions.
pub trait Verbs: Plugin {
    /// One object.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    fn get(&self, request: &Request, name: &str, outside: &Outside<'_>) -> Result<Entry, Failure>;

    /// A page of a list, by namespace, then name.
    ///
    /// # Errors
    /// The answer to the request.
    fn list(
        &self,
        request: &Request,
        _page: &ListPage,
        _outside: &Outside<'_>,
    ) -> Result<Page, Failure> {
        Err(unsupported(request, "list"))
    }

    /// A new object, given as JSON.
    ///
    /// # Errors
    /// `AlreadyExists` when there is one of that name.
    fn create(
        &self,
        request: &Request,
        _object: &[u8],
        _outside: &Outside<'_>,
    ) -> Result<Entry, Failure> {
        Err(unsupported(request, "create"))
    }

    /// Another state of an object, given as JSON. `etag`: what it must still have.
    ///
    /// # Errors
    /// `Conflict` when it has another etag, `NotFound` when there is no such object.
    fn update(
        &self,
        request: &Request,
        _name: &str,
        _object: &[u8],
        _etag: Option<&str>,
        _outside: &Outside<'_>,
    ) -> Result<Entry, Failure> {
        Err(unsupported(request, "update"))
    }

    /// Takes an object away.
    ///
    /// # Errors
    /// As [`Verbs::update`].
    fn delete(
        &self,
        request: &Request,
        _name: &str,
        _etag: Option<&str>,
        _outside: &Outside<'_>,
    ) -> Result<(), Failure> {
        Err(unsupported(request, "delete"))
    }
}

fn unsupported(request: &Request, verb: &str) -> Failure {
    let message = format!("{verb} is not supported on {}", request.resource);
    Failure::new("MethodNotAllowed", message)
}

/// What all verbs are told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The plural.
    pub resource: String,
    /// None: cluster-scoped, or a list of all namespaces.
    pub namespace: Option<String>,
    /// Who asks; `system:joinery` where the host compares lists for those who watch.
    pub user: User,
    /// Nothing may be changed.
    pub dry_run: bool,
    /// The time of the request, ms since 1970: the only clock there is.
    pub now: u64,
}

/// Which part of a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListPage {
    /// A hint: the host filters again.
    pub label_selector: String,
    /// As above.
    pub field_selector: String,
    /// At most so many.
    pub limit: u32,
    /// What the page before gave.
    pub next: Option<String>,
}

/// One object as it now is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// JSON, with its apiVersion, kind, namespace, name and uid.
    pub object: Vec<u8>,
    /// Changes when the object does; opaque.
    pub etag: String,
}

/// A part of a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// By namespace, then name, over all pages.
    pub entries: Vec<Entry>,
    /// For the next call; none: complete.
    pub next: Option<String>,
}

/// What a verb may reach: types of the test's own in a test.
pub struct Outside<'a> {
    /// Other resources, within the plugin's grants.
    pub kubernetes: &'a dyn Kubernetes,
    /// Other hosts, within the plugin's grants.
    pub http: &'a dyn Http,
}

/// Calls over HTTP.
pub trait Http {
    /// Sends a request and waits for the answer, whatever its status.
    ///
    /// # Errors
    /// See [`HttpError`].
    fn send(&self, request: &HttpRequest) -> Result<HttpResponse, HttpError>;
}

/// One call. Redirects are not followed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HttpRequest {
    /// `GET`, `POST`, …
    pub method: String,
    /// Absolute, `http` or `https`.
    pub url: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// At most 1 MiB.
    pub body: Vec<u8>,
    /// 0: the host's bound.
    pub timeout_ms: u32,
}

impl HttpRequest {
    /// A request without a body.
    pub fn new(method: &str, url: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            url: url.into(),
            ..Self::default()
        }
    }

    /// With one more header.
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HttpResponse {
    /// E.g. 200.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// At most 4 MiB.
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum HttpError {
    /// The operator does not grant this host.
    Denied(String),
    /// The request cannot be sent.
    Invalid(String),
    /// No whole answer in time.
    Timeout,
    /// The body of the request or of the answer.
    TooLarge(String),
    /// No connection, no TLS, or no HTTP.
    Failed(String),
}

impl From<HttpError> for Failure {
    /// What a client is told whose request needed the answer.
    fn from(error: HttpError) -> Self {
        let (reason, message) = match error {
            HttpError::Denied(message) => ("Forbidden", message),
            HttpError::Invalid(message) => ("InternalError", message),
            HttpError::Timeout => ("Timeout", "the service did not answer in time".to_owned()),
            HttpError::TooLarge(message) => ("InternalError", message),
            HttpError::Failed(message) => ("ServiceUnavailable", message),
        };
        Self::new(reason, message)
    }
}
