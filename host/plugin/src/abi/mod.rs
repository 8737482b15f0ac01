//! Between the host's types and those of the contract: one adapter a version of it. The host goes by what a component
//! exports, so that with a second version an instance is one of two.

mod v0_1;

pub(crate) use v0_1::{Answer, Call, Exports, Indices, link};
