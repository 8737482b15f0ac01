//! Ctrl-C and friends. A signal is only noted; every wait in this crate looks at the note, so that one path of ordinary returns and
//! destructors stops everything in order.

use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};

static SIGNAL: AtomicI32 = AtomicI32::new(0);

const POLL: Duration = Duration::from_millis(20);

/// The process was asked to end by the signal of this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted(pub i32);

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "interrupted by signal {}", self.0)
    }
}

impl std::error::Error for Interrupted {}

/// Notes SIGINT, SIGTERM and SIGHUP from now on instead of dying of them. Call once, early in `main`.
///
/// # Errors
/// When the signal handlers or their thread cannot be set up.
pub fn listen() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .context("cannot start the signal listener")?;
    let mut streams = {
        let _inside = runtime.enter();
        let mut streams = Vec::new();
        for kind in [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ] {
            let stream = signal(kind)
                .with_context(|| format!("cannot listen for signal {}", kind.as_raw_value()))?;
            streams.push((kind.as_raw_value(), stream));
        }
        streams
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            runtime.block_on(async move {
                let [(int, on_int), (term, on_term), (hup, on_hup)] = &mut streams[..] else {
                    return;
                };
                loop {
                    let number = tokio::select! {
                        _ = on_int.recv() => *int,
                        _ = on_term.recv() => *term,
                        _ = on_hup.recv() => *hup,
                    };
                    SIGNAL.store(number, Ordering::SeqCst);
                }
            });
        })
        .context("cannot start the signal listener")?;
    Ok(())
}

/// The number of the last signal that asked this process to end, if any.
#[must_use]
pub fn interrupted() -> Option<i32> {
    match SIGNAL.load(Ordering::SeqCst) {
        0 => None,
        number => Some(number),
    }
}

/// Fails once a signal was noted.
pub(crate) fn check() -> Result<()> {
    interrupted().map_or(Ok(()), |number| Err(Interrupted(number).into()))
}

/// Sleeps, but no longer than until a signal arrives.
///
/// # Errors
/// [`Interrupted`] when a signal arrived.
pub fn sleep(duration: Duration) -> Result<()> {
    let end = Instant::now() + duration;
    loop {
        check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(POLL));
    }
}

/// Runs `command` to its end; a signal ends the wait, and the child with it.
///
/// # Errors
/// When the command cannot be started, or [`Interrupted`].
pub fn status(command: &mut Command) -> Result<ExitStatus> {
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    wait(&mut child)
}

/// Waits for `child`; a signal ends the wait, and the child with it.
pub(crate) fn wait(child: &mut Child) -> Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a child")? {
            return Ok(status);
        }
        if let Err(interrupted) = sleep(POLL) {
            // It may already be gone: both results say nothing new.
            let _ = child.kill();
            let _ = child.wait();
            return Err(interrupted);
        }
    }
}
