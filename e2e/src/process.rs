//! One supervised child: its own process group, its output in a log file, stopped when dropped.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::guardian;

/// How much of a log is shown when its process died.
const TAIL_BYTES: u64 = 6 * 1024;
const TAIL_LINES: usize = 30;

/// A running child process with a name.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    /// How long it may take to end by itself when asked.
    grace: Duration,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts `command` with its output appended to `LOGS/NAME.log`.
    pub(crate) fn start(
        name: &str,
        logs: &Path,
        grace: Duration,
        command: &mut Command,
    ) -> Result<Process> {
        let log = logs.join(format!("{name}.log"));
        let output = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        let errors = output.try_clone().context("cannot share a log file")?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .with_context(|| {
                format!("cannot start {name} ({})", command.get_program().display())
            })?;
        let process = Process {
            name: name.to_owned(),
            child,
            log,
            grace,
            ended: None,
        };
        guardian::guard(process.id())?;
        Ok(process)
    }

    /// Process id, and at once the id of its group.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// Fails, with the end of its log, if the process is no longer there.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.poll()? {
            None => Ok(()),
            Some(status) => {
                bail!(
                    "{} ended ({status}). The end of {}:\n{}",
                    self.name,
                    self.log.display(),
                    tail(&self.log)
                )
            }
        }
    }

    /// Asks the process to end, waits for its grace period, then kills its whole group.
    pub(crate) fn stop(&mut self) {
        self.end(Signal::TERM);
    }

    /// Kills the whole group at once, as a crash would.
    pub(crate) fn kill(&mut self) {
        self.end(Signal::KILL);
    }

    fn end(&mut self, first: Signal) {
        let Some(group) = i32::try_from(self.id()).ok().and_then(Pid::from_raw) else {
            return;
        };
        let deadline = Instant::now() + self.grace;
        if matches!(self.poll(), Ok(None)) {
            let _ = kill_process_group(group, first);
            while matches!(self.poll(), Ok(None)) && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(10));
            }
        }
        // What it started, and itself if it did not listen. "No such process" is the usual answer.
        let _ = kill_process_group(group, Signal::KILL);
        if self.ended.is_none() {
            self.ended = self.child.wait().ok();
        }
        guardian::forget(self.id());
    }

    fn poll(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self
                .child
                .try_wait()
                .with_context(|| format!("cannot wait for {}", self.name))?;
        }
        Ok(self.ended)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Sends a signal, by its number, to one process. A process that is gone, and a number that is no signal, are nothing to report.
pub fn signal_process(pid: u32, number: i32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(number)) {
        let _ = kill_process(pid, signal);
    }
}

/// The last lines of a log.
pub(crate) fn tail(log: &Path) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(log)?;
        let length = fs::metadata(log)?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    match read() {
        Ok(text) => {
            let lines: Vec<&str> = text.lines().collect();
            let shown = &lines[lines.len().saturating_sub(TAIL_LINES)..];
            shown
                .iter()
                .map(|line| format!("  | {line}"))
                .collect::<Vec<_>>()
                .join("\n")
        }
        Err(error) => format!("  | (cannot be read: {error})"),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::Process;

    #[test]
    fn a_process_that_died_is_reported_with_the_end_of_its_log() {
        let logs = std::env::temp_dir().join(format!("joinery-process-{}", std::process::id()));
        std::fs::create_dir_all(&logs).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo the reason; exit 3"]);
        let mut process =
            Process::start("short", &logs, Duration::from_secs(1), &mut command).unwrap();
        while process.check().is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let said = process.check().unwrap_err().to_string();
        assert!(
            said.contains("short ended") && said.contains("the reason"),
            "{said}"
        );
        std::fs::remove_dir_all(&logs).unwrap();
    }

    #[test]
    fn stopping_ends_the_grandchildren_too() {
        let logs = std::env::temp_dir().join(format!("joinery-group-{}", std::process::id()));
        std::fs::create_dir_all(&logs).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' TERM; sleep 1000 & echo $!; wait"]);
        let mut process =
            Process::start("family", &logs, Duration::from_millis(100), &mut command).unwrap();
        let grandchild: i32 = loop {
            let text = std::fs::read_to_string(process.log()).unwrap();
            if let Ok(pid) = text.trim().parse() {
                break pid;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        process.stop();
        let grandchild = rustix::process::Pid::from_raw(grandchild).unwrap();
        for _ in 0..200 {
            let gone = rustix::process::test_kill_process(grandchild).is_err();
            let zombie =
                std::fs::read_to_string(format!("/proc/{}/stat", grandchild.as_raw_nonzero()))
                    .is_ok_and(|stat| stat.contains(") Z "));
            if gone || zombie {
                std::fs::remove_dir_all(&logs).unwrap();
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the grandchild still runs");
    }
}
