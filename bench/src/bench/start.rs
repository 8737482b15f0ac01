//! From start to ready, and from a plugin's new settings until its new generation serves.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use joinery_e2e::Workspace;
use serde_json::Value;

use super::Session;
use crate::process::{Measured, quiet};
use crate::report::{Report, Table};
use crate::stats::{Samples, bytes, seconds};

const PATIENCE: Duration = Duration::from_secs(120);

/// `joinery standalone` with the bundled plugins, in a folder of its own.
pub(super) struct Standalone {
    child: Child,
    pub(super) kubeconfig: PathBuf,
    plugins: PathBuf,
    log: PathBuf,
    /// Until it was ready, in seconds.
    pub(super) took: f64,
}

impl Standalone {
    /// Starts it and waits until it says that it is ready.
    pub(super) fn start(workspace: &Workspace, dir: &Path) -> Result<Standalone> {
        let (plugins, kubeconfig) = (dir.join("plugins"), dir.join("kubeconfig"));
        let log = dir.join("log");
        fs::create_dir_all(&plugins)?;
        for guest in workspace.guests()? {
            let name = guest.file_name().context("a guest has no name")?;
            fs::copy(&guest, plugins.join(name))?;
        }
        let _ = fs::remove_file(&kubeconfig);
        let output = fs::File::create(&log)?;
        let mut command = Command::new(workspace.binary("joinery")?);
        command
            .args(["standalone", "--log-format", "json", "--data-dir"])
            .arg(dir.join("data"))
            .arg("--plugins")
            .arg(&plugins)
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let start = Instant::now();
        let child = command.spawn().context("cannot run joinery")?;
        let mut host = Standalone {
            child,
            kubeconfig,
            plugins,
            log,
            took: 0.0,
        };
        // It is written once everything is ready.
        while !host.kubeconfig.is_file() {
            if let Some(status) = host.child.try_wait()? {
                bail!(
                    "joinery ended ({status}): {}",
                    fs::read_to_string(&host.log)?
                );
            }
            if start.elapsed() > PATIENCE {
                bail!("joinery does not get ready");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        host.took = start.elapsed().as_secs_f64();
        Ok(host)
    }

    pub(super) fn process(&self) -> Measured {
        Measured::new("joinery standalone", self.child.id())
    }

    /// Gives the view's plugin other settings; how long the host took, as it says itself.
    pub(super) async fn swap(&self, settings: &str) -> Result<f64> {
        let before = self.loads()?.len();
        fs::write(self.plugins.join("combined_tasks.yaml"), settings)?;
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(took) = self.loads()?.get(before) {
                return Ok(*took);
            }
            if Instant::now() > end {
                bail!("the plugin was not exchanged");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What each exchange of the view's plugin took, by the log.
    fn loads(&self) -> Result<Vec<f64>> {
        let log = fs::read_to_string(&self.log)?;
        let lines = log.lines().filter_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            let fields = line.get("fields")?;
            let serves = fields.get("message")? == "plugin serves";
            let this = fields.get("plugin")? == "combined_tasks";
            (serves && this).then(|| duration(fields.get("took")?.as_str()?))?
        });
        Ok(lines.collect())
    }
}

impl Drop for Standalone {
    fn drop(&mut self) {
        // What it wrote is durable, so a kill loses nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A duration as Rust prints it for debugging.
fn duration(text: &str) -> Option<f64> {
    [("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9), ("s", 1.0)]
        .into_iter()
        .find_map(|(unit, factor)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * factor))
}

pub(super) async fn run(session: &mut Session) -> Result<Report> {
    let dir = tempfile::tempdir_in(session.workspace.root().join("target"))?;
    let rounds = if session.quick { 1 } else { session.rounds * 2 };
    let (mut warm, mut resident) = (Samples::default(), Samples::default());
    let cold = Standalone::start(&session.workspace, dir.path())?.took;
    for _ in 0..rounds {
        let host = Standalone::start(&session.workspace, dir.path())?;
        warm.push(host.took);
        quiet(&[host.process()]).await?;
        resident.push(host.process().resident()?);
    }
    let host = Standalone::start(&session.workspace, dir.path())?;
    let mut swaps = Samples::default();
    for number in 0..rounds {
        // Other settings each time: what is the same is not loaded again.
        let settings = format!("limits: {{callSeconds: {}}}\n", 11 + number);
        swaps.push(host.swap(&settings).await?);
    }
    let mut table = Table::new(
        "joinery standalone with three plugins and nothing stored",
        &["", "median (least – most)"],
    );
    table.row([
        "start to ready, plugins to be compiled first",
        &*seconds(cold),
    ]);
    table.row([
        "start to ready, plugins compiled before",
        &*warm.spread(seconds),
    ]);
    table.row(["resident memory once it is idle", &*resident.spread(bytes)]);
    table.row([
        "exchange of combined_tasks, from the change in the folder to serving",
        &*swaps.spread(seconds),
    ]);
    Ok(Report {
        tables: vec![table],
        plots: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_of_the_log_are_read() {
        assert_eq!(duration("1.5s"), Some(1.5));
        assert_eq!(duration("20ms"), Some(0.02));
        assert!(duration("7µs").is_some_and(|s| (s - 7e-6).abs() < 1e-12));
        assert_eq!(duration("soon"), None);
    }
}
