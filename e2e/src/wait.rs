//! Waiting for something that another process does.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::interrupt;

const PAUSE: Duration = Duration::from_millis(100);

/// Asks `probe` until it gives a value. An error of the probe, a signal or the end of `timeout` ends the wait.
pub(crate) fn until<T>(
    what: &str,
    timeout: Duration,
    probe: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    until_with(PAUSE, what, timeout, probe)
}

/// As [`until`], with another pause between two questions.
pub(crate) fn until_with<T>(
    pause: Duration,
    what: &str,
    timeout: Duration,
    mut probe: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let end = Instant::now() + timeout;
    loop {
        interrupt::check()?;
        if let Some(value) = probe()? {
            return Ok(value);
        }
        if Instant::now() >= end {
            bail!("waited {} s in vain for {what}", timeout.as_secs());
        }
        interrupt::sleep(pause)?;
    }
}
