//! Text of others on a terminal.

/// The text without what a terminal would obey: a plugin's words are shown, and do nothing.
pub(crate) fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        assert_eq!(
            harmless("two\nlines\tand \u{1b}[2J\r\u{9b}31m \u{7f}"),
            "two\nlines\tand \\u{1b}[2J\\r\\u{9b}31m \\u{7f}"
        );
    }
}
