//! What processes use, read from /proc.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// Ticks of utime and stime in a second. It has been 100 on every Linux architecture for decades (USER_HZ).
const TICKS: f64 = 100.0;

/// A process to be measured.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) id: u32,
}

impl Measured {
    pub(crate) fn new(name: impl Into<String>, id: u32) -> Measured {
        Measured {
            name: name.into(),
            id,
        }
    }

    /// This process: the load generator.
    pub(crate) fn own() -> Measured {
        Measured::new("load generator", std::process::id())
    }

    /// Processor time since it started, in seconds, of all its threads; to 10 ms.
    pub(crate) fn cpu(&self) -> Result<f64> {
        let path = format!("/proc/{}/stat", self.id);
        let stat = fs::read_to_string(&path).with_context(|| format!("{} ({path})", self.name))?;
        // proc(5): fields 14 and 15, counted after the name, which is in parentheses and may hold anything.
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_whitespace().collect())
            .unwrap_or_default();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
        let sum = ticks(11).zip(ticks(12)).context("/proc/PID/stat is odd")?;
        Ok((sum.0 + sum.1) / TICKS)
    }

    /// Resident memory now, in bytes.
    pub(crate) fn resident(&self) -> Result<f64> {
        self.status("VmRSS:")
    }

    /// The most resident memory since the start or since [`Measured::forget_peak`], in bytes.
    pub(crate) fn peak(&self) -> Result<f64> {
        self.status("VmHWM:")
    }

    /// Lets the peak begin at what is resident now (proc(5), clear_refs).
    pub(crate) fn forget_peak(&self) -> Result<()> {
        let path = format!("/proc/{}/clear_refs", self.id);
        fs::write(&path, "5").with_context(|| path)
    }

    fn status(&self, field: &str) -> Result<f64> {
        let path = format!("/proc/{}/status", self.id);
        let status =
            fs::read_to_string(&path).with_context(|| format!("{} ({path})", self.name))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = line
            .and_then(|rest| rest.trim().strip_suffix("kB"))
            .and_then(|number| number.trim().parse::<f64>().ok());
        Ok(kib.with_context(|| format!("no {field} in {path}"))? * 1024.0)
    }
}

/// Processor time of several processes between two moments.
pub(crate) struct Cpu<'a> {
    processes: &'a [Measured],
    before: Vec<f64>,
}

impl<'a> Cpu<'a> {
    pub(crate) fn start(processes: &'a [Measured]) -> Result<Cpu<'a>> {
        let before = processes.iter().map(Measured::cpu).collect::<Result<_>>()?;
        Ok(Cpu { processes, before })
    }

    /// Seconds of each since the start.
    pub(crate) fn spent(&self) -> Result<Vec<f64>> {
        let after = self.processes.iter().map(Measured::cpu);
        after
            .zip(&self.before)
            .map(|(after, before)| Ok(after? - before))
            .collect()
    }
}

/// Waits until a process uses next to nothing, for at most half a minute: what it does in the background belongs to nobody's round.
pub(crate) async fn quiet(processes: &[Measured]) -> Result<()> {
    for _ in 0..60 {
        let cpu = Cpu::start(processes)?;
        tokio::time::sleep(Duration::from_millis(500)).await;
        if cpu.spent()?.iter().sum::<f64>() <= 0.06 {
            break;
        }
    }
    Ok(())
}
