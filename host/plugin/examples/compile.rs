//! Compiles one component ahead of time, as the host's child process does: `compile IN OUT`.

use std::process::ExitCode;

fn main() -> ExitCode {
    joinery_plugin::compile_child_main(std::env::args_os().skip(1))
}
