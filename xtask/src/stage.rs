//! A run in stages, each with its time held against a budget.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// One stage: what it is called and what it may take on two cores from nothing.
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) budget: Duration,
}

/// What became of the stages of a run.
pub(crate) struct Stages {
    colour: bool,
    ended: Vec<(&'static str, Duration, Duration, bool)>,
}

impl Stage {
    /// A stage with its budget in minutes.
    pub(crate) const fn minutes(name: &'static str, minutes: u64) -> Self {
        let budget = Duration::from_secs(minutes * 60);
        Self { name, budget }
    }
}

impl Stages {
    /// No stage has run yet.
    pub(crate) fn new() -> Self {
        let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { colour, ended: Vec::new() }
    }

    /// Runs one stage, and says how it went. A failed stage does not end the run: the caller decides.
    pub(crate) fn run<T>(&mut self, stage: &Stage, work: impl FnOnce() -> anyhow::Result<T>) -> Option<T> {
        println!("\n{}", self.paint("1", &format!("== {}", stage.name)));
        let begun = Instant::now();
        let done = work();
        let took = begun.elapsed();
        let verdict = match &done {
            Ok(_) if took <= stage.budget => self.paint("32", "ok"),
            Ok(_) => self.paint("33", "ok, over budget"),
            Err(error) => self.paint("31", &format!("FAILED: {error:#}")),
        };
        println!("-- {} {verdict}: {} of {}", stage.name, clock(took), clock(stage.budget));
        self.ended.push((stage.name, took, stage.budget, done.is_ok()));
        done.ok()
    }

    /// Whether every stage so far ended well.
    pub(crate) fn all_well(&self) -> bool {
        self.ended.iter().all(|(.., well)| *well)
    }

    /// The table of stages, times and budgets.
    pub(crate) fn summary(&self) {
        println!("\n{}", self.paint("1", "stage                    time    budget"));
        let mut total = Duration::ZERO;
        for (name, took, budget, well) in &self.ended {
            total += *took;
            let mark = match (well, took <= budget) {
                (false, _) => self.paint("31", "failed"),
                (true, false) => self.paint("33", "over budget"),
                (true, true) => self.paint("32", "ok"),
            };
            println!("{name:<20} {:>8}  {:>8}  {mark}", clock(*took), clock(*budget));
        }
        println!("{:<20} {:>8}", "all", clock(total));
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// `m:ss`.
pub(crate) fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}
