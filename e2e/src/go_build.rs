//! Programs built from a Go module of this checkout, kept in the user's cache under what determines the build.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use sha2::{Digest, Sha256};

use crate::cache::{self, cache_dir};
use crate::guardian;
use crate::interrupt;
use crate::progress::say;

/// How often a long build says that it is still at work.
const REPORT: Duration = Duration::from_secs(15);

/// A build.
pub(crate) struct GoBuild {
    /// For messages.
    pub(crate) title: &'static str,
    /// The folder in the cache begins with it.
    pub(crate) name: &'static str,
    /// Where go.mod lies.
    pub(crate) module: PathBuf,
    /// Files in the module that determine the build.
    pub(crate) inputs: Vec<String>,
    pub(crate) flags: Vec<String>,
    /// What `go build` is asked for.
    pub(crate) package: &'static str,
    /// The programs: their names here, and as `go build` names them.
    pub(crate) programs: &'static [(&'static str, &'static str)],
    /// What is built, and for how long, said before it begins.
    pub(crate) announcement: &'static str,
    /// What to do without Go.
    pub(crate) without_go: &'static str,
}

impl GoBuild {
    /// Whether a folder holds all programs.
    pub(crate) fn complete(&self, dir: &Path) -> bool {
        complete(self.programs, dir)
    }

    /// The folder with the programs, built first if need be. Runs that build at the same time wait for one another.
    pub(crate) fn ensure(&self) -> Result<PathBuf> {
        let dir = self.target()?;
        if self.complete(&dir) {
            return Ok(dir);
        }
        let _lock = cache::lock(&dir, self.title)?;
        if !self.complete(&dir) {
            self.build(&dir)?;
        }
        Ok(dir)
    }

    /// Where the programs lie, or will.
    pub(crate) fn target(&self) -> Result<PathBuf> {
        let output = Command::new("go")
            .args(["env", "GOVERSION", "GOOS", "GOARCH"])
            .current_dir(&self.module)
            .output()
            .with_context(|| format!("cannot run go: {}", self.without_go))?;
        ensure!(
            output.status.success(),
            "go env failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let mut hash = Sha256::new();
        for file in &self.inputs {
            let path = self.module.join(file);
            hash.update(
                fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?,
            );
        }
        hash.update(self.flags.join("\n"));
        hash.update(String::from_utf8_lossy(&output.stdout).as_ref());
        let digest: String = hash
            .finalize()
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let cache = cache_dir()?;
        fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
        Ok(cache.join(format!("{}-{digest}", self.name)))
    }

    fn build(&self, target: &Path) -> Result<()> {
        say(format!("{}: {}", self.title, self.announcement));
        let started = Instant::now();
        cache::whole(target, |into| {
            self.compile(into)?;
            for (name, built_as) in self.programs {
                if name != built_as {
                    fs::rename(into.join(built_as), into.join(name))
                        .with_context(|| format!("go build made no {built_as}"))?;
                }
            }
            ensure!(
                self.complete(into),
                "go build left out a program in {}",
                into.display()
            );
            Ok(())
        })?;
        say(format!(
            "{}: built in {:.0} s: {}",
            self.title,
            started.elapsed().as_secs_f64(),
            target.display()
        ));
        Ok(())
    }

    fn compile(&self, into: &Path) -> Result<()> {
        let mut arguments: Vec<OsString> =
            ["-n", "19", "go", "build", "-v"].map(Into::into).to_vec();
        arguments.extend(self.flags.iter().map(Into::into));
        arguments.extend([
            "-o".into(),
            into.join("").into_os_string(),
            self.package.into(),
        ]);
        let mut child = Command::new("nice")
            .args(arguments)
            .current_dir(&self.module)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("cannot run nice go build")?;
        guardian::guard(child.id())?;
        let (sender, lines) = mpsc::channel();
        if let Some(stderr) = child.stderr.take() {
            thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        let followed = follow(self.title, &lines);
        if followed.is_err()
            && let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let status = child.wait().context("cannot wait for go build")?;
        guardian::forget(child.id());
        let last = followed?;
        if !status.success() {
            bail!(
                "go build in {} failed ({status}):\n{}",
                self.module.display(),
                Vec::from(last).join("\n")
            );
        }
        Ok(())
    }
}

/// Reads what `go build -v` prints (modules downloaded, packages compiled) to its end; gives the last lines.
fn follow(title: &str, lines: &mpsc::Receiver<String>) -> Result<VecDeque<String>> {
    let mut last: VecDeque<String> = VecDeque::new();
    let (mut downloads, mut packages) = (0_usize, 0_usize);
    let mut reported = Instant::now();
    loop {
        interrupt::check()?;
        match lines.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => {
                if line.starts_with("go: downloading") {
                    downloads += 1;
                } else {
                    packages += 1;
                }
                if last.len() == 40 {
                    last.pop_front();
                }
                last.push_back(line);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(last),
        }
        if reported.elapsed() >= REPORT {
            reported = Instant::now();
            let now = last.back().map_or("linking", String::as_str);
            say(format!(
                "{title}: {downloads} modules downloaded, {packages} packages compiled, now {now}"
            ));
        }
    }
}

/// Whether a folder holds all of the programs.
pub(crate) fn complete(programs: &[(&str, &str)], dir: &Path) -> bool {
    programs.iter().all(|(name, _)| dir.join(name).is_file())
}
