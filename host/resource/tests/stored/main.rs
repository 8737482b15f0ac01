//! Stored resources over the embedded store: verbs, resource versions, watches, guards and the life of namespaces.

mod admission;
mod builtins;
mod guards;
mod lifecycle;
mod support;
mod verbs;
mod versions;
mod watches;
