//! The HTTPS edge: everything that a Kubernetes API server does around its resources.
//!
//! One request goes one way, each step a module:
//!
//! 1. `connection`, `tls`: TLS with HTTP/1.1 and HTTP/2. Client certificates are asked for and judged later.
//! 2. `authn`: who asks. Front proxy, client certificate, bearer token, nobody.
//! 3. `authz`: may they.
//! 4. `request`: what is asked: path, verb, options, body.
//! 5. `verbs` calls the [`joinery_resource::Resource`]; `paths` answers what is no resource (`discovery`, `openapi`,
//!    `health`, `metrics`).
//! 6. `encoding`, `watch`: how to say it: object, list, Table, metadata only; JSON or YAML; watch frames, also over a WebSocket (`websocket`).
//! 7. `respond`: the only place where a [`joinery_object::Status`] becomes HTTP.
//!
//! It follows k8s.io/apiserver; where it differs a comment says why.

mod app;
mod authn;
mod authz;
mod body;
mod connection;
mod discovery;
mod encoding;
mod expiring;
mod handler;
mod health;
mod limits;
mod metrics;
mod openapi;
mod paths;
mod request;
mod respond;
mod retry;
mod server;
mod tls;
mod verbs;
mod version;
mod watch;
mod websocket;

pub use authn::{
    Authentication, Authenticator, ClientCertificates, ClusterTrustError, Credentials,
    FrontProxyHeaders, Presented, Rejected, StaticTokens, TokenReviews, follow_cluster_trust,
};
pub use authz::{AdministratorsOnly, SubjectAccessReviews};
pub use health::Health;
pub use limits::Limits;
pub use server::{Config, Server, StartError};
pub use tls::{
    CaBundle, FrontProxy, ServingError, ServingIdentity, ServingSource, SharedTrust, TlsConfig,
    Trust, TrustError,
};
