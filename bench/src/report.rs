//! Results: tables in Markdown, plots in SVG, and their place in docs/performance.md.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::plot::Plot;

/// A table of results.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(title: impl Into<String>, head: &[&str]) -> Table {
        Table {
            title: title.into(),
            head: head.iter().map(|cell| (*cell).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    fn markdown(&self) -> String {
        let mut out = format!("{}\n\n", self.title);
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        out += &line(&self.head);
        let rule: Vec<String> = (0..self.head.len())
            .map(|at| if at == 0 { "---" } else { "---:" }.to_owned())
            .collect();
        out += &line(&rule);
        for row in &self.rows {
            out += &line(row);
        }
        out
    }
}

/// What one benchmark found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) tables: Vec<Table>,
    pub(crate) plots: Vec<Plot>,
}

impl Report {
    /// For the terminal.
    pub(crate) fn print(&self, name: &str) {
        println!("\n## {name}\n");
        for table in &self.tables {
            println!("{}", table.markdown());
        }
    }

    /// Writes the plots to `docs/performance/` and the tables between the benchmark's marks in docs/performance.md.
    pub(crate) fn write(&self, name: &str, docs: &Path) -> Result<()> {
        let folder = docs.join("performance");
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let mut text = String::new();
        for table in &self.tables {
            let _ = writeln!(text, "{}", table.markdown());
        }
        for plot in &self.plots {
            let file = format!("{}.svg", plot.file);
            fs::write(folder.join(&file), plot.svg()).with_context(|| file.clone())?;
            let _ = writeln!(text, "![{}](performance/{file})\n", plot.title);
        }
        let page = docs.join("performance.md");
        let old = fs::read_to_string(&page).with_context(|| page.display().to_string())?;
        let new = between(&old, name, &text)
            .with_context(|| format!("{} has no place for {name}", page.display()))?;
        fs::write(&page, new).with_context(|| page.display().to_string())
    }
}

/// The page with this text between the marks of `name`.
fn between(page: &str, name: &str, text: &str) -> Option<String> {
    let (begin, end) = (
        format!("<!-- bench {name} -->\n"),
        format!("<!-- end {name} -->"),
    );
    let (head, rest) = page.split_once(&begin)?;
    let (_, tail) = rest.split_once(&end)?;
    Some(format!("{head}{begin}\n{text}{end}{tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_marks_is_exchanged() {
        let page = "a\n<!-- bench x -->\nold\n<!-- end x -->\nb\n";
        let new = between(page, "x", "new\n").unwrap();
        assert_eq!(new, "a\n<!-- bench x -->\n\nnew\n<!-- end x -->\nb\n");
        assert_eq!(between(&new, "x", "new\n").unwrap(), new);
        assert_eq!(between(page, "y", "new"), None);
    }

    #[test]
    fn a_table_is_markdown() {
        let mut table = Table::new("Title", &["a", "b"]);
        table.row(["1", "2"]);
        assert_eq!(
            table.markdown(),
            "Title\n\n| a | b |\n| --- | ---: |\n| 1 | 2 |\n"
        );
    }
}
