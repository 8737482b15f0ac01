//! Stored resources over the embedded store: verbs, resource versions, watches, guards and the life of namespaces.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

mod admission;
mod apply;
mod builtins;
mod guards;
mod lifecycle;
mod model;
mod support;
mod verbs;
mod versions;
mod watches;
