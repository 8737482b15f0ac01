//! For tests of engines and of what stands on a store.

pub mod contract;
