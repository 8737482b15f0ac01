//! The checkout: building what an environment runs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::interrupt;
use crate::progress::say;

/// What `cargo metadata` says, as far as it is read here.
#[derive(serde::Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_default_members: Vec<String>,
}

#[derive(serde::Deserialize)]
struct Package {
    id: String,
    targets: Vec<Target>,
}

#[derive(serde::Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

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

    /// The components of the guests that are plugins, as [`Workspace::build_guests`] leaves them: of the default members
    /// of the workspace in `plugins/`, those that are components. Others, which tests build for themselves, lie in the
    /// same folder.
    ///
    /// # Errors
    /// When one of them has not been built.
    pub fn guests(&self) -> Result<Vec<PathBuf>> {
        let output = Command::new("cargo")
            .args(["metadata", "--no-deps", "--format-version", "1", "--locked"])
            .current_dir(self.plugins())
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .context("cannot run cargo metadata")?;
        ensure!(
            output.status.success(),
            "cargo metadata of plugins/ failed ({})",
            output.status
        );
        let metadata: Metadata = serde_json::from_slice(&output.stdout)
            .context("cannot read what cargo metadata says of plugins/")?;
        let dir = self.guest_target().join(WASM).join("release");
        let mut guests: Vec<PathBuf> = metadata
            .packages
            .iter()
            .filter(|package| metadata.workspace_default_members.contains(&package.id))
            .flat_map(|package| &package.targets)
            .filter(|target| target.kind.iter().any(|kind| kind == "cdylib"))
            .map(|target| dir.join(format!("{}.wasm", target.name.replace('-', "_"))))
            .collect();
        guests.sort();
        for guest in &guests {
            ensure!(
                guest.is_file(),
                "{} was not built: run `cargo xtask up`",
                guest.display()
            );
        }
        Ok(guests)
    }

    /// Makes sure that the pinned toolchain has the guests' target, and `components`.
    ///
    /// # Errors
    /// When something is missing and rustup cannot add it.
    pub fn ensure_toolchain(&self, components: &[&str]) -> Result<()> {
        let sysroot = self.sysroot()?;
        self.ensure_target(WASM)?;
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

    /// Makes sure that the pinned toolchain can compile for `target`.
    ///
    /// # Errors
    /// When it cannot and rustup cannot add it.
    pub fn ensure_target(&self, target: &str) -> Result<()> {
        let lib = self.sysroot()?.join("lib/rustlib").join(target).join("lib");
        if lib.is_dir() {
            return Ok(());
        }
        self.rustup(&["target", "add", target])
    }

    fn sysroot(&self) -> Result<PathBuf> {
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
        Ok(PathBuf::from(
            String::from_utf8_lossy(&sysroot.stdout).trim(),
        ))
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

    /// Builds the guests, optimised, as components; those too that are no plugins of every environment.
    ///
    /// # Errors
    /// When the build fails.
    pub fn build_guests(&self) -> Result<()> {
        say(format!(
            "building the guests (cargo build --release --target {WASM} in plugins/)"
        ));
        self.cargo(
            "plugins",
            &[
                "build",
                "--release",
                "--workspace",
                "--target",
                WASM,
                "--locked",
            ],
            &[],
        )
    }

    fn guest_target(&self) -> PathBuf {
        self.plugins().join("target")
    }
}
