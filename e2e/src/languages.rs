//! The plugins in other languages: their tools are installed from PyPI and npm, and their components built, once per user and
//! version of everything that goes in. Nothing of that lands in the checkout, or among the user's own packages.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use crate::cache::{self, cache_dir};
use crate::progress::say;
use crate::{interrupt, workspace::Workspace};

/// A language in which a plugin of the checkout is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// plugins/languages/python, with componentize-py.
    Python,
    /// plugins/languages/javascript, with componentize-js.
    JavaScript,
}

/// What became of a plugin in another language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LanguageGuest {
    /// Its component.
    Built(PathBuf),
    /// This machine has not got what it takes; why.
    LeftOut(String),
}

impl Language {
    /// All of them.
    pub const ALL: [Language; 2] = [Language::Python, Language::JavaScript];

    /// As its folder is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Language::Python => "python",
            Language::JavaScript => "javascript",
        }
    }

    /// The component, built if it is not in the cache: some seconds, and as long again for the tools the first time.
    ///
    /// # Errors
    /// When the machine has the language, and something fails all the same.
    pub fn build(self, workspace: &Workspace) -> Result<LanguageGuest> {
        let versions = match self.versions() {
            Ok(versions) => versions,
            Err(missing) => return Ok(LanguageGuest::LeftOut(missing)),
        };
        let source = self.folder(workspace);
        let wit = workspace.root().join("wit/v0.1/plugin.wit");
        let mut inputs = files(&source)?;
        let locked = self.locked().map(|name| source.join(name));
        let tools = cached(&format!("tools-{}", self.name()), &versions, &locked)?;
        inputs.extend(locked);
        inputs.push(wit.clone());
        let built = cached(&format!("guest-{}", self.name()), &versions, &inputs)?;
        let component = built.join(format!("memos_{}.wasm", self.name()));
        if component.is_file() {
            return Ok(LanguageGuest::Built(component));
        }
        let _lock = cache::lock(&tools, self.name())?;
        if !component.is_file() {
            if !tools.is_dir() {
                say(format!(
                    "installing what makes components of {}",
                    self.name()
                ));
                cache::whole(&tools, |into| self.install(&source, into))?;
            }
            say(format!(
                "making a component of plugins/languages/{}",
                self.name()
            ));
            cache::whole(&built, |into| {
                let out = into.join(component.file_name().unwrap_or_default());
                self.componentize(&source, &tools, &wit, &out)
            })?;
        }
        Ok(LanguageGuest::Built(component))
    }

    /// The folder of the plugin.
    #[must_use]
    pub fn folder(self, workspace: &Workspace) -> PathBuf {
        workspace.plugins().join("languages").join(self.name())
    }

    /// What pins the tools.
    fn locked(self) -> [&'static str; 1] {
        match self {
            Language::Python => ["requirements.txt"],
            Language::JavaScript => ["package-lock.json"],
        }
    }

    /// The versions of what the machine must have, or what it lacks.
    fn versions(self) -> Result<String, String> {
        let asked: &[&[&str]] = match self {
            Language::Python => &[
                &["python3", "--version"],
                &["python3", "-m", "pip", "--version"],
            ],
            Language::JavaScript => &[&["node", "--version"], &["npm", "--version"]],
        };
        let mut versions = String::new();
        for line in asked {
            let output = Command::new(line[0])
                .args(&line[1..])
                .stdin(Stdio::null())
                .output();
            match output {
                Ok(output) if output.status.success() => {
                    versions.push_str(&String::from_utf8_lossy(&output.stdout));
                }
                Ok(_) => return Err(format!("`{}` fails on this machine", line.join(" "))),
                Err(_) => return Err(format!("this machine has no {}", line[0])),
            }
        }
        Ok(versions)
    }

    fn install(self, source: &Path, into: &Path) -> Result<()> {
        match self {
            Language::Python => run(Command::new("python3")
                .args([
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--no-input",
                    "--no-deps",
                    "--no-cache-dir",
                ])
                .args([
                    "--require-hashes",
                    "--only-binary=:all:",
                    "--no-warn-script-location",
                ])
                .arg("--target")
                .arg(into)
                .arg("--requirement")
                .arg(source.join("requirements.txt"))
                .env("PIP_ROOT_USER_ACTION", "ignore")),
            Language::JavaScript => {
                for name in ["package.json", "package-lock.json"] {
                    copy(&source.join(name), &into.join(name))?;
                }
                let cache = into.join("npm-cache");
                run(Command::new("npm")
                    .args([
                        "ci",
                        "--silent",
                        "--no-audit",
                        "--no-fund",
                        "--no-update-notifier",
                    ])
                    .arg("--cache")
                    .arg(&cache)
                    .current_dir(into))?;
                fs::remove_dir_all(&cache)
                    .with_context(|| format!("cannot remove {}", cache.display()))
            }
        }
    }

    fn componentize(self, source: &Path, tools: &Path, wit: &Path, out: &Path) -> Result<()> {
        match self {
            // Copied: it leaves what it has compiled beside what it reads.
            Language::Python => {
                let beside = out.with_extension("source");
                fs::create_dir_all(&beside)
                    .with_context(|| format!("cannot make {}", beside.display()))?;
                copy(&source.join("app.py"), &beside.join("app.py"))?;
                run(Command::new("python3")
                    .args(["-c", "from componentize_py import script; script()"])
                    .arg("--wit-path")
                    .arg(wit)
                    .args(["--world", "stored", "--quiet"])
                    .args(["componentize", "app", "--stub-wasi"])
                    .arg("--python-path")
                    .arg(&beside)
                    .arg("--output")
                    .arg(out)
                    .env("PYTHONPATH", tools)
                    .env_remove("VIRTUAL_ENV"))
            }
            // It looks for its packages beside itself.
            Language::JavaScript => {
                for name in ["build.js", "memos.js"] {
                    copy(&source.join(name), &tools.join(name))?;
                }
                run(Command::new("node")
                    .arg("build.js")
                    .arg(wit)
                    .arg(out)
                    .current_dir(tools)
                    .env_remove("NODE_OPTIONS"))
            }
        }
    }
}

fn run(command: &mut Command) -> Result<()> {
    // What it prints is for nobody who has not asked; stderr is.
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let program = command.get_program().to_string_lossy().into_owned();
    let status = interrupt::status(command).with_context(|| format!("cannot run {program}"))?;
    ensure!(status.success(), "{command:?} failed ({status})");
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// The files of a folder, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let unreadable = || format!("cannot read {}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        if path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The folder in the cache for what is made of these files by programs of these versions.
fn cached(name: &str, versions: &str, files: &[PathBuf]) -> Result<PathBuf> {
    let mut hash = Sha256::new();
    hash.update(versions);
    // How they are called counts too.
    hash.update(include_bytes!("languages.rs"));
    for file in files {
        hash.update(fs::read(file).with_context(|| format!("cannot read {}", file.display()))?);
    }
    let mut folder = format!("{name}-");
    for byte in hash.finalize().iter().take(8) {
        write!(folder, "{byte:02x}").context("memory")?;
    }
    let cache = cache_dir()?;
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    Ok(cache.join(folder))
}
