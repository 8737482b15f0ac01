//! x
mod abi;
