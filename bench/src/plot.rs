//! Bars on a logarithmic scale, as SVG: ratios are lengths there.

use std::fmt::Write as _;

/// One bar: the median, and the least and the most.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    /// The median as it is to be read.
    pub(crate) shown: String,
    /// Ours, or a peer's.
    pub(crate) ours: bool,
}

/// A plot with horizontal bars, in groups.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    /// Without `.svg`.
    pub(crate) file: String,
    pub(crate) title: String,
    pub(crate) groups: Vec<(String, Vec<Bar>)>,
}

const LEFT: f64 = 210.0;
const WIDTH: f64 = 560.0;
const RIGHT: f64 = 110.0;
const BAR: f64 = 18.0;
const HEAD: f64 = 40.0;
const GROUP: f64 = 26.0;

impl Plot {
    pub(crate) fn svg(&self) -> String {
        let bars = || self.groups.iter().flat_map(|(_, bars)| bars);
        let positive = |value: f64| (value > 0.0).then(|| value.log10());
        let low = bars()
            .filter_map(|bar| positive(bar.least))
            .fold(f64::INFINITY, f64::min);
        let high = bars()
            .filter_map(|bar| positive(bar.most))
            .fold(f64::NEG_INFINITY, f64::max);
        // A fifth of a decade before the shortest bar, so that it can be seen.
        let (low, high) = if low.is_finite() {
            (low - 0.2, high.max(low + 0.1))
        } else {
            (0.0, 1.0)
        };
        let x = |value: f64| {
            let log = positive(value).unwrap_or(low);
            LEFT + ((log - low) / (high - low)).clamp(0.0, 1.0) * WIDTH
        };
        let rows: f64 = self
            .groups
            .iter()
            .map(|(_, bars)| GROUP + bars.len() as f64 * BAR)
            .sum();
        let height = HEAD + rows + 12.0;
        let mut out = format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {height}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#fff"/>
<text x="10" y="20" font-size="14" font-weight="bold">{}</text>
"##,
            LEFT + WIDTH + RIGHT,
            escape(&self.title)
        );
        for decade in low.ceil() as i32..=high.floor() as i32 {
            let at = x(10f64.powi(decade));
            let _ = writeln!(
                out,
                r##"<line x1="{at:.1}" x2="{at:.1}" y1="{HEAD}" y2="{:.1}" stroke="#ddd"/>"##,
                height - 8.0
            );
        }
        let mut y = HEAD;
        for (group, bars) in &self.groups {
            let _ = writeln!(
                out,
                r#"<text x="10" y="{:.1}" font-weight="bold">{}</text>"#,
                y + 17.0,
                escape(group)
            );
            y += GROUP;
            for bar in bars {
                let fill = if bar.ours { "#2b6cb0" } else { "#a0aec0" };
                let (end, middle) = (x(bar.median), y + BAR / 2.0);
                let _ = writeln!(
                    out,
                    r##"<text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>
<rect x="{LEFT}" y="{:.1}" width="{:.1}" height="{:.1}" fill="{fill}"/>
<line x1="{:.1}" x2="{:.1}" y1="{middle:.1}" y2="{middle:.1}" stroke="#1a202c"/>
<text x="{:.1}" y="{:.1}">{}</text>"##,
                    LEFT - 6.0,
                    y + 13.0,
                    escape(&bar.name),
                    y + 2.0,
                    (end - LEFT).max(1.0),
                    BAR - 4.0,
                    x(bar.least),
                    x(bar.most),
                    x(bar.most) + 6.0,
                    y + 13.0,
                    escape(&bar.shown)
                );
                y += BAR;
            }
        }
        out += "</svg>\n";
        out
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(median: f64, ours: bool) -> Bar {
        Bar {
            name: "a < b".into(),
            median,
            least: median,
            most: median,
            shown: String::new(),
            ours,
        }
    }

    #[test]
    fn ten_times_as_much_is_always_the_same_length() {
        let plot = Plot {
            file: "x".into(),
            title: "t".into(),
            groups: vec![(
                "g".into(),
                vec![bar(1.0, true), bar(10.0, false), bar(100.0, false)],
            )],
        };
        let svg = plot.svg();
        let widths: Vec<f64> = svg
            .lines()
            .filter(|line| line.contains("fill=\"#2b6cb0\"") || line.contains("fill=\"#a0aec0\""))
            .map(|line| {
                let rest = line.split_once("width=\"").unwrap().1;
                rest.split_once('"').unwrap().0.parse().unwrap()
            })
            .collect();
        assert_eq!(widths.len(), 3);
        assert!(((widths[2] - widths[1]) - (widths[1] - widths[0])).abs() < 0.2);
        assert!(svg.contains("a &lt; b"));
    }
}
