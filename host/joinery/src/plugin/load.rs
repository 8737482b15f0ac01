//! A component from a file, loaded as the host loads it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use joinery_plugin::{
    Compile, Generation, LoadError, PluginFile, Policy, Runtime, RuntimeOptions, read_plugin,
};

use super::Target;

impl Target {
    /// The plugin as the host would find it in a folder, with the text of its settings file.
    pub(crate) fn read(&self) -> Result<(PluginFile, Option<String>)> {
        fs::metadata(&self.file).with_context(|| self.file.display().to_string())?;
        let base = self.file.file_name().and_then(OsStr::to_str);
        let stem = base.and_then(|base| {
            base.strip_suffix(".wasm.zst")
                .or_else(|| base.strip_suffix(".wasm"))
        });
        let Some(stem) = stem else {
            bail!(
                "{}: a component is a file NAME.wasm or NAME.wasm.zst",
                self.file.display()
            );
        };
        let settings = match &self.settings {
            Some(path) => Some(path.clone()),
            None => beside(&self.file, stem),
        };
        let settings = settings
            .map(|path| {
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
            })
            .transpose()?;
        let name = self.name.as_deref().unwrap_or(stem);
        let mut plugin = read_plugin(name, &self.file, settings.as_deref())?;
        let signature = self.file.with_file_name(format!("{stem}.sig"));
        if signature.is_file() {
            let text = fs::read_to_string(&signature)
                .with_context(|| format!("cannot read {}", signature.display()))?;
            plugin.signature = Some(text.trim().to_owned());
        }
        Ok((plugin, settings))
    }

    /// The plugin, loaded without regard to what it is granted: to try it, not to serve it.
    pub(crate) async fn load(&self) -> Result<(Runtime, Arc<Generation>)> {
        let (plugin, _) = self.read()?;
        let runtime = runtime(Policy::allow_all())?;
        let generation = runtime.load(plugin).await.map_err(refused)?;
        Ok((runtime, generation))
    }
}

fn beside(file: &Path, stem: &str) -> Option<PathBuf> {
    ["yaml", "json"]
        .iter()
        .map(|extension| file.with_file_name(format!("{stem}.{extension}")))
        .find(|path| path.is_file())
}

/// Says a refusal, and where `joinery plugin check` explains it.
fn refused(error: LoadError) -> anyhow::Error {
    anyhow::anyhow!("the plugin is refused: {error}")
}

/// A runtime as the host's, with a folder of its own for what is compiled.
pub(crate) fn runtime(policy: Policy) -> Result<Runtime> {
    let program = std::env::current_exe().context("cannot tell which program this is")?;
    Ok(Runtime::new(RuntimeOptions {
        max_memory: RuntimeOptions::MAX_MEMORY,
        cache_dir: None,
        compile: Compile::Child {
            program,
            args: vec!["compile".into()],
        },
        workers: None,
        policy,
    })?)
}
