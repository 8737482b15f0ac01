//! Views over an upstream in memory, with joins that are native code.
#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

mod bad;
mod bounds;
mod client;
mod incremental;
mod joins;
mod live;
mod replace;
mod restart;
mod same;
mod scope;
mod size;
mod versions;
mod world;
