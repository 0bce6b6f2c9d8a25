//! Samples and what is said of them: median and 95th percentile.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Samples by the name of what was timed.
#[derive(Default)]
pub(crate) struct Samples(BTreeMap<&'static str, Vec<Duration>>);

impl Samples {
    /// Does something and keeps the time it took.
    pub(crate) async fn time<T, E>(
        &mut self,
        name: &'static str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let begun = Instant::now();
        let value = work.await?;
        self.keep(name, begun.elapsed());
        Ok(value)
    }

    /// Keeps a time.
    pub(crate) fn keep(&mut self, name: &'static str, time: Duration) {
        self.0.entry(name).or_default().push(time);
    }

    /// The median of what was timed under a name.
    pub(crate) fn median(&self, name: &str) -> Option<Duration> {
        self.rank(name, 50)
    }

    /// The 95th percentile.
    pub(crate) fn p95(&self, name: &str) -> Option<Duration> {
        self.rank(name, 95)
    }

    fn rank(&self, name: &str, percent: usize) -> Option<Duration> {
        let mut sorted = self.0.get(name)?.clone();
        sorted.sort_unstable();
        sorted.get((sorted.len() * percent / 100).min(sorted.len().checked_sub(1)?)).copied()
    }
}

/// Milliseconds with as many digits as mean something.
pub(crate) fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    if ms < 10.0 { format!("{ms:.2}") } else { format!("{ms:.1}") }
}

#[cfg(test)]
mod tests {
    use super::Samples;
    use std::time::Duration;

    #[test]
    fn ranks_are_those_of_the_sorted_samples() {
        let mut samples = Samples::default();
        for ms in [5, 1, 4, 2, 3] {
            samples.keep("x", Duration::from_millis(ms));
        }
        assert_eq!(samples.median("x"), Some(Duration::from_millis(3)));
        assert_eq!(samples.p95("x"), Some(Duration::from_millis(5)));
        assert_eq!(samples.median("y"), None);
    }
}
