//! The programs in Go that stand in this checkout: the clients of the tests, and the peers of the benchmarks.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::go_build::GoBuild;
use crate::workspace::Workspace;

/// What controllers in Go are made of: client-go's informers and controller-runtime's manager, in one program, `e2e/clients`. Built
/// first if need be (about two minutes on two cores from nothing); its main.go says how it is used.
///
/// # Errors
/// When Go is missing, or the build fails: with the last lines that it printed.
pub fn go_clients(workspace: &Workspace) -> Result<PathBuf> {
    program(
        workspace,
        "e2e/clients",
        &[("clients", "clients")],
        "building client-go's informers and a controller-runtime manager (about 2 minutes, once)",
    )
}

/// An aggregated API server and a client that make the join of CombinedTasks with client-go: `bench/peers`, built as [`go_clients`].
///
/// # Errors
/// As [`go_clients`].
pub fn go_peers(workspace: &Workspace) -> Result<PathBuf> {
    program(
        workspace,
        "bench/peers",
        &[("peers", "peers")],
        "building an aggregated server with client-go, to compare with (about a minute, once)",
    )
}

/// The only program of a module in a folder of the checkout; the cache knows it by its sources.
fn program(
    workspace: &Workspace,
    folder: &str,
    programs: &'static [(&'static str, &'static str); 1],
    announcement: &'static str,
) -> Result<PathBuf> {
    let [(name, _)] = *programs;
    let module = workspace.root().join(folder);
    let mut inputs = Vec::new();
    sources(&module, "", &mut inputs)?;
    inputs.sort();
    let build = GoBuild {
        title: name,
        name,
        module,
        inputs,
        flags: ["-buildvcs=false", "-ldflags", "-s -w"]
            .map(str::to_owned)
            .to_vec(),
        package: ".",
        programs,
        announcement,
        without_go: "it is built from a Go module, so install Go (https://go.dev/dl)",
    };
    Ok(build.ensure()?.join(name))
}

/// go.mod, go.sum and all Go files, as paths from the module.
fn sources(module: &Path, below: &str, found: &mut Vec<String>) -> Result<()> {
    let folder = module.join(below);
    let unreadable = || format!("cannot read {}", folder.display());
    for entry in fs::read_dir(&folder).with_context(unreadable)? {
        let entry = entry.with_context(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() {
            name
        } else {
            format!("{below}/{name}")
        };
        if entry.file_type().with_context(unreadable)?.is_dir() {
            sources(module, &path, found)?;
        } else if path.ends_with(".go") || path == "go.mod" || path == "go.sum" {
            found.push(path);
        }
    }
    Ok(())
}
