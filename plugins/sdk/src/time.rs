//! Times as Kubernetes writes them. There is no clock: a request brings its time along.

use std::fmt;
use std::time::Duration;

/// A point in time. Ordered; prints as metav1.Time does, in UTC and whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    seconds: i64,
    nanos: u32,
}

impl Timestamp {
    /// From milliseconds since 1970, as [`Review::now`](crate::Review::now) is given.
    pub fn from_millis(millis: u64) -> Self {
        Self {
            seconds: (millis / 1000) as i64,
            nanos: (millis % 1000) as u32 * 1_000_000,
        }
    }

    /// Reads RFC 3339 (metav1.Time and metav1.MicroTime); none if it is not.
    pub fn parse(text: &str) -> Option<Self> {
        let (date, rest) = text.split_at_checked(10)?;
        let rest = rest.strip_prefix(['T', 't'])?;
        let (time, rest) = rest.split_at_checked(8)?;
        let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
        let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
        let days_in_month = match month {
            2 if leap(year) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        if day == 0 || day > days_in_month || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let (nanos, zone) = match rest.strip_prefix('.') {
            None => (0, rest),
            Some(fraction) => {
                let end = fraction.find(|c: char| !c.is_ascii_digit())?;
                let digits = &fraction[..end];
                if digits.is_empty() || digits.len() > 9 {
                    return None;
                }
                let value: u32 = digits.parse().ok()?;
                (value * 10u32.pow(9 - digits.len() as u32), &fraction[end..])
            }
        };
        let offset = match zone {
            "Z" | "z" => 0,
            _ => {
                let sign = match zone.as_bytes().first()? {
                    b'+' => 1,
                    b'-' => -1,
                    _ => return None,
                };
                let [hours, minutes] = numbers(&zone[1..], ':', [2, 2])?;
                if hours > 23 || minutes > 59 {
                    return None;
                }
                sign * (hours * 3600 + minutes * 60)
            }
        };
        let seconds =
            days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second
                - offset;
        Some(Self { seconds, nanos })
    }

    /// So much later; none past the range of the calendar.
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        let nanos = self.nanos + duration.subsec_nanos();
        let seconds = self
            .seconds
            .checked_add(i64::try_from(duration.as_secs()).ok()?)?;
        let seconds = seconds.checked_add(i64::from(nanos / 1_000_000_000))?;
        // Year 9999 is the last that RFC 3339 can write.
        (seconds < 253_402_300_800).then_some(Self {
            seconds,
            nanos: nanos % 1_000_000_000,
        })
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.seconds.div_euclid(86_400));
        let second = self.seconds.rem_euclid(86_400);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
        )
    }
}

/// Reads a duration as Go's time.ParseDuration does, for positive values: `90s`, `1h30m`, `1.5h`.
///
/// # Errors
/// What is allowed.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let fault = || {
        format!(
            "{text:?} is no duration: numbers with a unit of h, m, s, ms, us or ns, such as \"1h30m\""
        )
    };
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(fault)?;
        let number: f64 = rest[..end].parse().map_err(|_| fault())?;
        rest = &rest[end..];
        let end = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return Err(fault()),
        };
        rest = &rest[end..];
        let part = Duration::try_from_secs_f64(number * unit).map_err(|_| fault())?;
        total = total.checked_add(part).ok_or_else(fault)?;
    }
    if total.is_zero() {
        Err(fault())
    } else {
        Ok(total)
    }
}

fn numbers<const N: usize>(text: &str, separator: char, widths: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(separator);
    let mut out = [0; N];
    for (value, width) in out.iter_mut().zip(widths) {
        let part = parts.next()?;
        if part.len() != width || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *value = part.parse().ok()?;
    }
    parts.next().is_none().then_some(out)
}

fn leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days since 1970 of a date of the proleptic Gregorian calendar. Years are counted from March, so that the leap day is
/// the last of its year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let before_year = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let before_month = (153 * month + 2) / 5;
    // 719468 days lie between 1 March of year 0 and 1970.
    before_year + before_month + day - 1 - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let mut year = days.div_euclid(366);
    while days_from_civil(year + 1, 3, 1) + 719_468 <= days {
        year += 1;
    }
    let day = days - (days_from_civil(year, 3, 1) + 719_468);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    if month < 10 {
        (year, month + 3, day)
    } else {
        (year + 1, month - 9, day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_printed_reads_back() {
        for text in [
            "1970-01-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2000-02-29T12:34:56Z",
            "2026-03-01T00:00:00Z",
            "2100-02-28T23:59:59Z",
            "9999-12-31T23:59:59Z",
        ] {
            assert_eq!(Timestamp::parse(text).unwrap().to_string(), text);
        }
        let start = Timestamp::parse("1890-01-01T00:00:00Z").unwrap();
        for day in 0..100_000u64 {
            let time = start
                .checked_add(Duration::from_secs(day * 86_400))
                .unwrap();
            assert_eq!(Timestamp::parse(&time.to_string()), Some(time));
        }
    }

    #[test]
    fn known_instants_have_their_numbers() {
        assert_eq!(
            Timestamp::parse("2001-09-09T01:46:40Z"),
            Some(Timestamp::from_millis(1_000_000_000_000))
        );
        assert_eq!(
            Timestamp::from_millis(1_709_164_800_500).to_string(),
            "2024-02-29T00:00:00Z"
        );
    }

    #[test]
    fn offsets_and_fractions_are_compared_as_instants() {
        let parse = |t| Timestamp::parse(t).unwrap();
        assert_eq!(
            parse("2026-01-01T02:00:00+02:00"),
            parse("2026-01-01T00:00:00Z")
        );
        assert_eq!(
            parse("2025-12-31T20:30:00-03:30"),
            parse("2026-01-01T00:00:00.000000Z")
        );
        assert!(parse("2026-01-01T00:00:00.000001Z") > parse("2026-01-01T00:00:00Z"));
        assert!(parse("2026-01-01T00:00:00.5Z") > parse("2026-01-01T00:00:00.499999999Z"));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "2026",
            "2026-01-01",
            "2026-01-01 00:00:00Z",
            "2026-01-01T00:00:00",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00.1",
            "2026-01-01T00:00:00+2:00",
            "2026-1-01T00:00:00Z",
            "äääää-01-01T00:00:00Z",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_those_of_go() {
        for (text, millis) in [
            ("90s", 90_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("2m0s", 120_000),
            ("5ms", 5),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_millis(millis)),
                "{text}"
            );
        }
        for text in [
            "",
            "0s",
            "1",
            "h",
            "1d",
            "-1h",
            "1h ",
            "1..5h",
            "99999999999999999999h",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_calendar_has_an_end() {
        let last = Timestamp::parse("9999-12-31T23:59:59.5Z").unwrap();
        assert_eq!(last.checked_add(Duration::from_millis(500)), None);
        assert!(last.checked_add(Duration::from_millis(499)).is_some());
        assert_eq!(last.checked_add(Duration::MAX), None);
    }
}
