//! Panics that are caught and told in other words: what the panic says is not printed before these.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}
static HOOK: Once = Once::new();

/// Calls; none if it panicked, of which only the log tells, at level debug.
pub(super) fn catch<T>(call: impl FnOnce() -> T) -> Option<T> {
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            if QUIET.get() {
                tracing::debug!(%panicked, "the store's engine");
            } else {
                before(panicked);
            }
        }));
    });
    QUIET.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(call));
    QUIET.set(false);
    outcome.ok()
}
