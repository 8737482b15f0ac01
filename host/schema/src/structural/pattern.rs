//! `pattern`: a regular expression in Go's RE2 syntax, run by the `regex` crate, which reads a few things otherwise.

use regex::Regex;

#[derive(Debug)]
pub(crate) struct Pattern {
    text: String,
    regex: Regex,
}

impl Pattern {
    pub(super) fn compile(text: &str) -> Result<Self, regex::Error> {
        Ok(Self {
            text: text.to_owned(),
            regex: Regex::new(&from_go(text))?,
        })
    }

    /// As the schema has it.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it matches anywhere in `value`.
    pub(super) fn is_match(&self, value: &str) -> bool {
        self.regex.is_match(value)
    }
}

/// Go's Perl classes and word boundaries are ASCII; its bracket classes do not nest and know no set operators;
/// `\<` and `\>` are plain characters there.
fn from_go(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('d') => out.push_str("[0-9]"),
                Some('D') => out.push_str("[^0-9]"),
                Some('w') => out.push_str("[0-9A-Za-z_]"),
                Some('W') => out.push_str("[^0-9A-Za-z_]"),
                Some('s') => out.push_str(r"[\t\n\f\r ]"),
                Some('S') => out.push_str(r"[^\t\n\f\r ]"),
                Some('b') if !in_class => out.push_str(r"(?-u:\b)"),
                Some(plain @ ('<' | '>')) => out.push(plain),
                Some(other) => {
                    out.push('\\');
                    out.push(other);
                }
                None => out.push('\\'),
            },
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                // A bracket that closes at once is a member.
                if chars.next_if_eq(&']').is_some() {
                    out.push_str(r"\]");
                }
            }
            '[' if chars.peek() == Some(&':') => {
                // A POSIX class, e.g. [:alpha:].
                out.push('[');
                for c in chars.by_ref() {
                    out.push(c);
                    if c == ']' {
                        break;
                    }
                }
            }
            '[' => out.push_str(r"\["),
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_patterns_keep_their_meaning() {
        for (pattern, value, expected) in [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"^\w+$", "é", false),
            (r"^[\w.-]+$", "a.b-c", true),
            (r"^[^\d]$", "x", true),
            (r"^[[a]+$", "[a[", true),
            (r"^[]a]+$", "]a", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^[[:alpha:]_]+$", "ab_", true),
            (r"^\<x\>$", "<x>", true),
            (r"\bfoo\b", "a foo b", true),
        ] {
            let compiled = Pattern::compile(pattern).unwrap();
            assert_eq!(compiled.is_match(value), expected, "{pattern} on {value}");
        }
    }

    #[test]
    fn a_lookahead_is_refused_as_in_go() {
        assert!(Pattern::compile("^(?!x)").is_err());
    }
}
