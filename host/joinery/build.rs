//! Puts the SDK, the contract and the templates into the binary, for `joinery plugin new`.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let root =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    let plugins = root.join("plugins");
    let mut files = Vec::new();
    walk(&plugins.join("sdk"), "sdk", &mut files);
    walk(&plugins.join("templates"), "templates", &mut files);
    files.push(("Cargo.lock".to_owned(), plugins.join("Cargo.lock")));
    files.sort();
    let mut table = "&[\n".to_owned();
    for (name, path) in &files {
        println!("cargo::rerun-if-changed={}", path.display());
        writeln!(table, "    ({name:?}, include_str!({path:?})),").expect("memory");
    }
    table.push_str("]\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("embedded.rs"), table).expect("the folder for output can be written");
}

/// All files below a folder; a link to a folder counts as one.
fn walk(folder: &Path, name: &str, files: &mut Vec<(String, PathBuf)>) {
    // A new file changes its folder.
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("readable").path();
        let base = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let name = format!("{name}/{base}");
        if path.is_dir() {
            walk(&path, &name, files);
        } else {
            files.push((name, path));
        }
    }
}
