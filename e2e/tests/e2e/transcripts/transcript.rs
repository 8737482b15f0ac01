//! Transcripts as files.

use std::fs;
use std::path::{Path, PathBuf};

/// One file.
pub(super) struct Transcript {
    pub(super) path: PathBuf,
    pub(super) entries: Vec<Entry>,
    /// What follows the last entry: nothing, or comments.
    rest: String,
}

/// One command with what it prints.
pub(super) struct Entry {
    /// Comments and empty lines before it.
    before: String,
    pub(super) line: usize,
    /// For whom alone it is run.
    pub(super) only: Option<Only>,
    pub(super) command: String,
    pub(super) expected: String,
}

const PROMPTS: [(&str, Option<Only>); 4] = [
    ("$ ", None),
    ("peer$ ", Some(Only::Peer)),
    ("ours$ ", Some(Only::Ours)),
    ("cluster$ ", Some(Only::Cluster)),
];

/// For whom, or where, a command is run at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Only {
    Ours,
    Peer,
    /// Not standalone.
    Cluster,
}

/// Whether the files are to be written anew.
pub(super) fn writing() -> bool {
    std::env::var_os("JOINERY_WRITE_TRANSCRIPTS").is_some()
}

impl Transcript {
    pub(super) fn read(root: &Path, name: &str) -> Transcript {
        let path = root.join(format!("e2e/tests/e2e/transcripts/{name}.txt"));
        let text = fs::read_to_string(&path).unwrap();
        let mut entries: Vec<Entry> = Vec::new();
        let mut before = String::new();
        // Whether lines still belong to the last entry: an empty line or a comment ends it.
        let mut open = false;
        for (at, line) in text.lines().enumerate() {
            let prompt = PROMPTS
                .iter()
                .find_map(|(prompt, only)| Some((line.strip_prefix(prompt)?, *only)));
            if let Some((command, only)) = prompt {
                entries.push(Entry {
                    before: std::mem::take(&mut before),
                    line: at + 1,
                    only,
                    command: command.to_owned(),
                    expected: String::new(),
                });
                open = true;
            } else if let (true, Some(entry)) = (open, entries.last_mut())
                && !line.is_empty()
                && !line.starts_with('#')
            {
                match line.strip_prefix("> ") {
                    Some(more) => {
                        entry.command.push('\n');
                        entry.command.push_str(more);
                    }
                    None => {
                        entry.expected.push_str(line);
                        entry.expected.push('\n');
                    }
                }
            } else {
                open = false;
                before.push_str(line);
                before.push('\n');
            }
        }
        assert!(!entries.is_empty(), "{} holds no command", path.display());
        Transcript {
            path,
            entries,
            rest: before,
        }
    }

    /// Takes what was printed for what is expected.
    pub(super) fn expect(&mut self, printed: &[Option<String>]) {
        for (entry, printed) in self.entries.iter_mut().zip(printed) {
            if let Some(printed) = printed {
                entry.expected.clone_from(printed);
            }
        }
    }

    /// Writes the file.
    pub(super) fn write(&self) {
        let mut text = String::new();
        for entry in &self.entries {
            text.push_str(&entry.before);
            let prompt = PROMPTS
                .iter()
                .find(|(_, only)| *only == entry.only)
                .map_or("$ ", |(prompt, _)| prompt);
            text.push_str(prompt);
            text.push_str(&entry.command.replace('\n', "\n> "));
            text.push('\n');
            text.push_str(&entry.expected);
        }
        text.push_str(&self.rest);
        fs::write(&self.path, text).unwrap();
    }
}
