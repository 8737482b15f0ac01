//! What the user sees while something is being prepared: one line a step, on stderr, with the seconds since the start of the process.

use std::sync::OnceLock;
use std::time::Instant;

static START: OnceLock<Instant> = OnceLock::new();

/// Prints `message` on stderr behind the seconds since the first call. stdout stays free for what a command given by the user prints.
pub fn say(message: impl AsRef<str>) {
    let start = START.get_or_init(Instant::now);
    eprintln!(
        "[{:6.1}s] {}",
        start.elapsed().as_secs_f64(),
        message.as_ref()
    );
}
