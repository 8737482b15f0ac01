//! `joinery plugin new`: a plugin that builds, from a template.
//!
//! The templates, the SDK and the contract are in this binary, so that what is written fits this host and nothing needs to
//! be looked up: the SDK is put beside the plugin, in `sdk/`, as it is in the checkout. A folder below `plugins/templates`
//! is a shape; `common` goes with all of them, but for what a shape has of its own.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;

/// Name in the checkout, and text.
static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// Write a new plugin that builds as it is.
///
/// A Rust crate with its logic, tests of it, recorded cases, and a README that says how to build and try it. The SDK and the
/// contract, of this host's version, are put into its folder sdk/: nothing but serde, serde_json and wit-bindgen comes from
/// crates.io.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  joinery plugin new pod-story --shape view
  joinery plugin new note --shape stored --group notes.example.org
  joinery plugin new note --shape stored --sdk ../joinery/plugins/sdk    # within a checkout")]
pub(crate) struct New {
    /// The plugin's name, lower case, words joined by '-': its crate, and its kind in upper camel case.
    #[arg(value_name = "NAME", value_parser = name)]
    name: String,
    /// Who keeps the objects: stored, the host; view, nobody, they are joined from others; served, the plugin, or a service
    /// that it calls.
    #[arg(long, value_parser = PossibleValuesParser::new(shapes()))]
    shape: String,
    /// API group of its resource. Left out: NAME.example.com.
    #[arg(long, value_name = "GROUP", value_parser = group)]
    group: Option<String>,
    /// Folder to make. Left out: NAME.
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Depend on the SDK in this folder instead of writing it into the plugin's own.
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

fn shapes() -> Vec<&'static str> {
    let shapes: BTreeSet<&str> = FILES
        .iter()
        .filter_map(|(name, _)| name.strip_prefix("templates/")?.split('/').next())
        .filter(|shape| *shape != "common")
        .collect();
    shapes.into_iter().collect()
}

fn name(text: &str) -> Result<String, String> {
    let words = text.split('-');
    let word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    if text.len() <= 40 && words.clone().all(word) {
        Ok(text.to_owned())
    } else {
        Err("a name is like note or pod-story: at most 40 letters in lower case and digits, words joined by '-'".to_owned())
    }
}

fn group(text: &str) -> Result<String, String> {
    joinery_plugin::group_problem(text).map_or_else(|| Ok(text.to_owned()), Err)
}

impl New {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let folder = self
            .path
            .clone()
            .unwrap_or_else(|| PathBuf::from(&self.name));
        if folder.exists() {
            bail!(
                "{} is there already: choose another --path",
                folder.display()
            );
        }
        let sdk = match &self.sdk {
            None => "sdk".to_owned(),
            Some(path) => {
                let path = path
                    .canonicalize()
                    .with_context(|| format!("there is no SDK in {}", path.display()))?;
                if !path.join("Cargo.toml").is_file() {
                    bail!("there is no SDK in {}: no Cargo.toml", path.display());
                }
                path.display().to_string()
            }
        };
        let words = self.words(&sdk);
        let own = format!("templates/{}/", self.shape);
        for (name, text) in FILES {
            let template = name
                .strip_prefix("templates/common/")
                .or_else(|| name.strip_prefix(&own));
            if let Some(name) = template {
                let name = match name.strip_suffix(".in") {
                    // A dot would hide it from git here.
                    Some("gitignore") => ".gitignore",
                    Some(name) => name,
                    None => name,
                };
                write(&folder.join(name), &filled(text, &words))?;
            } else if self.sdk.is_none() && name.starts_with("sdk/") {
                write(&folder.join(name), text)?;
            } else if *name == "Cargo.lock" {
                write(&folder.join(name), &without_members(text))?;
            }
        }
        let shown = folder.display();
        println!(
            "wrote {shown}, a plugin of shape {}. To build and check it:\n",
            self.shape
        );
        println!("  cd {shown}");
        println!("  cargo test");
        println!("  cargo build --release --target wasm32-wasip2");
        let component = self.name.replace('-', "_");
        println!("  joinery plugin check target/wasm32-wasip2/release/{component}.wasm");
        println!("\nREADME.md says how to see it live.");
        Ok(ExitCode::SUCCESS)
    }

    /// What stands in the templates, and for what.
    fn words(&self, sdk: &str) -> Vec<(&'static str, String)> {
        let kind: String = self.name.split('-').map(capital).collect();
        let plural = super::inputs::plural(&kind);
        let group = self
            .group
            .clone()
            .unwrap_or_else(|| format!("{}.example.com", self.name));
        vec![
            ("@NAME@", self.name.clone()),
            ("@CRATE@", self.name.replace('-', "_")),
            ("@KIND@", kind),
            ("@PLURAL@", plural),
            ("@GROUP@", group),
            ("@SDK@", sdk.to_owned()),
        ]
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn filled(text: &str, words: &[(&str, String)]) -> String {
    words
        .iter()
        .fold(text.to_owned(), |text, (word, by)| text.replace(word, by))
}

/// The lock file of the plugins here, without these plugins themselves: the same versions of everything else. Cargo takes
/// out what is not needed, and adds the new crate.
fn without_members(lock: &str) -> String {
    lock.split_inclusive("\n\n")
        .filter(|package| !package.contains("[[package]]") || package.contains("\nsource = "))
        .collect()
}

fn write(path: &Path, text: &str) -> Result<()> {
    let written = || {
        fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        fs::write(path, text)
    };
    written().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_folder_of_templates_is_a_shape() {
        for shape in ["served", "stored", "view"] {
            assert!(shapes().contains(&shape), "{:?}", shapes());
        }
        assert!(!shapes().contains(&"common"));
    }

    #[test]
    fn nothing_that_is_to_be_filled_in_is_left() {
        let parent = tempfile::tempdir().unwrap();
        for shape in shapes() {
            let folder = parent.path().join(shape);
            let new = New {
                name: "pod-story".into(),
                shape: shape.into(),
                group: None,
                path: Some(folder.clone()),
                sdk: None,
            };
            new.run().unwrap();
            let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
            for name in ["Cargo.toml", "README.md", "src/lib.rs", ".gitignore"] {
                let text = text(name);
                let left = [
                    "@NAME@", "@CRATE@", "@KIND@", "@PLURAL@", "@GROUP@", "@SDK@",
                ];
                assert!(!left.iter().any(|word| text.contains(word)), "{name}");
            }
            assert!(text("src/lib.rs").contains("\"podstories\""));
            assert!(text("sdk/wit/v0.1/plugin.wit").contains("package joinery:plugin@0.1.0;"));
            assert!(!text("Cargo.lock").contains("name = \"joinery-sdk\""));
            assert!(text("Cargo.lock").contains("name = \"wit-bindgen\""));
        }
    }

    #[test]
    fn names_are_those_of_crates_and_kinds() {
        assert!(name("note").is_ok() && name("pod-story2").is_ok());
        for bad in ["", "Note", "a_b", "-a", "a-", "a--b", "2a", "ä"] {
            assert!(name(bad).is_err(), "{bad}");
        }
        assert!(group("notes.example.org").is_ok());
        for bad in [
            "",
            "notes",
            "apps.k8s.io",
            "x.joinery.dev",
            "Notes.example.org",
            "a\"b.c",
        ] {
            assert!(group(bad).is_err(), "{bad}");
        }
    }
}
