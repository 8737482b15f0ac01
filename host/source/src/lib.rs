//! Upstream resources, and caches of them as raw bytes.

mod budget;
mod cache;
mod feed;
mod kubernetes;
mod list;
mod past;
mod protobuf;
pub mod testing;
mod upstream;

pub use budget::ByteBudget;
pub use cache::{CacheState, SourceCache, SourceSpec};
pub use kubernetes::{KubernetesUpstream, url_length};
pub use upstream::{Page, Query, Upstream, UpstreamError, UpstreamEvent, UpstreamWatch};
