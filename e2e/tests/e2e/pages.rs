//! The pages of docs/plugins are true: their commands are run as they are written, their code is compiled, their links lead
//! somewhere.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use joinery_e2e::{RunDir, Workspace};

use crate::shared::Shared;

/// For one block. The longest compiles a crate on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A fenced block of a page.
struct Block {
    /// `PAGE:LINE`
    place: String,
    language: String,
    text: String,
    /// Why it is not run, in the words of the page.
    not_run: Option<String>,
}

fn folder() -> PathBuf {
    Workspace::here().root().join("docs/plugins")
}

/// The pages, by name.
fn pages() -> Vec<(String, String)> {
    let mut pages: Vec<(String, String)> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(&path).unwrap())
        })
        .collect();
    pages.sort();
    pages
}

fn blocks(page: &str, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    let mut not_run = None;
    while let Some((number, line)) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let mut text = String::new();
            for (_, line) in lines.by_ref().take_while(|(_, line)| *line != "```") {
                text.push_str(line);
                text.push('\n');
            }
            blocks.push(Block {
                place: format!("{page}:{}", number + 1),
                language: language.to_owned(),
                text,
                not_run: not_run.take(),
            });
            continue;
        }
        let reason = line.strip_prefix("<!-- not run: ");
        not_run = reason.and_then(|reason| Some(reason.strip_suffix(" -->")?.to_owned()));
    }
    blocks
}

/// A reader at a shell, who goes through a page.
struct Reader {
    folder: PathBuf,
    scratch: PathBuf,
    prepare: Box<dyn Fn(&mut Command)>,
}

impl Reader {
    fn new(folder: &Path, run_dir: &RunDir, prepare: impl Fn(&mut Command) + 'static) -> Reader {
        Reader {
            folder: folder.to_owned(),
            scratch: run_dir.logs(),
            prepare: Box::new(prepare),
        }
    }

    fn follow(&mut self, blocks: &[Block]) {
        for block in blocks {
            if let Some(reason) = &block.not_run {
                assert!(!reason.trim().is_empty(), "{}", block.place);
                eprintln!("{} is not run: {reason}", block.place);
                continue;
            }
            let began = Instant::now();
            match block.language.as_str() {
                "sh" => {
                    let (good, printed) = self.type_in(&block.text);
                    assert!(good, "{}\n{}\n{printed}", block.place, block.text);
                }
                "console" => self.compare(block),
                "diff" => self.edit(block),
                _ => continue,
            }
            eprintln!("{} took {:.1?}", block.place, began.elapsed());
        }
    }

    /// Runs commands in the folder that the ones before have led to. Gives whether they succeeded, and what they printed.
    fn type_in(&mut self, commands: &str) -> (bool, String) {
        let at = |name: &str| self.scratch.join(name);
        let (place, printed) = (at("place"), at("printed"));
        let out = File::create(&printed).unwrap();
        let mut command = Command::new("bash");
        command
            .args(["-euo", "pipefail", "-c"])
            .arg(format!("trap 'pwd > \"$PLACE\"' EXIT\n{commands}"))
            .env("PLACE", &place)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out);
        // Those of the cargo that runs this test speak of its package.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&name);
            }
        }
        let workspace = Workspace::here();
        command
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_TARGET_DIR")
            // What a new crate depends on has been built for the guests of the checkout.
            .env("CARGO_BUILD_BUILD_DIR", workspace.plugins().join("target"));
        (self.prepare)(&mut command);
        let mut child = command.spawn().unwrap();
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > end {
                let _ = child.kill();
                let _ = child.wait();
                let printed = fs::read_to_string(&printed).unwrap();
                panic!("not done within {PATIENCE:?}: {commands}\n{printed}");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        self.folder = fs::read_to_string(&place).unwrap().trim_end().into();
        (status.success(), fs::read_to_string(&printed).unwrap())
    }

    /// Commands behind `$ `, each with the lines that it is shown to print. One that is shown to fail must fail.
    fn compare(&mut self, block: &Block) {
        let text = format!("\n{}", block.text);
        for part in text.split("\n$ ").skip(1) {
            let (command, shown) = part.split_once('\n').unwrap_or((part, ""));
            let fails = shown.starts_with("Error") || shown.contains(" is invalid: ");
            let (good, printed) = self.type_in(command);
            assert_eq!(good, !fails, "{}: {command}\n{printed}", block.place);
            let mut rest = printed.lines();
            for line in shown.lines().filter(|line| !line.is_empty()) {
                assert!(
                    rest.any(|printed| alike(line, printed)),
                    "{}: {command}: no line {line:?} in\n{printed}",
                    block.place
                );
            }
        }
    }

    /// Takes the lines with `-` away, and puts those with `+` where the page shows them.
    fn edit(&self, block: &Block) {
        let (file, change) = block.text.split_once('\n').unwrap();
        let path = self.folder.join(file.strip_prefix("--- ").unwrap());
        let side = |without: char| -> String {
            let lines = change.lines().filter(|line| !line.starts_with(without));
            lines
                .map(|line| format!("{}\n", line.get(1..).unwrap_or_default()))
                .collect()
        };
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(
            text.matches(&side('+')).count(),
            1,
            "{}: not there once",
            block.place
        );
        fs::write(&path, text.replace(&side('+'), &side('-'))).unwrap();
    }
}

/// Whether a line is the one that is shown: `…` stands for any word.
fn alike(shown: &str, printed: &str) -> bool {
    let (shown, printed) = (shown.split_whitespace(), printed.split_whitespace());
    shown.clone().count() == printed.clone().count()
        && shown.zip(printed).all(|(a, b)| a == "…" || a == b)
}

/// From nothing to a new resource in kubectl, changed while it serves, and away again.
pub(crate) fn the_tutorial_as_written_ends_with_a_new_resource(environment: &'static Shared) {
    let _gate = environment.in_common();
    let run_dir = RunDir::take(environment.workspace().root(), "e2e-tutorial").unwrap();
    let text = fs::read_to_string(folder().join("tutorial.md")).unwrap();
    let mut reader = Reader::new(run_dir.path(), &run_dir, |command| {
        environment.describe_to(command).unwrap();
    });
    reader.follow(&blocks("tutorial.md", &text));
}

/// All other pages, from the top of the checkout.
#[test]
fn the_commands_of_each_page_run_as_they_are_written() {
    let workspace = Workspace::here();
    let run_dir = RunDir::take(workspace.root(), "e2e-pages").unwrap();
    let joinery = workspace.binary("joinery").unwrap();
    let programs = joinery.parent().unwrap().to_owned();
    let mut ran = 0;
    for (page, text) in pages()
        .into_iter()
        .filter(|(page, _)| page != "tutorial.md")
    {
        let programs = programs.clone();
        let mut reader = Reader::new(workspace.root(), &run_dir, move |command| {
            let path = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{path}", programs.display()));
        });
        let blocks = blocks(&page, &text);
        ran += blocks
            .iter()
            .filter(|block| block.not_run.is_none())
            .count();
        reader.follow(&blocks);
    }
    assert!(ran > 0, "no page has a command");
}

/// What a page shows as the code of a recipe is the code that is compiled and tested.
#[test]
fn the_recipes_show_the_code_that_is_tested() {
    let workspace = Workspace::here();
    let text = fs::read_to_string(folder().join("recipes.md")).unwrap();
    let sources: Vec<String> = fs::read_dir(workspace.plugins().join("recipes/src"))
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    let shown = blocks("recipes.md", &text);
    let rust: Vec<&Block> = shown.iter().filter(|b| b.language == "rust").collect();
    assert!(
        rust.len() >= 6,
        "three recipes, each with its keys and its shape"
    );
    for block in rust {
        let found = sources.iter().any(|source| source.contains(&block.text));
        assert!(
            found,
            "{} is not in plugins/recipes/src:\n{}",
            block.place, block.text
        );
    }
}

/// Nothing of the contract is without a word in its reference.
#[test]
fn the_reference_has_every_interface_function_and_type_of_the_contract() {
    let wit = Workspace::here().root().join("wit/v0.1/plugin.wit");
    let wit = fs::read_to_string(wit).unwrap();
    let reference = fs::read_to_string(folder().join("reference.md")).unwrap();
    let mut missing = Vec::new();
    for line in wit.lines().map(str::trim) {
        let mut words = line
            .split([' ', ':', '{', '('])
            .filter(|word| !word.is_empty());
        let (Some(first), second) = (words.next(), words.next()) else {
            continue;
        };
        let name = match (first, second) {
            ("interface" | "record" | "variant" | "enum" | "world" | "type", Some(name)) => name,
            (name, Some("func")) => name,
            _ => continue,
        };
        let name = name.trim_start_matches('%');
        if !reference.contains(&format!("`{name}`")) {
            missing.push(name);
        }
    }
    assert!(missing.is_empty(), "not in reference.md: {missing:?}");
}

#[test]
fn links_between_pages_lead_somewhere() {
    let root = Workspace::here().root().to_owned();
    let mut files = vec![root.join("README.md"), root.join("ARCHITECTURE.md")];
    for folder in ["docs", "docs/plugins", "plugins/languages"] {
        let entries = fs::read_dir(root.join(folder)).unwrap();
        files.extend(entries.map(|entry| entry.unwrap().path()));
    }
    let mut checked = 0;
    for file in files
        .iter()
        .filter(|file| file.extension().is_some_and(|e| e == "md"))
    {
        let text = fs::read_to_string(file).unwrap();
        for part in text.split("](").skip(1) {
            let Some((target, _)) = part.split_once(')') else {
                continue;
            };
            let target = target.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.contains(char::is_whitespace) {
                continue;
            }
            let path = file.parent().unwrap().join(target);
            assert!(path.exists(), "{}: {target} leads nowhere", file.display());
            checked += 1;
        }
    }
    assert!(checked > 10, "{checked} links");
}
