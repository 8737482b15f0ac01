//! What differs from one run to the next.

use std::sync::LazyLock;

use regex::Regex;

/// Times before this year are those of the run; later ones are written in the transcripts.
static RULES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (
            r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "UID",
        ),
        (r"\b[0-9a-f]{16}\b", "HASH"),
        (r"\b20[2-4]\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r#"(resourceVersion"?[:=] ?"?)\d+"#, "${1}VERSION"),
        (r"(Resource Version: +)\d+", "${1}VERSION"),
        // An age is the last column, or wide columns follow: kept as wide as it was.
        (r"\b\d{2}s( |$)", "0s $1"),
        (r"\b\ds( |$)", "0s$1"),
        (r"https://127\.0\.0\.1:\d+", "SERVER"),
        (r#"/[^ ,:"'`]*/kubectl-edit"#, "FOLDER/kubectl-edit"),
        (r"/(home|root|tmp)[^ ,:]*/", "FOLDER/"),
        // kubectl says so since 1.33 or later: standalone, any that is installed must do.
        (" deleted from NAMESPACE namespace", " deleted"),
    ]
    .into_iter()
    .map(|(pattern, with)| (Regex::new(pattern).unwrap(), with))
    .collect()
});

/// Without uids, times, versions, ages, addresses and trailing space. Empty lines are left out: one ends a transcript's entry.
pub(super) fn normalise(printed: &str, namespace: &str) -> String {
    let printed = printed.replace(namespace, "NAMESPACE");
    let mut text = String::new();
    for line in printed.lines() {
        let mut line = line.to_owned();
        for (rule, with) in &*RULES {
            line = rule.replace_all(&line, *with).into_owned();
        }
        let line = line.trim_end();
        if !line.is_empty() {
            // A line that begins as a comment or a prompt does would be read as one.
            if line.starts_with(['#', '$', '>']) {
                text.push(' ');
            }
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}
