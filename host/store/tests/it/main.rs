//! Tests of the embedded engine: the contract, a model, crashes and damage.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod backup;
mod crash;
mod damage;
mod full;
mod model;

mod contract {
    use joinery_store::{Embedded, contract_tests};

    contract_tests!(Embedded::temporary().unwrap());
}

mod retention;
