//! Views over an upstream in memory, with joins that are native code.

mod bad;
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
