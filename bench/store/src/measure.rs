//! Time, and the processor's time in it.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};

/// What something took.
#[derive(Clone, Copy, Default)]
pub(crate) struct Measured {
    pub(crate) wall: Duration,
    /// Of all threads of this process.
    pub(crate) cpu: Duration,
    pub(crate) count: usize,
}

impl Measured {
    fn per_second(self) -> f64 {
        self.count as f64 / self.wall.as_secs_f64()
    }

    fn micros_of_cpu(self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.count as f64
    }
}

pub(crate) fn measure<T>(work: impl FnOnce() -> Result<T>) -> Result<(Measured, T)> {
    let (wall, cpu) = (Instant::now(), process_time());
    let value = work()?;
    let measured = Measured {
        wall: wall.elapsed(),
        cpu: process_time() - cpu,
        count: 1,
    };
    Ok((measured, value))
}

fn process_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        now.tv_sec.unsigned_abs(),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    )
}

/// One engine's figures.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) single: Measured,
    pub(crate) together: Measured,
    pub(crate) close: Measured,
    pub(crate) open: Measured,
    pub(crate) list: Measured,
    pub(crate) size: u64,
    pub(crate) entries: usize,
}

impl Row {
    pub(crate) const HEAD: &str = "| engine | commits/s, 1 client | CPU µs each | commits/s, 64 clients | CPU µs each | close ms | open and read all ms | read all again ms | entries | MiB on disk |\n\
        | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |";
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |measured: Measured| measured.wall.as_secs_f64() * 1e3;
        write!(
            f,
            "| {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.1} | {} | {:.1} |",
            self.name,
            self.single.per_second(),
            self.single.micros_of_cpu(),
            self.together.per_second(),
            self.together.micros_of_cpu(),
            millis(self.close),
            millis(self.open),
            millis(self.list),
            self.entries,
            self.size as f64 / f64::from(1 << 20)
        )
    }
}
