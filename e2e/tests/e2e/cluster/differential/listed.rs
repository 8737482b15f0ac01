//! The differences on purpose, as docs/differences.md lists them for people: tables under headings, each heading with the reason of its
//! rows. The first column of a row is the request, the second the parts of the answer; what the two servers say is written by the test
//! itself when `JOINERY_WRITE_DIFFERENCES=1`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::compare::Difference;

/// Whose answers ours are held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Against {
    CustomResources,
    SampleApiserver,
}

impl Against {
    /// Of its part of the page.
    fn heading(self) -> &'static str {
        match self {
            Against::CustomResources => "## Custom resources",
            Against::SampleApiserver => "## sample-apiserver",
        }
    }

    fn table_head(self) -> &'static str {
        match self {
            Against::CustomResources => {
                "| request | part | custom resource | ours |\n| --- | --- | --- | --- |"
            }
            Against::SampleApiserver => {
                "| request | part | sample-apiserver | ours | as a custom resource |\n| --- | --- | --- | --- | --- |"
            }
        }
    }
}

/// A difference, and whether ours is as the custom resource in that part.
#[derive(Clone, Debug)]
pub(super) struct Met {
    pub(super) difference: Difference,
    pub(super) as_custom: bool,
}

/// The page.
pub(super) struct Listed {
    file: PathBuf,
    lines: Vec<Line>,
    /// What no row covers.
    unlisted: Vec<(Against, String, Vec<Met>)>,
}

enum Line {
    Text(String),
    Row(Row),
}

struct Row {
    against: Against,
    /// `scenario: title`; a `*` at the end stands for any rest.
    request: String,
    parts: Vec<String>,
    as_written: String,
    met: Vec<Met>,
}

/// Where new rows are written, to be moved to their reason.
const UNSORTED: &str = "### Without a reason yet";

impl Listed {
    pub(super) fn read(file: &Path) -> Listed {
        Listed::parse(file, &fs::read_to_string(file).unwrap())
    }

    fn parse(file: &Path, text: &str) -> Listed {
        let mut against = Against::CustomResources;
        let lines = text.lines().map(|line| {
            for other in [Against::CustomResources, Against::SampleApiserver] {
                if line == other.heading() {
                    against = other;
                }
            }
            Row::parse(against, line).map_or_else(|| Line::Text(line.to_owned()), Line::Row)
        });
        Listed {
            file: file.to_owned(),
            lines: lines.collect(),
            unlisted: Vec::new(),
        }
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.lines.iter().filter_map(|line| match line {
            Line::Row(row) => Some(row),
            Line::Text(_) => None,
        })
    }

    /// Notes how the answers to a request differ.
    pub(super) fn note(&mut self, against: Against, request: &str, met: Vec<Met>) {
        let mut left = Vec::new();
        for met in met {
            let mut covered = false;
            for line in &mut self.lines {
                if let Line::Row(row) = line
                    && row.against == against
                    && row.is_of(request)
                    && row.parts.iter().any(|part| met.difference.is_within(part))
                {
                    covered = true;
                    row.met.push(met.clone());
                }
            }
            if !covered {
                left.push(met);
            }
        }
        if !left.is_empty() {
            self.unlisted.push((against, request.to_owned(), left));
        }
    }

    /// What the page says otherwise than the servers; `sampled` if there was a sample-apiserver to ask.
    pub(super) fn report(&self, sampled: bool) -> String {
        let mut report = String::new();
        for (against, request, met) in &self.unlisted {
            let _ = writeln!(report, "\n{request} ({against:?}), not listed");
            for Met {
                difference: Difference { part, go, ours },
                ..
            } in met
            {
                let _ = writeln!(report, "  {part}\n    Go:   {go}\n    ours: {ours}");
            }
        }
        for row in self.rows() {
            if row.against == Against::SampleApiserver && !sampled {
                continue;
            }
            for part in row.unseen() {
                let Row {
                    against, request, ..
                } = row;
                let _ = writeln!(
                    report,
                    "\n{request} ({against:?}): {part} is listed, and does not differ"
                );
            }
            let stated = row.as_written.trim_end_matches(" |");
            if row.against == Against::SampleApiserver
                && !(row.met.is_empty() || row.is_wild())
                && !stated.ends_with(&format!("| {}", row.as_custom()))
            {
                let _ = writeln!(
                    report,
                    "\n{}: as a custom resource: {}",
                    row.request,
                    row.as_custom()
                );
            }
        }
        for heading in self.without_reason() {
            let _ = writeln!(report, "\n{heading}: no reason is given");
        }
        if !report.is_empty() {
            report += "\nJOINERY_WRITE_DIFFERENCES=1 writes what the servers say into docs/differences.md; the reasons are yours.";
        }
        report
    }

    /// Headings whose tables stand there without a word.
    fn without_reason(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut heading: Option<&str> = None;
        for line in &self.lines {
            match line {
                Line::Text(text) if text.starts_with("### ") => heading = Some(text),
                Line::Text(text) if text.is_empty() || text.starts_with('|') => {}
                Line::Text(_) => heading = None,
                Line::Row(_) => found.extend(heading.take().map(str::to_owned)),
            }
        }
        found
    }

    /// Writes what was seen: rows as the servers answer now, without what does not differ, and new ones at the end of their part.
    pub(super) fn write(&self) {
        let mut text = String::new();
        let mut against = None;
        for line in &self.lines {
            match line {
                Line::Text(line) => {
                    for other in [Against::CustomResources, Against::SampleApiserver] {
                        if line == other.heading()
                            && let Some(before) = against.replace(other)
                        {
                            self.write_unlisted(before, &mut text);
                        }
                    }
                    text += line;
                    text += "\n";
                }
                Line::Row(row) if row.met.is_empty() => {}
                Line::Row(row) => text += &row.written(),
            }
        }
        if let Some(last) = against {
            self.write_unlisted(last, &mut text);
        }
        fs::write(&self.file, text).unwrap();
    }

    fn write_unlisted(&self, against: Against, text: &mut String) {
        let new = self.unlisted.iter().filter(|(of, ..)| *of == against);
        let mut rows = new
            .map(|(_, request, met)| Row::of(against, request, met).written())
            .peekable();
        if rows.peek().is_some() {
            let _ = writeln!(text, "\n{UNSORTED}\n\n{}", against.table_head());
            text.extend(rows);
            text.push('\n');
        }
    }
}

impl Row {
    fn parse(against: Against, line: &str) -> Option<Row> {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let request = cells.next()?.trim_end().strip_suffix('`')?.to_owned();
        let parts = cells.next()?.split(',');
        Some(Row {
            against,
            request,
            parts: parts
                .map(|part| part.trim().trim_matches('`').to_owned())
                .collect(),
            as_written: line.to_owned(),
            met: Vec::new(),
        })
    }

    /// A new one. When the code is another, so is all of the body.
    fn of(against: Against, request: &str, met: &[Met]) -> Row {
        let whole = met.iter().any(|met| met.difference.part == "code");
        let mut parts: Vec<String> = Vec::new();
        for Met { difference, .. } in met {
            let part = match difference.part.split_once('/') {
                Some((body, _)) if whole => body,
                _ => &difference.part,
            };
            if !parts.iter().any(|known| known == part) {
                parts.push(part.to_owned());
            }
        }
        Row {
            against,
            request: request.to_owned(),
            parts,
            as_written: String::new(),
            met: met.to_vec(),
        }
    }

    fn is_wild(&self) -> bool {
        self.request.ends_with('*')
    }

    fn is_of(&self, request: &str) -> bool {
        match self.request.strip_suffix('*') {
            Some(beginning) => request.starts_with(beginning),
            None => request == self.request,
        }
    }

    fn unseen(&self) -> impl Iterator<Item = &String> {
        let seen = |part: &str| self.met.iter().any(|met| met.difference.is_within(part));
        self.parts.iter().filter(move |part| !seen(part))
    }

    /// Whether ours is as a custom resource in what differs.
    fn as_custom(&self) -> &'static str {
        let as_custom = self.met.iter().filter(|met| met.as_custom).count();
        match as_custom {
            0 => "no",
            all if all == self.met.len() => "yes",
            _ => "in part",
        }
    }

    fn written(&self) -> String {
        // What it stands for is many answers: people say what.
        if self.is_wild() {
            return format!("{}\n", self.as_written);
        }
        let seen = |part: &&String| {
            let of_part = |met: &Met| met.difference.is_within(part);
            self.met.iter().any(of_part)
        };
        let parts: Vec<_> = self
            .parts
            .iter()
            .filter(seen)
            .map(|part| format!("`{part}`"))
            .collect();
        let mut row = format!(
            "| `{}` | {} | {} | {} |",
            self.request,
            parts.join(", "),
            self.said(|difference| &difference.go),
            self.said(|difference| &difference.ours),
        );
        if self.against == Against::SampleApiserver {
            let _ = write!(row, " {} |", self.as_custom());
        }
        row + "\n"
    }

    /// What one of the servers says: the code if it is another, and the message, or else what comes first.
    fn said(&self, side: impl Fn(&Difference) -> &String) -> String {
        let of = |part: &str| {
            let mut all = self.met.iter().map(|met| &met.difference);
            all.find(|difference| difference.part == part)
        };
        let nothing = |text: &&String| *text != "nothing";
        let code = of("code").map(&side);
        let message = of("body/message").map(&side).filter(nothing);
        let first = self.met.first().map(|met| side(&met.difference));
        let words: Vec<String> = match (code, message) {
            (None, None) => first.into_iter().map(|text| cell(text)).collect(),
            (code, message) => code
                .cloned()
                .into_iter()
                .chain(message.map(|text| cell(text)))
                .collect(),
        };
        words.join(" ")
    }
}

/// A text as code in a cell of a table, cut.
fn cell(text: &str) -> String {
    const SHOWN: usize = 100;
    // What was cut before is no JSON any more.
    let text = serde_json::from_str(text).unwrap_or_else(|_| text.to_owned());
    let plain: String = text
        .chars()
        .map(|c| match c {
            '`' => '\'',
            '\n' => ' ',
            c => c,
        })
        .collect();
    let mut shown: String = plain.chars().take(SHOWN).collect();
    if shown.len() < plain.len() {
        shown.push('…');
    }
    if shown.is_empty() {
        return "empty".to_owned();
    }
    format!("`{}`", shown.replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Page\n\n## Custom resources\n\n### One\n\nBecause.\n\n| request | part | x | y |\n| --- | --- | --- | --- |\n\
        | `a: b` | `code`, `body/x` | | |\n| `c: *` | `code` | | |\n\n## sample-apiserver\n\n### Two\n\n\
        | `a: b` | `body` | | | yes |\n";

    fn met(part: &str) -> Met {
        Met {
            difference: Difference {
                part: part.to_owned(),
                go: "\"one | `two`\"".to_owned(),
                ours: "nothing".to_owned(),
            },
            as_custom: true,
        }
    }

    fn listed() -> Listed {
        Listed::parse(Path::new("page"), PAGE)
    }

    #[test]
    fn a_row_covers_what_is_below_it_and_must_occur() {
        let mut listed = listed();
        listed.note(
            Against::CustomResources,
            "a: b",
            vec![met("code"), met("body/xy")],
        );
        listed.note(Against::CustomResources, "a: c", vec![met("code")]);
        assert_eq!(listed.unlisted.len(), 2);
        assert_eq!(listed.unlisted[0].2[0].difference.part, "body/xy");
        let unseen = |listed: &Listed| listed.rows().flat_map(Row::unseen).count();
        assert_eq!(unseen(&listed), 3);
        listed.note(Against::CustomResources, "a: b", vec![met("body/x/y")]);
        listed.note(Against::CustomResources, "c: d", vec![met("code")]);
        listed.note(Against::SampleApiserver, "a: b", vec![met("body")]);
        assert_eq!(unseen(&listed), 0);
        assert_eq!(listed.unlisted.len(), 2);
    }

    #[test]
    fn each_heading_has_a_reason() {
        assert_eq!(listed().without_reason(), ["### Two"]);
    }

    #[test]
    fn a_row_says_what_the_servers_say() {
        let differences = [
            met("code"),
            met("content-type"),
            met("body/message"),
            met("body/a/b"),
        ];
        let row = Row::of(Against::SampleApiserver, "a: b", &differences);
        assert_eq!(row.parts, ["code", "content-type", "body"]);
        assert_eq!(
            row.written(),
            "| `a: b` | `code`, `content-type`, `body` | \"one | `two`\" `one \\| 'two'` | nothing | yes |\n"
        );
        let differences = [met("body/a"), met("body/b")];
        let row = Row::of(Against::CustomResources, "a: b", &differences);
        assert_eq!(
            row.written(),
            "| `a: b` | `body/a`, `body/b` | `one \\| 'two'` | `nothing` |\n"
        );
    }
}
