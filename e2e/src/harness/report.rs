//! What the runner says: one line per test, the whole story of a failure, the closing line.

use std::io::IsTerminal;
use std::time::Duration;

/// How one test ended.
pub(super) enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

/// Counts, and whether to use colour.
pub(super) struct Report {
    colour: bool,
    passed: usize,
    failed: Vec<String>,
    skipped: usize,
}

impl Report {
    pub(super) fn new() -> Self {
        let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { colour, passed: 0, failed: Vec::new(), skipped: 0 }
    }

    /// Says and counts how a test ended.
    pub(super) fn add(&mut self, name: &str, took: Duration, outcome: &Outcome) {
        let (word, code) = match outcome {
            Outcome::Passed => ("ok", "32"),
            Outcome::Failed(_) => ("FAILED", "31"),
            Outcome::Skipped(_) => ("skipped", "33"),
        };
        println!("{} {:>6.2} s  {name}", self.paint(code, &format!("{word:<7}")), took.as_secs_f64());
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Skipped(reason) => {
                self.skipped += 1;
                println!("        {reason}");
            }
            Outcome::Failed(story) => {
                self.failed.push(name.to_owned());
                story.lines().for_each(|line| println!("    | {line}"));
            }
        }
    }

    /// The closing line; whether all is well.
    pub(super) fn close(&self) -> bool {
        if !self.failed.is_empty() {
            println!("\nfailed:");
            self.failed.iter().for_each(|name| println!("    {name}"));
        }
        let (passed, failed, skipped) = (self.passed, self.failed.len(), self.skipped);
        println!("\n{passed} passed, {failed} failed, {skipped} skipped");
        failed == 0
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
