//! Plugins as the host runs them: the real ones, and one that misbehaves as it is told.
#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod calls;
mod compiling;
mod components;
mod contract;
mod guests;
mod hostile;
mod loading;
mod plugins;
mod policy;
mod served;
mod soak;
