//! Compiling, in a process of its own: Cranelift cannot be interrupted, and it leaves memory behind.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal};
use tokio::process::Command;
use tokio::sync::Mutex;
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::cache::Cache;
use crate::engine;
use crate::error::LoadError;

/// Address space of the child, in bytes.
const MEMORY: u64 = 4 << 30;
/// CPU time of the child, in seconds. A second later it would be killed, as it is by who has no memory left: only by the
/// signal can the two be told apart.
const CPU: u64 = 120;
/// What the child ends with when the trouble is the machine's, not the component's.
const HOST_TROUBLE: u8 = 3;
/// Time until the child is killed.
const TIME: Duration = Duration::from_secs(180);

/// How components are compiled.
#[derive(Clone, Debug)]
pub enum Compile {
    /// By a child process: this program with these arguments, then the path to read and the path to write. It is to call
    /// [`compile_child_main`] with the two paths.
    Child {
        /// The program.
        program: PathBuf,
        /// What comes before the paths.
        args: Vec<OsString>,
    },
    /// In this process, for tests. Nothing bounds its time or memory.
    InProcess,
}

/// Compiles one component at a time.
pub(crate) struct Compiler {
    how: Compile,
    cache: Arc<Cache>,
    turn: Mutex<()>,
}

impl Compiler {
    pub(crate) fn new(how: Compile, cache: Cache) -> Self {
        Self {
            how,
            cache: Arc::new(cache),
            turn: Mutex::new(()),
        }
    }

    /// The component, compiled now or before.
    pub(crate) async fn component(
        &self,
        engine: &Engine,
        bytes: &bytes::Bytes,
        digest: &str,
    ) -> Result<Component, LoadError> {
        if let Some(component) = self.load(engine, digest).await? {
            return Ok(component);
        }
        let _turn = self.turn.lock().await;
        if let Some(component) = self.load(engine, digest).await? {
            return Ok(component);
        }
        let (cache, source) = (self.cache.clone(), bytes.clone());
        let (from, to) = blocking(move || {
            let (from, to) = (cache.temporary()?, cache.temporary()?);
            fs::write(&from, &source)?;
            Ok((from, to))
        })
        .await?;
        match &self.how {
            Compile::Child { program, args } => child(program, args, &from, &to).await?,
            Compile::InProcess => {
                let (from, to) = (from.to_path_buf(), to.to_path_buf());
                let outcome = tokio::task::spawn_blocking(move || compile(&from, &to)).await;
                let outcome = outcome.map_err(|error| LoadError::Host(error.to_string()))?;
                outcome.map_err(|failure| match failure {
                    Failure::Component(message) => LoadError::Compile(message),
                    Failure::Host(message) => LoadError::Host(message),
                })?;
            }
        }
        let (cache, digest_text) = (self.cache.clone(), digest.to_owned());
        blocking(move || cache.keep(to, &digest_text)).await?;
        let component = self.load(engine, digest).await?;
        component
            .ok_or_else(|| LoadError::Host("the compiled plugin cannot be read back".to_owned()))
    }

    async fn load(&self, engine: &Engine, digest: &str) -> Result<Option<Component>, LoadError> {
        let (cache, engine, digest) = (self.cache.clone(), engine.clone(), digest.to_owned());
        blocking(move || Ok(cache.load(&engine, &digest))).await
    }
}

async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<R> + Send + 'static,
) -> Result<R, LoadError> {
    let outcome = tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| LoadError::Host(error.to_string()))?;
    outcome.map_err(|error| LoadError::Host(format!("folder for compiled plugins: {error}")))
}

async fn child(program: &Path, args: &[OsString], from: &Path, to: &Path) -> Result<(), LoadError> {
    let mut command = Command::new(program);
    command
        .args(args)
        .arg(from)
        .arg(to)
        .env_clear()
        .kill_on_drop(true);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let started = command.spawn();
    let child = started.map_err(|error| {
        LoadError::Host(format!(
            "cannot start the compiler {}: {error}",
            program.display()
        ))
    })?;
    let Ok(ended) = tokio::time::timeout(TIME, child.wait_with_output()).await else {
        // Within that time, it would have come to the end of its CPU time on a machine that was not busy.
        return Err(LoadError::Host(format!(
            "the compiler was not done within {TIME:?}"
        )));
    };
    let output = ended.map_err(|error| LoadError::Host(format!("compiler: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    let said = &said[..said.floor_char_boundary(2_000)];
    let said = match said {
        "" => format!("the compiler ended with {}", output.status),
        said => said.to_owned(),
    };
    // Killed from outside, most likely because the machine had no memory left; what it comes to by itself it comes to again.
    let killed = output.status.signal() == Some(Signal::KILL.as_raw());
    if killed || output.status.code() == Some(HOST_TROUBLE.into()) {
        return Err(LoadError::Host(format!("compiling: {said}")));
    }
    Err(LoadError::Compile(match output.status.signal() {
        Some(_) => format!("{said}, most likely at its limits"),
        None => said,
    }))
}

/// Why a component was not compiled.
enum Failure {
    Component(String),
    Host(String),
}

fn compile(from: &Path, to: &Path) -> Result<(), Failure> {
    let engine = engine::compiling().map_err(|error| Failure::Host(format!("{error:#}")))?;
    let file =
        |path: &Path, error: std::io::Error| Failure::Host(format!("{}: {error}", path.display()));
    let bytes = fs::read(from).map_err(|error| file(from, error))?;
    let compiled = engine
        .precompile_component(&bytes)
        .map_err(|error| Failure::Component(format!("{error:#}")))?;
    fs::write(to, compiled).map_err(|error| file(to, error))
}

/// The child: takes the path of a component and the path to write its compiled form to, bounds itself, and compiles.
pub fn compile_child_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let [from, to] = args.as_slice() else {
        eprintln!("usage: compile IN OUT (a component, and where its compiled form goes)");
        return ExitCode::from(2);
    };
    if let Err(error) = bound() {
        eprintln!("cannot set limits: {error}");
        return ExitCode::from(HOST_TROUBLE);
    }
    match compile(Path::new(from), Path::new(to)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Component(message)) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
        Err(Failure::Host(message)) => {
            eprintln!("{message}");
            ExitCode::from(HOST_TROUBLE)
        }
    }
}

/// Serving comes first, and what compiles too long or too large ends.
fn bound() -> rustix::io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::process::nice(3)?;
    for (resource, current, maximum) in [
        (Resource::As, MEMORY, MEMORY),
        (Resource::Cpu, CPU, CPU + 1),
        (Resource::Core, 0, 0),
    ] {
        rustix::process::setrlimit(
            resource,
            Rlimit {
                current: Some(current),
                maximum: Some(maximum),
            },
        )?;
    }
    Ok(())
}
