//! The components that tests load, and the program that compiles them. Unit tests use it too.
#![allow(dead_code, reason = "not each of those who use it uses all of it")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use bytes::Bytes;

/// The bytes of a guest, built if need be.
pub(crate) fn guest(name: &str) -> Bytes {
    std::fs::read(guest_path(name)).unwrap().into()
}

/// The file of a guest, built if need be.
pub(crate) fn guest_path(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let dir = BUILT.get_or_init(|| {
        let plugins = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../plugins");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args([
                "build",
                "--quiet",
                "--release",
                "--workspace",
                "--target",
                "wasm32-wasip2",
            ])
            .current_dir(&plugins)
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_TARGET_DIR")
            .status()
            .unwrap();
        assert!(status.success(), "the guests build");
        plugins.join("target/wasm32-wasip2/release")
    });
    dir.join(format!("{name}.wasm"))
}

/// The program that compiles, built as an example beside the tests.
pub(crate) fn compiler_program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests
        .parent()
        .unwrap()
        .parent()
        .unwrap()
        .join("examples/compile");
    assert!(
        program.exists(),
        "{} is built with the tests",
        program.display()
    );
    program
}
