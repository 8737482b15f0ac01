//! The formats of times: `date`, `date-time` and `duration`.

pub(super) fn is_date(s: &str) -> bool {
    s.len() == 10 && s.parse::<jiff::civil::Date>().is_ok()
}

/// A date, `t` or `T`, a time with an optional fraction, and `z` or an offset.
pub(super) fn is_date_time(s: &str) -> bool {
    let lower = s.to_ascii_lowercase();
    let Some((date, time)) = lower.split_once('t') else {
        return false;
    };
    if !is_date(date) {
        return false;
    }
    let bytes = time.as_bytes();
    let two = |at: usize, max: u8| {
        bytes.get(at..at + 2).is_some_and(|d| {
            d.iter().all(u8::is_ascii_digit) && (d[0] - b'0') * 10 + (d[1] - b'0') <= max
        })
    };
    if !(two(0, 23)
        && bytes.get(2) == Some(&b':')
        && two(3, 59)
        && bytes.get(5) == Some(&b':')
        && two(6, 59))
    {
        return false;
    }
    let mut rest = &bytes[8..];
    if let [b'.', fraction @ ..] = rest {
        let digits = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 {
            return false;
        }
        rest = &fraction[digits..];
    }
    match rest {
        [b'z'] => true,
        [b'+' | b'-', a, b, b':', c, d] => [a, b, c, d].iter().all(|b| b.is_ascii_digit()),
        _ => false,
    }
}

/// Go's time.ParseDuration, or anywhere in the text a number with a unit as Scala writes them.
pub(super) fn is_duration(s: &str) -> bool {
    is_go_duration(s) || has_scala_duration(s)
}

fn is_go_duration(s: &str) -> bool {
    let mut rest = s.strip_prefix(['+', '-']).unwrap_or(s);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let number = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (digits, tail) = rest.split_at(number);
        if digits.matches('.').count() > 1 || !digits.bytes().any(|b| b.is_ascii_digit()) {
            return false;
        }
        let unit = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        if !matches!(unit, "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h") {
            return false;
        }
        rest = tail;
    }
    true
}

fn has_scala_duration(s: &str) -> bool {
    // The last spelling of a unit may be continued ("minutes"), the others stand for themselves.
    const UNITS: [(&[&str], &str); 8] = [
        (&["ns"], "nano"),
        (&["us", "µs"], "micro"),
        (&["ms"], "milli"),
        (&["s"], "sec"),
        (&["m"], "min"),
        (&["h", "hr"], "hour"),
        (&["d"], "day"),
        (&["w", "wk"], "week"),
    ];
    let chars: Vec<char> = s.to_lowercase().chars().collect();
    let mut at = 0;
    while at < chars.len() {
        if !chars[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        while at < chars.len() && chars[at].is_ascii_digit() {
            at += 1;
        }
        while at < chars.len() && chars[at].is_ascii_whitespace() {
            at += 1;
        }
        let unit: String = chars[at..]
            .iter()
            .take_while(|c| c.is_ascii_alphabetic() || **c == 'µ')
            .collect();
        if UNITS
            .iter()
            .any(|(exact, prefix)| exact.contains(&unit.as_str()) || unit.starts_with(prefix))
        {
            return true;
        }
    }
    false
}
