//! Times as Go's time.Parse reads them, and its words where it cannot.

/// metav1.Time.
pub(crate) const RFC3339: &str = "2006-01-02T15:04:05Z07:00";
/// metav1.MicroTime.
pub(crate) const RFC3339_MICRO: &str = "2006-01-02T15:04:05.000000Z07:00";

/// The elements of both layouts, with the largest value of those that are numbers.
const ELEMENTS: [(&str, u32, &str); 11] = [
    ("2006", 9999, "year"),
    ("-", 0, ""),
    ("01", 12, "month"),
    ("-", 0, ""),
    ("02", 31, "day"),
    ("T", 0, ""),
    ("15", 23, "hour"),
    (":", 0, ""),
    ("04", 59, "minute"),
    (":", 0, ""),
    ("05", 59, "second"),
];

/// Whether the text is a time of this layout.
///
/// # Errors
/// As *time.ParseError says it.
pub(crate) fn check(text: &str, layout: &str) -> Result<(), String> {
    let failed = |why: String| Err(format!("parsing time {text:?}{why}"));
    let cannot = |rest: &str, element: &str| {
        failed(format!(
            " as {layout:?}: cannot parse {rest:?} as {element:?}"
        ))
    };
    let mut rest = text;
    let mut numbers = Vec::new();
    for (element, most, unit) in ELEMENTS {
        if most == 0 {
            match rest.strip_prefix(element) {
                Some(after) => rest = after,
                None => return cannot(rest, element),
            }
            continue;
        }
        let Some((digits, after)) = digits(rest, element.len()) else {
            return cannot(rest, element);
        };
        let least = u32::from(matches!(unit, "month" | "day"));
        if digits < least || digits > most {
            return failed(format!(": {unit} out of range"));
        }
        numbers.push(digits);
        rest = after;
    }
    if layout == RFC3339_MICRO {
        let Some((_, after)) = rest.strip_prefix('.').and_then(|rest| digits(rest, 6)) else {
            return cannot(rest, ".000000");
        };
        rest = after;
    } else if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        // A fraction of a second may follow, though the layout has none.
        let after = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
        if after.len() < fraction.len() {
            rest = after;
        }
    }
    let zone = rest;
    rest = match zone.strip_prefix('Z') {
        Some(after) => after,
        None => {
            let offset = zone.strip_prefix(['+', '-']).and_then(|rest| {
                let (_, rest) = digits(rest, 2).filter(|(hours, _)| *hours <= 24)?;
                let (_, rest) = digits(rest.strip_prefix(':')?, 2).filter(|(m, _)| *m <= 60)?;
                Some(rest)
            });
            match offset {
                Some(after) => after,
                None => return cannot(zone, "Z07:00"),
            }
        }
    };
    if !rest.is_empty() {
        return failed(format!(": extra text: {rest:?}"));
    }
    if let [year, month, day, ..] = numbers[..]
        && day > days(year, month)
    {
        return failed(": day out of range".to_owned());
    }
    Ok(())
}

fn digits(text: &str, count: usize) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at_checked(count)?;
    let all = digits.bytes().all(|b| b.is_ascii_digit());
    all.then(|| digits.parse().ok().map(|number| (number, rest)))?
}

fn days(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_go_reads_them() {
        for text in [
            "2026-01-31T00:00:00Z",
            "2024-02-29T23:59:59.5+02:00",
            "2026-01-31T00:00:00.123456789-11:30",
        ] {
            assert_eq!(check(text, RFC3339), Ok(()), "{text}");
        }
        assert_eq!(check("2026-01-01T00:00:00.000001Z", RFC3339_MICRO), Ok(()));
        for (text, layout, why) in [
            (
                "yesterday",
                RFC3339,
                "cannot parse \"yesterday\" as \"2006\"",
            ),
            ("", RFC3339, "cannot parse \"\" as \"2006\""),
            ("2026-01-01", RFC3339, "cannot parse \"\" as \"T\""),
            (
                "2026-1-1T00:00:00Z",
                RFC3339,
                "cannot parse \"1-1T00:00:00Z\" as \"01\"",
            ),
            (
                "2026-01-01T00:00:00",
                RFC3339,
                "cannot parse \"\" as \"Z07:00\"",
            ),
            (
                "2026-01-01T00:00:00Z",
                RFC3339_MICRO,
                "cannot parse \"Z\" as \".000000\"",
            ),
        ] {
            let expected = format!("parsing time {text:?} as {layout:?}: {why}");
            assert_eq!(check(text, layout), Err(expected));
        }
        for (text, why) in [
            ("2026-13-01T00:00:00Z", "month out of range"),
            ("2026-02-30T00:00:00Z", "day out of range"),
            ("2026-02-01T24:00:00Z", "hour out of range"),
            ("2026-02-01T00:00:00Zx", "extra text: \"x\""),
        ] {
            assert_eq!(
                check(text, RFC3339),
                Err(format!("parsing time {text:?}: {why}"))
            );
        }
    }
}
