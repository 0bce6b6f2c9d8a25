//! What the demo shows: numbered steps with their times, facts below them; colour only on a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// The screen.
pub(crate) struct Screen {
    colour: bool,
    steps: u32,
    begun: Instant,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { colour, steps: 0, begun: Instant::now() }
    }

    /// Does one step and shows its name and its time.
    pub(crate) async fn step<T>(
        &mut self,
        name: &str,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        self.steps += 1;
        let title = format!("{:>2}. {name}", self.steps);
        if self.colour {
            // The step is named while it runs; its time follows on the same line.
            print!("{}", self.paint("1", &title));
            let _ = std::io::stdout().flush();
        }
        let begun = Instant::now();
        let done = work.await;
        let took = time(begun.elapsed());
        if self.colour {
            println!("\r{:<66} {}", self.paint("1", &title), self.paint("2", &took));
        } else {
            println!("{title:<58} {took}");
        }
        done.map_err(|error| error.context(name.to_owned()))
    }

    /// A fact about the last step.
    pub(crate) fn fact(&self, name: &str, value: &str) {
        let name = self.paint("36", &format!("{name:<12}"));
        let mut lines = value.lines();
        println!("      {name} {}", lines.next().unwrap_or_default());
        lines.for_each(|line| println!("      {:<12} {line}", ""));
    }

    /// The end, when all went well.
    pub(crate) fn done(&self, text: &str) {
        println!("\n{} {} in {}", self.paint("32", "done:"), text, time(self.begun.elapsed()));
    }

    /// The end, when something went wrong.
    pub(crate) fn failed(&self, error: &anyhow::Error) {
        eprintln!("\n{} {error:#}", self.paint("31", "failed:"));
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// A time as people read it.
pub(crate) fn time(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    if ms < 1000.0 { format!("{ms:.0} ms") } else { format!("{:.2} s", ms / 1000.0) }
}
