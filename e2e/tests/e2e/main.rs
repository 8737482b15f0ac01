//! End to end: what a user of kubectl sees, standalone and behind a real kube-apiserver. `cargo xtask test` runs it.
//!
//! Checks that hold in both environments are written once, in `checks`, and named as tests by `standalone` and `cluster`.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails where it unwraps nothing; clippy takes only #[test] functions for tests"
)]

mod checks;
mod client;
mod cluster;
mod command_line;
mod crash;
mod documentation;
mod fixtures;
mod languages;
mod note_service;
mod pages;
mod plugin_writer;
mod race;
mod restart;
mod shared;
mod standalone;
mod store;
mod transcripts;
