use jiff::SignedDuration;

/// An age as kubectl shows it, with two or three significant figures: `5m10s`, `3h`, `2d4h`, `<invalid>` in the future.
/// The steps are those of k8s.io/apimachinery's duration.HumanDuration.
#[must_use]
pub fn human_duration(age: SignedDuration) -> String {
    let seconds = age.as_secs();
    // Clocks may differ by less than two seconds.
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    if seconds < 0 {
        return "0s".to_owned();
    }
    if seconds < 120 {
        return format!("{seconds}s");
    }
    let minutes = seconds / 60;
    if minutes < 10 {
        return two(minutes, "m", seconds % 60, "s");
    }
    if minutes < 180 {
        return format!("{minutes}m");
    }
    let hours = minutes / 60;
    if hours < 8 {
        return two(hours, "h", minutes % 60, "m");
    }
    if hours < 48 {
        return format!("{hours}h");
    }
    let days = hours / 24;
    if days < 8 {
        return two(days, "d", hours % 24, "h");
    }
    let years = days / 365;
    if years < 2 {
        return format!("{days}d");
    }
    if years < 8 {
        return two(years, "y", days % 365, "d");
    }
    format!("{years}y")
}

fn two(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_those_of_kubectl() {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 60 * MINUTE;
        const DAY: i64 = 24 * HOUR;
        const YEAR: i64 = 365 * DAY;
        for (seconds, text) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (5 * MINUTE + 10, "5m10s"),
            (10 * MINUTE + 1, "10m"),
            (179 * MINUTE + 59, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 61, "3h1m"),
            (8 * HOUR + 5 * MINUTE, "8h"),
            (47 * HOUR, "47h"),
            (48 * HOUR, "2d"),
            (2 * DAY + 4 * HOUR, "2d4h"),
            (8 * DAY + 4 * HOUR, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + 3 * DAY, "2y3d"),
            (8 * YEAR + 3 * DAY, "8y"),
        ] {
            assert_eq!(
                human_duration(SignedDuration::from_secs(seconds)),
                text,
                "{seconds}"
            );
        }
        assert_eq!(human_duration(SignedDuration::new(-1, -999_999_999)), "0s");
    }
}
