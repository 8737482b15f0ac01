//! cargo-component, with which plugins build as well as with plain cargo: installed from crates.io, once per user and version.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::cache::{self, cache_dir};
use crate::progress::say;
use crate::workspace::Workspace;

const VERSION: &str = "0.21.1";
/// It builds core modules for this target, and makes components of them with an adapter of its own.
const TARGET: &str = "wasm32-wasip1";

/// An installed cargo-component.
#[derive(Debug, Clone)]
pub struct CargoComponent {
    bin: PathBuf,
}

impl CargoComponent {
    /// Installs it if it is missing: about four CPU minutes, as it is built without optimisation.
    ///
    /// # Errors
    /// When rustup or cargo cannot get what is needed.
    pub fn ensure(workspace: &Workspace) -> Result<CargoComponent> {
        workspace.ensure_target(TARGET)?;
        let root = cache_dir()?.join(format!("cargo-component-{VERSION}"));
        let installed = CargoComponent {
            bin: root.join("bin"),
        };
        if installed.is_there() {
            return Ok(installed);
        }
        let parent = cache_dir()?;
        fs::create_dir_all(&parent).with_context(|| format!("cannot make {}", parent.display()))?;
        let _lock = cache::lock(&root, "cargo-component")?;
        if installed.is_there() {
            return Ok(installed);
        }
        say(format!(
            "installing cargo-component {VERSION} into {}",
            root.display()
        ));
        // Built beside and renamed, so that half an installation is never taken for a whole one.
        // The lock is held: what lies there is of a run that was ended.
        let beside = root.with_extension("part");
        if beside.exists() {
            fs::remove_dir_all(&beside)
                .with_context(|| format!("cannot remove {}", beside.display()))?;
        }
        let folder = |name: &str| beside.join(name).display().to_string();
        let (into, target) = (folder("root"), folder("target"));
        workspace.cargo(
            "",
            &[
                "install",
                "cargo-component",
                "--version",
                VERSION,
                "--locked",
                "--debug",
                "--root",
                &into,
                "--target-dir",
                &target,
            ],
            &[("CARGO_PROFILE_DEV_DEBUG", "0")],
        )?;
        fs::rename(&into, &root)
            .with_context(|| format!("cannot put it into {}", root.display()))?;
        fs::remove_dir_all(&beside)
            .with_context(|| format!("cannot remove {}", beside.display()))?;
        Ok(installed)
    }

    fn is_there(&self) -> bool {
        self.bin.join("cargo-component").is_file()
    }

    /// Builds the guests with it. Returns their components.
    ///
    /// # Errors
    /// When the build fails.
    pub fn build_guests(&self, workspace: &Workspace) -> Result<Vec<PathBuf>> {
        let mut path = OsString::from(&self.bin);
        if let Some(rest) = std::env::var_os("PATH") {
            path.push(":");
            path.push(rest);
        }
        let path = path.to_string_lossy().into_owned();
        let guests = workspace.guests()?;
        // Named one by one: it takes the folder `wit` of the SDK, which is no guest, for that of a component.
        let names: Vec<String> = guests
            .iter()
            .filter_map(|guest| Some(guest.file_stem()?.to_string_lossy().replace('_', "-")))
            .collect();
        let mut line = vec!["component", "build", "--release", "--locked"];
        line.extend(names.iter().flat_map(|name| ["-p", name.as_str()]));
        workspace.cargo("plugins", &line, &[("PATH", &path)])?;
        let built = |guest: PathBuf| {
            let name = guest.file_name().map(OsString::from).unwrap_or_default();
            workspace
                .plugins()
                .join("target")
                .join(TARGET)
                .join("release")
                .join(name)
        };
        Ok(guests.into_iter().map(built).collect())
    }
}
