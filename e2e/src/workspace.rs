//! The checkout: building what an environment runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::interrupt;
use crate::progress::say;

/// The guests' target: `wasm32-wasip2` makes components directly.
const WASM: &str = "wasm32-wasip2";

/// A checkout of Joinery.
#[derive(Debug, Clone)]
pub struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// The checkout that this program was built from.
    #[must_use]
    pub fn here() -> Workspace {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .unwrap_or(Path::new("."));
        Workspace {
            root: root.to_owned(),
        }
    }

    /// Its top folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The workspace of the guests.
    #[must_use]
    pub fn plugins(&self) -> PathBuf {
        self.root.join("plugins")
    }

    /// A binary of the workspace: it lies beside the running one.
    ///
    /// # Errors
    /// When it was not built.
    pub fn binary(&self, name: &str) -> Result<PathBuf> {
        let here = std::env::current_exe().context("cannot tell where this program lies")?;
        let mut dir = here.parent().context("this program lies nowhere")?;
        if dir.ends_with("deps") {
            dir = dir.parent().unwrap_or(dir);
        }
        let path = dir.join(name);
        ensure!(
            path.is_file(),
            "{} was not built: run `cargo build --workspace --all-targets`",
            path.display()
        );
        Ok(path)
    }

    /// The components of the guests, as [`Workspace::build_guests`] leaves them.
    ///
    /// # Errors
    /// When there are none.
    pub fn guests(&self) -> Result<Vec<PathBuf>> {
        let dir = self.guest_target().join(WASM).join("release");
        let mut found = Vec::new();
        for entry in fs::read_dir(&dir)
            .with_context(|| format!("no guests were built: cannot read {}", dir.display()))?
        {
            let path = entry.context("cannot read the guests' folder")?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "wasm")
            {
                found.push(path);
            }
        }
        found.sort();
        ensure!(
            !found.is_empty(),
            "no guests were built: {} holds no .wasm",
            dir.display()
        );
        Ok(found)
    }

    /// Makes sure that the pinned toolchain has the guests' target, and `components`.
    ///
    /// # Errors
    /// When something is missing and rustup cannot add it.
    pub fn ensure_toolchain(&self, components: &[&str]) -> Result<()> {
        let sysroot = Command::new("rustc")
            .args(["--print", "sysroot"])
            .current_dir(&self.root)
            .output()
            .context("cannot run rustc")?;
        ensure!(
            sysroot.status.success(),
            "rustc --print sysroot failed: {}",
            String::from_utf8_lossy(&sysroot.stderr)
        );
        let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot.stdout).trim());
        if !sysroot.join("lib/rustlib").join(WASM).join("lib").is_dir() {
            self.rustup(&["target", "add", WASM])?;
        }
        for component in components {
            let program = if *component == "clippy" {
                "cargo-clippy"
            } else {
                component
            };
            if !sysroot.join("bin").join(program).is_file() {
                self.rustup(&["component", "add", component])?;
            }
        }
        Ok(())
    }

    fn rustup(&self, arguments: &[&str]) -> Result<()> {
        say(format!("rustup {}", arguments.join(" ")));
        let status = interrupt::status(
            Command::new("rustup")
                .args(arguments)
                .current_dir(&self.root)
                .stdin(Stdio::null()),
        )
        .with_context(|| {
            format!(
                "the toolchain lacks something that only rustup can add (rustup {})",
                arguments.join(" ")
            )
        })?;
        ensure!(
            status.success(),
            "rustup {} failed ({status})",
            arguments.join(" ")
        );
        Ok(())
    }

    /// Runs cargo in the checkout, or in a folder below; its output is the user's progress.
    ///
    /// # Errors
    /// When cargo cannot be run or fails.
    pub fn cargo(&self, folder: &str, arguments: &[&str], envs: &[(&str, &str)]) -> Result<()> {
        let mut command = Command::new("cargo");
        command
            .args(arguments)
            .current_dir(self.root.join(folder))
            .stdin(Stdio::null())
            .envs(envs.iter().copied());
        if folder == "plugins" {
            command.env("CARGO_TARGET_DIR", self.guest_target());
        }
        // Set by the cargo that runs this program: they speak of its package, and build scripts that watch them would run again.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("CARGO_PKG_")
                || name.starts_with("CARGO_MANIFEST_")
                || name == "CARGO_PRIMARY_PACKAGE"
            {
                command.env_remove(&*name);
            }
        }
        let status = interrupt::status(&mut command)?;
        if !status.success() {
            let place = if folder.is_empty() {
                String::new()
            } else {
                format!(" in {folder}/")
            };
            bail!("cargo {}{place} failed ({status})", arguments.join(" "));
        }
        Ok(())
    }

    /// Builds everything that an environment runs, unless `JOINERY_E2E_BUILT` in the process' environment says that it has been done:
    /// `cargo xtask test` does it once for all.
    ///
    /// # Errors
    /// When something cannot be installed or built.
    pub fn ensure_built(&self) -> Result<()> {
        if std::env::var_os("JOINERY_E2E_BUILT").is_some() {
            return Ok(());
        }
        self.ensure_toolchain(&[])?;
        self.build_guests()?;
        self.build_host()
    }

    /// Builds the whole workspace in the dev profile. Always all of it with all targets, so that no dependency is compiled twice for a
    /// different choice of features.
    ///
    /// # Errors
    /// When the build fails.
    pub fn build_host(&self) -> Result<()> {
        say("building the host and the controller (cargo build --workspace --all-targets)");
        self.cargo(
            "",
            &["build", "--workspace", "--all-targets", "--locked"],
            &[],
        )
    }

    /// Builds the guests, optimised, as components.
    ///
    /// # Errors
    /// When the build fails.
    pub fn build_guests(&self) -> Result<()> {
        say(format!(
            "building the guests (cargo build --release --target {WASM} in plugins/)"
        ));
        self.cargo(
            "plugins",
            &["build", "--release", "--target", WASM, "--locked"],
            &[],
        )
    }

    fn guest_target(&self) -> PathBuf {
        self.plugins().join("target")
    }
}
