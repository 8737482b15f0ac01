//! The controller against an API server in memory.
#![expect(
    clippy::unwrap_used,
    reason = "a test may fail loudly, also in its helpers"
)]

mod fake;
mod lease;
mod reconcile;
