//! BENCHMARKS.md, written by the benchmark itself.

use crate::memory::Memory;
use crate::timing::{Samples, ms};
use std::fmt::Write;
use std::time::Duration;

/// Everything measured.
pub(crate) struct Report {
    pub(crate) machine: Vec<String>,
    pub(crate) names: Vec<&'static str>,
    pub(crate) rounds: Vec<Samples>,
    pub(crate) memory: Vec<Memory>,
    pub(crate) pods: usize,
}

const TIMES: [&str; 10] = [
    "pod + container to running",
    "RunPodSandbox",
    "CreateContainer",
    "StartContainer",
    "ExecSync `true` above an empty call",
    "stop and remove all",
    "StopContainer, no grace",
    "StopPodSandbox",
    "RemoveContainer",
    "RemovePodSandbox",
];

const HEAD: &str = "\
# Benchmarks

Berth beside containerd 2.4.2 with runc 1.5.1, both built from their pinned Go modules. The sides run in turn, pod by
pod, on one machine in one sitting; each talks to its own daemon over CRI. Times are milliseconds, median and (95th
percentile); the ratio is to containerd on the host's network. Figures of one machine mean little elsewhere: repeat
them with

    cargo xtask bench pod

which writes this file. What each figure is to become is in ARCHITECTURE.md.
";

impl Report {
    /// The whole file.
    pub(crate) fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        text.push_str("\n## The machine\n\n");
        for fact in &self.machine {
            line(&mut text, &format!("- {fact}"));
        }
        text.push_str("\n## One pod of one container\n\n");
        self.head(&mut text);
        for name in TIMES {
            self.times(&mut text, name);
        }
        line(&mut text, &format!("\n## {} pods at one time\n", self.pods));
        self.head(&mut text);
        self.row(&mut text, "monitors per pod, KiB PSS", |m| m.monitors);
        self.row(&mut text, "daemon, MiB PSS", |m| m.daemon as f64 / 1024.0);
        self.row(&mut text, "kill -9 to all pods listed again, ms", |m| millis(m.restart));
        self.row(&mut text, "list all pods, ms", |m| millis(m.list));
        text
    }

    fn head(&self, text: &mut String) {
        line(text, &format!("| | {} |", self.names.join(" | ")));
        line(text, &format!("|---|{}", "---|".repeat(self.names.len())));
    }

    fn times(&self, text: &mut String, name: &str) {
        let base = self.rounds[0].median(name);
        let cell = |samples: &Samples| {
            let (median, p95) = samples.median(name).zip(samples.p95(name))?;
            let ratio = ratio(median.as_secs_f64(), base?.as_secs_f64());
            Some(format!("{} ({}) {ratio}", ms(median), ms(p95)))
        };
        let cells = self.rounds.iter().map(|s| cell(s).unwrap_or_else(|| "–".to_owned()));
        line(text, &format!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | ")));
    }

    fn row(&self, text: &mut String, name: &str, of: impl Fn(&Memory) -> f64) {
        let base = of(&self.memory[0]);
        let cells = self.memory.iter().map(|m| format!("{:.1} {}", of(m), ratio(of(m), base)));
        line(text, &format!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | ")));
    }
}

/// How many times smaller, or larger.
fn ratio(value: f64, base: f64) -> String {
    if (value - base).abs() < f64::EPSILON || value <= 0.0 {
        return String::new();
    }
    if value <= base { format!("**1/{:.1}**", base / value) } else { format!("{:.1}x", value / base) }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn line(text: &mut String, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::ratio;

    #[test]
    fn ratios_say_which_way() {
        assert_eq!(ratio(25.0, 100.0), "**1/4.0**");
        assert_eq!(ratio(150.0, 100.0), "1.5x");
        assert_eq!(ratio(100.0, 100.0), "");
    }
}
