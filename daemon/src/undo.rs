//! Steps taken, newest first to be undone. Every step that takes something pushes how to give it back.

use crate::pod::Error;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

type Step = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send>> + Send + Sync>;

/// How often a step of undoing is tried.
const TRIES: u32 = 3;
/// Pause before the second try; doubled for the third.
const PAUSE: Duration = Duration::from_millis(100);

/// A stack of described steps.
#[derive(Default)]
pub struct Undo {
    steps: Vec<(&'static str, Step)>,
}

impl Undo {
    /// Nothing to undo yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Remembers how to undo what was just done, or is about to be done. It must succeed where nothing is left to undo.
    pub fn push<F, Fut>(&mut self, what: &'static str, step: F)
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.steps.push((what, Box::new(move || Box::pin(step()))));
    }

    /// Undoes everything, newest first. A step that fails is tried again and then told in the log; the others go on.
    pub async fn run(mut self, of: &str) -> Vec<Error> {
        let mut failures = Vec::new();
        while let Some(done) = self.step(of).await {
            failures.extend(done.err());
        }
        failures
    }

    /// Undoes, newest first, until a step fails for good: then what it stands on is kept with all the rest, and the next
    /// start of the daemon, which finds the record, goes on.
    pub async fn run_while_it_works(mut self, of: &str) {
        while let Some(Ok(())) = self.step(of).await {}
    }

    /// The newest step; a failure for good is told in the log.
    async fn step(&mut self, of: &str) -> Option<Result<(), Error>> {
        let (what, step) = self.steps.pop()?;
        let done = retry(&step).await;
        if let Err(error) = &done {
            tracing::error!(of, step = what, %error, "undo failed; the next start of the daemon tries again");
        }
        Some(done)
    }
}

impl std::fmt::Debug for Undo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.steps.iter().map(|(what, _)| what)).finish()
    }
}

async fn retry(step: &Step) -> Result<(), Error> {
    let mut pause = PAUSE;
    for _ in 1..TRIES {
        match step().await {
            Ok(()) => return Ok(()),
            Err(error) => tracing::debug!(%error, "undo step will be tried again"),
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    step().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[tokio::test]
    async fn undoes_newest_first_and_goes_on_after_a_failure() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut undo = Undo::new();
        for (what, fails) in [("first", 0), ("second", 5), ("third", 1)] {
            let (seen, left) = (Arc::clone(&seen), Arc::new(Mutex::new(fails)));
            undo.push(what, move || {
                let (seen, left) = (Arc::clone(&seen), Arc::clone(&left));
                async move {
                    seen.lock().unwrap().push(what);
                    let mut left = left.lock().unwrap();
                    if *left == 0 {
                        return Ok(());
                    }
                    *left -= 1;
                    Err(Error::Closed)
                }
            });
        }
        let failures = undo.run("test").await;
        assert_eq!(failures.len(), 1);
        assert_eq!(*seen.lock().unwrap(), ["third", "third", "second", "second", "second", "first"]);
    }

    #[tokio::test]
    async fn what_a_failed_step_stands_on_stays() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut undo = Undo::new();
        for (what, fails) in [("record", false), ("free", true), ("last", false)] {
            let seen = Arc::clone(&seen);
            undo.push(what, move || {
                seen.lock().unwrap().push(what);
                async move { if fails { Err(Error::Closed) } else { Ok(()) } }
            });
        }
        undo.run_while_it_works("test").await;
        assert_eq!(*seen.lock().unwrap(), ["last", "free", "free", "free"]);
    }
}
