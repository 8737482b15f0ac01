//! The host's log, where each record is one line whatever is in it.

use std::borrow::Cow;
use std::io::{self, Stderr, Write};

/// Writes records to stderr. What plugins and clients say stands in some of them, and must neither look like a record of its own
/// nor do anything to a terminal.
pub(crate) struct OneLine {
    /// The host's own colours are let through.
    colours: bool,
    out: Stderr,
}

impl OneLine {
    pub(crate) fn new(colours: bool) -> Self {
        Self {
            colours,
            out: io::stderr(),
        }
    }
}

impl Write for OneLine {
    /// One call is one record, its end of line included.
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        self.out
            .write_all(one_line(record, self.colours).as_bytes())?;
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn one_line(record: &[u8], colours: bool) -> Cow<'_, str> {
    let record = String::from_utf8_lossy(record);
    let (text, end) = match record.strip_suffix('\n') {
        Some(text) => (text, "\n"),
        None => (&*record, ""),
    };
    if !text.contains(char::is_control) {
        return record;
    }
    let mut line = String::with_capacity(record.len() + 16);
    for (at, c) in text.char_indices() {
        if c.is_control() && !(colours && is_colour(&text[at..])) {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line.push_str(end);
    line.into()
}

/// Whether a sequence begins here that does nothing but colour what follows.
fn is_colour(text: &str) -> bool {
    text.strip_prefix("\u{1b}[").is_some_and(|rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';')
            .starts_with('m')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line_and_does_nothing() {
        let record = b"WARN status=multi\nline\0 \x1b[31m \xc2\x9b \xff\n";
        assert_eq!(
            one_line(record, false),
            "WARN status=multi\\nline\\u{0} \\u{1b}[31m \\u{9b} \u{fffd}\n"
        );
        assert_eq!(
            one_line(b"\x1b[2mINFO\x1b[0m a\n", true),
            "\x1b[2mINFO\x1b[0m a\n"
        );
        assert_eq!(
            one_line(b"\x1b[2J \x1b]0;title\x07\n", true),
            "\\u{1b}[2J \\u{1b}]0;title\\u{7}\n"
        );
        assert_eq!(one_line("größer\n".as_bytes(), false), "größer\n");
    }
}
