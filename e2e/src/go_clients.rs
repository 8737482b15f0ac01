//! The clients that controllers in Go are made of: client-go's informers and controller-runtime's manager, in one program.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::go_build::GoBuild;
use crate::workspace::Workspace;

/// The program of `e2e/clients`, built first if need be (about two minutes on two cores from nothing); its main.go says how it is used.
///
/// # Errors
/// When Go is missing, or the build fails: with the last lines that it printed.
pub fn go_clients(workspace: &Workspace) -> Result<PathBuf> {
    let module = workspace.root().join("e2e/clients");
    let mut inputs = vec!["go.mod".to_owned(), "go.sum".to_owned()];
    for entry in
        fs::read_dir(&module).with_context(|| format!("cannot read {}", module.display()))?
    {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".go") {
            inputs.push(name);
        }
    }
    inputs.sort();
    let build = GoBuild {
        title: "clients",
        name: "clients",
        module,
        inputs,
        flags: ["-buildvcs=false", "-ldflags", "-s -w"]
            .map(str::to_owned)
            .to_vec(),
        package: ".",
        programs: &[("clients", "clients")],
        announcement: "building client-go's informers and a controller-runtime manager (about 2 minutes, once)",
        without_go: "the clients are built from Go modules, so install Go (https://go.dev/dl)",
    };
    Ok(build.ensure()?.join("clients"))
}
