//! A figure that is expensive to measure: one measurement at a time, and the last one answers meanwhile.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// What is known of it. Clones are the same figure.
#[derive(Debug, Clone)]
pub struct Figure<T>(Arc<watch::Sender<State<T>>>);

#[derive(Debug, Clone)]
struct State<T> {
    last: Option<(Instant, T)>,
    running: bool,
}

impl<T> Default for Figure<T> {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(State { last: None, running: false })))
    }
}

impl<T: Clone + Send + Sync + 'static> Figure<T> {
    /// The figure as last measured. If that is older than `fresh`, a measurement begins unless one is under way, and
    /// goes on by itself; it is waited for only if nothing is known yet, and no longer than `patience`. None if
    /// nothing is known then.
    pub async fn get<F>(&self, fresh: Duration, patience: Duration, measure: impl FnOnce() -> F) -> Option<T>
    where
        F: Future<Output = Option<T>> + Send + 'static,
    {
        let (mut known, mut begin) = (None, false);
        // Subscribed before anything is begun, so that its end cannot be missed.
        let mut end = self.0.subscribe();
        self.0.send_if_modified(|state| {
            known = state.last.clone();
            let wanted = state.last.as_ref().is_none_or(|(at, _)| at.elapsed() >= fresh);
            begin = wanted && !state.running;
            state.running |= begin;
            false
        });
        if begin {
            self.begin(measure());
        }
        if let Some((_, value)) = known {
            return Some(value);
        }
        let ended = tokio::time::timeout(patience, end.wait_for(|state| !state.running)).await;
        let state = ended.ok()?.ok()?;
        state.last.as_ref().map(|(_, value)| value.clone())
    }

    fn begin(&self, work: impl Future<Output = Option<T>> + Send + 'static) {
        let run = Run { figure: self.clone(), got: None };
        tokio::spawn(async move { run.ends(work.await) });
    }
}

/// A measurement under way. However it ends, another may begin.
struct Run<T> {
    figure: Figure<T>,
    got: Option<T>,
}

impl<T> Run<T> {
    fn ends(mut self, got: Option<T>) {
        self.got = got;
    }
}

impl<T> Drop for Run<T> {
    fn drop(&mut self) {
        self.figure.0.send_modify(|state| {
            state.running = false;
            if let Some(value) = self.got.take() {
                state.last = Some((Instant::now(), value));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use tokio::sync::Notify;

    const LONG: Duration = Duration::from_secs(3600);
    const SHORT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn one_measurement_for_all_who_ask_and_none_waits_for_long() {
        let (figure, gate, runs) = (Figure::default(), Arc::new(Notify::new()), Arc::new(AtomicU32::new(0)));
        let measure = || {
            let (gate, runs) = (Arc::clone(&gate), Arc::clone(&runs));
            async move {
                let run = runs.fetch_add(1, SeqCst);
                gate.notified().await;
                Some(run)
            }
        };
        for _ in 0..5 {
            assert_eq!(figure.get(LONG, SHORT, measure).await, None, "it is not measured yet");
        }
        assert_eq!(runs.load(SeqCst), 1, "each caller measures by himself");
        gate.notify_one();
        assert_eq!(figure.get(LONG, LONG, measure).await, Some(0));
        // Old: answered at once, and measured again behind the caller's back.
        assert_eq!(figure.get(Duration::ZERO, LONG, measure).await, Some(0));
        assert_eq!(figure.get(Duration::ZERO, LONG, measure).await, Some(0));
        gate.notify_one();
        while figure.get(LONG, LONG, measure).await != Some(1) {
            tokio::task::yield_now().await;
        }
        assert_eq!(runs.load(SeqCst), 2);
    }

    #[tokio::test]
    async fn a_failed_measurement_is_waited_for_and_tried_again() {
        let figure: Figure<u32> = Figure::default();
        assert_eq!(figure.get(LONG, LONG, || async { None }).await, None);
        assert_eq!(figure.get(LONG, LONG, || async { panic!("on purpose") }).await, None);
        assert_eq!(figure.get(LONG, LONG, || async { Some(3) }).await, Some(3));
    }
}
