//! The differences on purpose, as docs/differences.md lists them for people: rows of a table whose first column is the request and whose
//! second is the parts of the answer.

use std::fs;
use std::path::Path;

/// All rows.
pub(super) struct Listed(Vec<Row>);

struct Row {
    /// `scenario: title`; a `*` at the end stands for any rest.
    request: String,
    parts: Vec<(String, bool)>,
}

impl Listed {
    pub(super) fn read(file: &Path) -> Listed {
        Listed::parse(&fs::read_to_string(file).unwrap())
    }

    fn parse(text: &str) -> Listed {
        let rows = text.lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            let request = cells.next()?.trim_end().strip_suffix('`')?.to_owned();
            let parts = cells.next()?.split(',');
            let parts = parts.map(|part| (part.trim().trim_matches('`').to_owned(), false));
            Some(Row {
                request,
                parts: parts.collect(),
            })
        });
        Listed(rows.collect())
    }

    /// Whether this part of the answer to this request is listed, with all below it. Remembers that it was seen.
    pub(super) fn covers(&mut self, request: &str, part: &str) -> bool {
        let mut covered = false;
        for row in &mut self.0 {
            let matches = match row.request.strip_suffix('*') {
                Some(beginning) => request.starts_with(beginning),
                None => request == row.request,
            };
            for (listed, seen) in row.parts.iter_mut().filter(|_| matches) {
                let below = part.strip_prefix(listed.as_str());
                if below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
                    *seen = true;
                    covered = true;
                }
            }
        }
        covered
    }

    /// What is listed and no longer so.
    pub(super) fn unseen(&self) -> String {
        let all = self.0.iter().flat_map(|row| {
            let parts = row.parts.iter().filter(|(_, seen)| !seen);
            parts.map(|(part, _)| {
                format!(
                    "\n{}: {part} is listed in docs/differences.md, and does not differ",
                    row.request
                )
            })
        });
        all.collect()
    }
}

#[test]
fn a_listed_difference_covers_what_is_below_it_and_must_occur() {
    let mut listed = Listed::parse(
        "text\n\n| request | part |\n| --- | --- |\n| `a: b` | `code`, `body/x` | why |\n| `c: *` | `code` | why |\n",
    );
    assert!(listed.covers("a: b", "code"));
    assert!(!listed.covers("a: b", "body/xy"));
    assert!(!listed.covers("a: c", "code"));
    assert_eq!(
        listed
            .unseen()
            .lines()
            .filter(|line| !line.is_empty())
            .count(),
        2
    );
    assert!(listed.covers("a: b", "body/x/y"));
    assert!(listed.covers("c: d", "code"));
    assert!(listed.unseen().is_empty());
}
