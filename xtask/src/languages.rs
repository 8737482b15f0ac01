//! `cargo xtask languages`: the plugins in other languages, measured beside the same plugin in Rust, as docs/plugins/languages.md
//! has it.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use joinery_e2e::{Language, LanguageGuest, RunDir, Workspace, say, wait_for_status};

/// Options of `languages`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// For how long each is asked.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    seconds: u32,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let workspace = Workspace::here();
    workspace.ensure_built()?;
    let seconds = arguments.seconds.to_string();
    rust(&workspace, &seconds)?;
    for language in Language::ALL {
        match language.build(&workspace)? {
            LanguageGuest::Built(component) => {
                let folder = language.folder(&workspace);
                measure(
                    &workspace,
                    &component,
                    "--create",
                    &folder.join("memo.yaml"),
                    &seconds,
                )?;
            }
            LanguageGuest::LeftOut(why) => println!("{}", left_out(language, &why)),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds them all. A machine need not have these languages: says which are left out.
pub(crate) fn build(workspace: &Workspace) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    for language in Language::ALL {
        if let LanguageGuest::LeftOut(why) = language.build(workspace)? {
            let note = left_out(language, &why);
            say(&note);
            notes.push(note);
        }
    }
    Ok(notes)
}

fn left_out(language: Language, why: &str) -> String {
    format!("left out: the plugin in {}, because {why}", language.name())
}

/// The template for stored resources has the same rule.
fn rust(workspace: &Workspace, seconds: &str) -> Result<()> {
    let run_dir = RunDir::take(workspace.root(), "languages")?;
    let folder = run_dir.path().join("memo");
    let joinery = workspace.binary("joinery")?;
    let mut new = Command::new(joinery);
    good(
        new.args(["plugin", "new", "memo", "--shape", "stored", "--path"])
            .arg(&folder),
    )?;
    let target = workspace.plugins().join("target");
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "--release", "--target", "wasm32-wasip2"]);
    good(build.current_dir(&folder).env("CARGO_TARGET_DIR", &target))?;
    let component = target.join("wasm32-wasip2/release/memo.wasm");
    measure(
        workspace,
        &component,
        "--review",
        &folder.join("cases/filled/review.yaml"),
        seconds,
    )
}

fn measure(
    workspace: &Workspace,
    component: &Path,
    flag: &str,
    asked: &Path,
    seconds: &str,
) -> Result<()> {
    let joinery = workspace.binary("joinery")?;
    println!("\n== {}", component.display());
    good(
        Command::new(&joinery)
            .args(["plugin", "check"])
            .arg(component),
    )?;
    let mut bench = Command::new(&joinery);
    bench
        .args(["plugin", "bench"])
        .arg(component)
        .arg(flag)
        .arg(asked);
    good(bench.args(["--seconds", seconds]))
}

fn good(command: &mut Command) -> Result<()> {
    let status = wait_for_status(command)
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    ensure!(status.success(), "{command:?} failed ({status})");
    Ok(())
}
