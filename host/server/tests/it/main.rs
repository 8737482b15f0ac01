//! The server over real TLS on loopback, in front of a small resource kept in memory.

#![expect(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "tests may fail loudly, and their helpers are for each other"
)]

mod auth;
mod delegated;
mod discovery;
mod errors;
mod fuzz;
mod harness;
mod lifecycle;
mod representations;
mod things;
mod tls;
mod watching;
mod websockets;
mod wire;
mod writes;
