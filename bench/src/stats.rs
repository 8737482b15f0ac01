//! Medians, percentiles, and how they are written.

/// Samples of one figure.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn push(&mut self, sample: f64) {
        self.0.push(sample);
    }

    pub(crate) fn extend(&mut self, samples: impl IntoIterator<Item = f64>) {
        self.0.extend(samples);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The sample below which this share of them lies (nearest rank); 0 for none.
    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.max(1) - 1).copied().unwrap_or_default()
    }

    pub(crate) fn median(&self) -> f64 {
        self.percentile(50.0)
    }

    pub(crate) fn min(&self) -> f64 {
        self.0.iter().copied().reduce(f64::min).unwrap_or_default()
    }

    pub(crate) fn max(&self) -> f64 {
        self.0.iter().copied().reduce(f64::max).unwrap_or_default()
    }

    /// The median with the least and the most, as `show` writes them.
    pub(crate) fn spread(&self, show: impl Fn(f64) -> String) -> String {
        match self.0.len() {
            0 => "–".to_owned(),
            1 => show(self.median()),
            _ => format!(
                "{} ({} – {})",
                show(self.median()),
                show(self.min()),
                show(self.max())
            ),
        }
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(samples: I) -> Self {
        Samples(samples.into_iter().collect())
    }
}

/// A number with three significant digits or so.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => {
            let whole = format!("{value:.0}");
            let digits = whole.len();
            let mut out = String::new();
            for (i, c) in whole.chars().enumerate() {
                if i > 0 && (digits - i).is_multiple_of(3) && !out.ends_with('-') {
                    out.push(',');
                }
                out.push(c);
            }
            out
        }
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Seconds, in the unit that suits them.
pub(crate) fn seconds(value: f64) -> String {
    match value {
        v if v >= 1.0 => format!("{} s", number(v)),
        v if v >= 1e-3 => format!("{} ms", number(v * 1e3)),
        v => format!("{} µs", number(v * 1e6)),
    }
}

/// Bytes, in the unit that suits them (powers of 1000).
pub(crate) fn bytes(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{} GB", number(v / 1e9)),
        v if v >= 1e6 => format!("{} MB", number(v / 1e6)),
        v => format!("{} kB", number(v / 1e3)),
    }
}

/// How many times as much.
pub(crate) fn ratio(value: f64) -> String {
    if value.is_finite() {
        format!("{} ×", number(value))
    } else {
        "–".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_by_nearest_rank() {
        let samples: Samples = (1..=100).map(f64::from).collect();
        assert_eq!(samples.median(), 50.0);
        assert_eq!(samples.percentile(99.0), 99.0);
        assert_eq!(samples.percentile(100.0), 100.0);
        assert_eq!(Samples::default().median(), 0.0);
        let one: Samples = [7.0].into_iter().collect();
        assert_eq!(one.percentile(99.0), 7.0);
    }

    #[test]
    fn figures_are_written_for_people() {
        assert_eq!(number(1_234_567.0), "1,234,567");
        assert_eq!(number(123.4), "123");
        assert_eq!(seconds(0.0123), "12.3 ms");
        assert_eq!(seconds(0.000_002), "2.00 µs");
        assert_eq!(bytes(101e6), "101 MB");
        assert_eq!(ratio(f64::INFINITY), "–");
    }
}
