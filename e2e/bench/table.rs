//! Tables of a report: one row per figure, one column per side, ratios to the first.

use crate::timing::{Samples, ms};
use std::fmt::Write;
use std::time::Duration;

/// A table being written.
pub(crate) struct Table {
    text: String,
}

impl Table {
    /// The head: an empty corner and the names of the sides.
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let names: Vec<&str> = names.collect();
        let rule = "---|".repeat(names.len());
        Self { text: format!("| | {} |\n|---|{rule}\n", names.join(" | ")) }
    }

    /// A row of times: median, 95th percentile, ratio of the medians.
    pub(crate) fn times(&mut self, name: &str, sides: &[&Samples]) {
        let base = sides.first().and_then(|samples| samples.median(name));
        let cell = |samples: &&Samples| {
            let (median, p95) = samples.median(name).zip(samples.p95(name))?;
            let ratio = base.map(|base| ratio(median.as_secs_f64(), base.as_secs_f64())).unwrap_or_default();
            Some(format!("{} ({}) {ratio}", ms(median), ms(p95)))
        };
        self.cells(name, sides.iter().map(|samples| cell(samples).unwrap_or_else(|| "–".to_owned())));
    }

    /// A row of plain figures, with as many digits as are asked for.
    pub(crate) fn figures(&mut self, name: &str, digits: usize, values: &[Option<f64>]) {
        let base = values.first().copied().flatten();
        let cell = |value: &Option<f64>| match (value, base) {
            (Some(value), Some(base)) => format!("{value:.digits$} {}", ratio(*value, base)),
            (Some(value), None) => format!("{value:.digits$}"),
            (None, _) => "–".to_owned(),
        };
        self.cells(name, values.iter().map(cell));
    }

    fn cells(&mut self, name: &str, cells: impl Iterator<Item = String>) {
        let cells: Vec<String> = cells.map(|cell| cell.trim_end().to_owned()).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "| {name} | {} |", cells.join(" | "));
    }

    /// What was written.
    pub(crate) fn text(self) -> String {
        self.text
    }
}

/// A list, one line each.
pub(crate) fn list(facts: &[String]) -> String {
    facts.iter().map(|fact| format!("- {fact}\n")).collect()
}

/// Milliseconds of a time.
pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// How many times smaller, or larger.
fn ratio(value: f64, base: f64) -> String {
    if (value - base).abs() < f64::EPSILON || value <= 0.0 {
        return String::new();
    }
    if value <= base { format!("**1/{:.1}**", base / value) } else { format!("{:.1}x", value / base) }
}

#[cfg(test)]
mod tests {
    use super::{Table, ratio};

    #[test]
    fn ratios_say_which_way() {
        assert_eq!(ratio(25.0, 100.0), "**1/4.0**");
        assert_eq!(ratio(150.0, 100.0), "1.5x");
        assert_eq!(ratio(100.0, 100.0), "");
    }

    #[test]
    fn what_was_not_measured_is_a_dash() {
        let mut table = Table::new(["a", "b"].into_iter());
        table.figures("x", 1, &[Some(2.0), None]);
        assert_eq!(table.text(), "| | a | b |\n|---|---|---|\n| x | 2.0 | – |\n");
    }
}
