//! TLS: the serving certificate, and what is asked of clients.
//!
//! Client certificates are requested, never required, and not judged in the handshake: a foreign one must lead to a
//! 401 that says so, not to a broken connection, and one that was good when the connection began may no longer be when
//! a request comes. [`crate::authn`] judges them per request.

mod config;
mod serving;
mod trust;

pub use config::TlsConfig;
pub use serving::{ServingError, ServingIdentity, ServingSource};
pub use trust::{CaBundle, FrontProxy, SharedTrust, Trust, TrustError};
