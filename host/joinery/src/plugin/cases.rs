//! `joinery plugin test`: recorded cases, asked again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use joinery_plugin::Generation;
use serde_json::Value;

use super::Target;
use super::inputs::Files;
use super::run::ask;
use crate::terminal::harmless;

const OBJECTS: &str = "objects.yaml";
const REVIEW: &str = "review.yaml";
const REQUEST: &str = "request.yaml";
const HTTP: &str = "http.yaml";
const SETTINGS: &str = "settings.yaml";
const EXPECTED: &str = "expected.yaml";

/// Ask a plugin what recorded cases ask, and compare its answers with those expected.
///
/// A case is a folder: objects.yaml (what the sources hold, or what look-ups find), review.yaml (a write of a stored
/// resource) or request.yaml (a verb of a served one) with http.yaml (what the service behind it answers; nothing is called),
/// all as for `joinery plugin run`, settings.yaml (instead of the plugin's own settings file) and expected.yaml
/// (the answer). Exits with 1 when an answer differs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  joinery plugin test combined_tasks.wasm cases/
  joinery plugin test combined_tasks.wasm cases/ --update     # record the answers as they are now")]
pub(crate) struct Test {
    #[command(flatten)]
    target: Target,
    /// The folder of the cases.
    #[arg(value_name = "CASES")]
    cases: PathBuf,
    /// Write the answers into expected.yaml instead of comparing them.
    #[arg(long)]
    update: bool,
}

impl Test {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let cases = folders(&self.cases)?;
        let mut loaded: BTreeMap<Option<PathBuf>, Loaded> = BTreeMap::new();
        let mut failed = 0;
        for case in &cases {
            let own = Some(case.join(SETTINGS)).filter(|path| path.is_file());
            if !loaded.contains_key(&own) {
                let mut target = self.target.clone();
                if own.is_some() {
                    target.settings.clone_from(&own);
                }
                let shown = case.display();
                let of_case = target
                    .load()
                    .await
                    .with_context(|| format!("case {shown}"))?;
                loaded.insert(own.clone(), of_case);
            }
            let (_, generation) = &loaded[&own];
            failed += usize::from(!self.case(case, generation).await?);
        }
        let count = cases.len();
        println!("{} of {count} cases passed", count - failed);
        Ok(if failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    async fn case(&self, case: &Path, generation: &Arc<Generation>) -> Result<bool> {
        let shown = case.display();
        let file = |name: &str| Some(case.join(name)).filter(|path| path.is_file());
        let files = Files {
            objects: file(OBJECTS).into_iter().collect(),
            review: file(REVIEW),
            create: None,
            request: file(REQUEST),
            http: file(HTTP),
        };
        let mut inputs = files.read(generation)?;
        // A case is the same wherever it is asked.
        inputs.http.get_or_insert_default();
        let answer = ask(generation, inputs)
            .await
            .with_context(|| format!("case {shown}"))?
            .value;
        let expected = case.join(EXPECTED);
        if self.update {
            fs::write(&expected, serde_saphyr::to_string(&answer)?)
                .with_context(|| format!("cannot write {}", expected.display()))?;
            println!("recorded  {shown}");
            return Ok(true);
        }
        let text = fs::read_to_string(&expected).with_context(|| {
            format!("{} cannot be read: --update records it", expected.display())
        })?;
        let wanted: Value = serde_saphyr::from_str(&text)
            .with_context(|| format!("{} is no YAML", expected.display()))?;
        if wanted == answer {
            println!("ok        {shown}");
            return Ok(true);
        }
        println!("FAILED    {shown}");
        let (wanted, answer) = (
            serde_saphyr::to_string(&wanted)?,
            serde_saphyr::to_string(&answer)?,
        );
        for line in difference(&wanted, &answer) {
            println!("    {}", harmless(&line));
        }
        Ok(false)
    }
}

/// A plugin with the runtime that it lives in.
type Loaded = (joinery_plugin::Runtime, Arc<Generation>);

/// The cases in a folder: those below it, or itself when it is one.
fn folders(folder: &Path) -> Result<Vec<PathBuf>> {
    let asks = [OBJECTS, REVIEW, REQUEST];
    let is_case = |path: &Path| asks.iter().any(|name| path.join(name).is_file());
    if is_case(folder) {
        return Ok(vec![folder.to_owned()]);
    }
    let mut cases = Vec::new();
    let unreadable = || format!("cannot read the folder of cases {}", folder.display());
    for entry in fs::read_dir(folder).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        if is_case(&path) {
            cases.push(path);
        }
    }
    if cases.is_empty() {
        bail!(
            "there is no case in {}: a case is a folder with {}",
            folder.display(),
            asks.join(" or ")
        );
    }
    cases.sort();
    Ok(cases)
}

/// Lines that only one of two texts has, in order, each with its neighbours in the other: the longest common subsequence
/// is left out.
fn difference(wanted: &str, answer: &str) -> Vec<String> {
    let (wanted, answer): (Vec<&str>, Vec<&str>) =
        (wanted.lines().collect(), answer.lines().collect());
    // Lengths of what the rests have in common. Cases are small; those that are not are told in whole.
    if wanted.len() * answer.len() > 4_000_000 {
        return vec!["the answer differs, and is too long to be compared line by line".to_owned()];
    }
    let mut common = vec![vec![0u32; answer.len() + 1]; wanted.len() + 1];
    for i in (0..wanted.len()).rev() {
        for j in (0..answer.len()).rev() {
            common[i][j] = if wanted[i] == answer[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::new();
    while i < wanted.len() || j < answer.len() {
        if i < wanted.len() && j < answer.len() && wanted[i] == answer[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == answer.len() || (i < wanted.len() && common[i + 1][j] >= common[i][j + 1]) {
            lines.push(format!("- {}", wanted[i]));
            i += 1;
        } else {
            lines.push(format!("+ {}", answer[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_told() {
        assert_eq!(
            difference("a\nb\nc\n", "a\nx\nc\nd\n"),
            ["- b", "+ x", "+ d"]
        );
        assert!(difference("a\n", "a\n").is_empty());
        assert_eq!(difference("", "a"), ["+ a"]);
    }

    #[test]
    fn a_folder_without_cases_is_no_success() {
        let folder = tempfile::tempdir().unwrap();
        let error = folders(folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("there is no case in "), "{error}");
        let case = folder.path().join("b");
        fs::create_dir_all(&case).unwrap();
        fs::write(case.join(OBJECTS), "").unwrap();
        assert_eq!(folders(folder.path()).unwrap(), std::slice::from_ref(&case));
        assert_eq!(folders(&case).unwrap(), std::slice::from_ref(&case));
    }
}
