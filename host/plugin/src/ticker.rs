//! The clock that interrupts guests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use wasmtime::Engine;

/// How long a guest runs before it yields to the others.
const TICK: Duration = Duration::from_millis(5);

/// Raises the engine's epoch while guests run, and sleeps while none does.
pub(crate) struct Ticker {
    running: Arc<AtomicUsize>,
    thread: Thread,
}

impl Ticker {
    /// Starts the thread. It ends when the last engine of its kind is gone.
    pub(crate) fn start(engine: &Engine) -> std::io::Result<Self> {
        let running = Arc::new(AtomicUsize::new(0));
        let engine = engine.weak();
        let count = Arc::downgrade(&running);
        let handle = thread::Builder::new()
            .name("guest-ticker".into())
            .spawn(move || {
                loop {
                    let Some(running) = count.upgrade().map(|c| c.load(Ordering::SeqCst)) else {
                        return;
                    };
                    if running == 0 {
                        // Woken by the next guest, or when the ticker is dropped.
                        thread::park();
                        continue;
                    }
                    thread::sleep(TICK);
                    match engine.upgrade() {
                        Some(engine) => engine.increment_epoch(),
                        None => return,
                    }
                }
            })?;
        Ok(Self {
            running,
            thread: handle.thread().clone(),
        })
    }

    /// Ticks until the guard is dropped.
    pub(crate) fn run(&self) -> Running {
        if self.running.fetch_add(1, Ordering::SeqCst) == 0 {
            self.thread.unpark();
        }
        Running(self.running.clone())
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        // The thread sees that its counter is gone.
        self.running = Arc::default();
        self.thread.unpark();
    }
}

/// A guest runs.
pub(crate) struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
