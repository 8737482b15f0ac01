//! The programs of a real control plane: taken from `KUBEBUILDER_ASSETS` if it holds them all, else built from the Go modules pinned in
//! `e2e/controlplane`, once per user and version.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File};
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

use crate::interrupt;
use crate::progress::say;
use crate::{guardian, workspace::Workspace};

/// Without the version the servers call themselves v0.0.0-master, which clients and version skew checks read.
const VERSION: (&str, &str, &str) = ("v1.36.3", "1", "36");

/// `go build tool` names a program after the last element of its package's path; etcd's is `server`.
const PROGRAMS: [(&str, &str); 4] = [
    ("etcd", "server"),
    ("kube-apiserver", "kube-apiserver"),
    ("kube-controller-manager", "kube-controller-manager"),
    ("kubectl", "kubectl"),
];

/// How often a long build says that it is still at work.
const REPORT: Duration = Duration::from_secs(15);

/// A folder with etcd, kube-apiserver, kube-controller-manager and kubectl.
#[derive(Debug, Clone)]
pub struct ControlPlaneBinaries {
    dir: PathBuf,
}

impl ControlPlaneBinaries {
    /// The programs, if they are there already: nothing is built.
    #[must_use]
    pub fn cached(workspace: &Workspace) -> Option<ControlPlaneBinaries> {
        if let Some(found) = from_assets() {
            return Some(found);
        }
        let dir = Source::of(workspace).ok()?.target().ok()?;
        complete(&dir).then_some(ControlPlaneBinaries { dir })
    }

    /// The programs, built first if need be (about ten minutes on two cores, at low priority). Runs that build at the same time wait for
    /// one another.
    ///
    /// # Errors
    /// When Go is missing, or the build fails: with the last lines that it printed.
    pub fn ensure(workspace: &Workspace) -> Result<ControlPlaneBinaries> {
        if let Some(found) = from_assets() {
            return Ok(found);
        }
        let source = Source::of(workspace)?;
        let dir = source.target()?;
        if complete(&dir) {
            return Ok(ControlPlaneBinaries { dir });
        }
        let lock_path = dir.with_extension("lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .with_context(|| format!("cannot write {}", lock_path.display()))?;
        if lock.try_lock().is_err() {
            say(format!(
                "control plane: another run is building it (lock {}), waiting",
                lock_path.display()
            ));
            while lock.try_lock().is_err() {
                interrupt::sleep(Duration::from_millis(200))?;
            }
        }
        if !complete(&dir) {
            source.build(&dir)?;
        }
        Ok(ControlPlaneBinaries { dir })
    }

    /// etcd's server.
    #[must_use]
    pub fn etcd(&self) -> PathBuf {
        self.dir.join("etcd")
    }

    /// kube-apiserver.
    #[must_use]
    pub fn kube_apiserver(&self) -> PathBuf {
        self.dir.join("kube-apiserver")
    }

    /// kube-controller-manager.
    #[must_use]
    pub fn kube_controller_manager(&self) -> PathBuf {
        self.dir.join("kube-controller-manager")
    }

    /// The sample of an aggregated API server; a folder of other origin than this checkout's build need not have it.
    #[must_use]
    pub fn sample_apiserver(&self) -> Option<PathBuf> {
        let path = self.dir.join("sample-apiserver");
        path.is_file().then_some(path)
    }

    /// kubectl of the same version.
    #[must_use]
    pub fn kubectl(&self) -> PathBuf {
        self.dir.join("kubectl")
    }
}

/// `$XDG_CACHE_HOME/joinery`, or `~/.cache/joinery`.
pub(crate) fn cache_dir() -> Result<PathBuf> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|base| base.join("joinery"))
        .context("neither XDG_CACHE_HOME nor HOME names a folder for caches")
}

fn complete(dir: &Path) -> bool {
    PROGRAMS.iter().all(|(name, _)| dir.join(name).is_file())
}

/// setup-envtest's folder has no kube-controller-manager: then it does not serve.
fn from_assets() -> Option<ControlPlaneBinaries> {
    let dir = PathBuf::from(std::env::var_os("KUBEBUILDER_ASSETS")?);
    complete(&dir).then_some(ControlPlaneBinaries { dir })
}

/// What determines the build.
struct Source {
    module: PathBuf,
    flags: [String; 2],
    go: String,
    sums: Vec<u8>,
}

impl Source {
    fn of(workspace: &Workspace) -> Result<Source> {
        let module = workspace.root().join("e2e/controlplane");
        let (version, major, minor) = VERSION;
        let package = "k8s.io/component-base/version";
        let flags = [
            "-ldflags".to_owned(),
            format!(
                "-s -w -X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
            ),
        ];
        let mut sums = Vec::new();
        for file in ["go.mod", "go.sum"] {
            let path = module.join(file);
            sums.extend(
                fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?,
            );
        }
        let output = Command::new("go").args(["env", "GOVERSION", "GOOS", "GOARCH"]).current_dir(&module).output().context(
            "cannot run go: a real control plane is built from Go modules, so install Go (https://go.dev/dl), or let KUBEBUILDER_ASSETS name a folder with \
             etcd, kube-apiserver, kube-controller-manager and kubectl",
        )?;
        ensure!(
            output.status.success(),
            "go env failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let go = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(Source {
            module,
            flags,
            go,
            sums,
        })
    }

    fn target(&self) -> Result<PathBuf> {
        let mut hash = Sha256::new();
        hash.update(&self.sums);
        hash.update(self.flags.join("\n"));
        hash.update(&self.go);
        let digest: String = hash
            .finalize()
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let cache = cache_dir()?;
        fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
        Ok(cache.join(format!("controlplane-{digest}")))
    }

    /// Builds beside the target and renames, so that the target is there completely or not at all.
    fn build(&self, target: &Path) -> Result<()> {
        let partial = target.with_extension("partial");
        if partial.exists() {
            fs::remove_dir_all(&partial)
                .with_context(|| format!("cannot remove {}", partial.display()))?;
        }
        fs::create_dir_all(&partial)
            .with_context(|| format!("cannot create {}", partial.display()))?;
        say(
            "control plane: building etcd, kube-apiserver, kube-controller-manager and kubectl from Go modules (about 10 minutes, once)",
        );
        let started = Instant::now();
        self.compile(&partial)?;
        for (name, built_as) in PROGRAMS {
            if name != built_as {
                fs::rename(partial.join(built_as), partial.join(name))
                    .with_context(|| format!("go build made no {built_as}"))?;
            }
        }
        ensure!(
            complete(&partial),
            "go build left out a program in {}",
            partial.display()
        );
        if target.exists() {
            fs::remove_dir_all(target)
                .with_context(|| format!("cannot remove {}", target.display()))?;
        }
        fs::rename(&partial, target)
            .with_context(|| format!("cannot rename {}", partial.display()))?;
        say(format!(
            "control plane: built in {:.0} s: {}",
            started.elapsed().as_secs_f64(),
            target.display()
        ));
        Ok(())
    }

    fn compile(&self, into: &Path) -> Result<()> {
        let mut arguments: Vec<OsString> =
            ["-n", "19", "go", "build", "-v"].map(Into::into).to_vec();
        arguments.extend(self.flags.iter().map(Into::into));
        arguments.extend(["-o".into(), into.as_os_str().to_owned(), "tool".into()]);
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
        let followed = follow(&lines);
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
fn follow(lines: &mpsc::Receiver<String>) -> Result<VecDeque<String>> {
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
                "control plane: {downloads} modules downloaded, {packages} packages compiled, now {now}"
            ));
        }
    }
}
