//! Filling a node batch by batch, and emptying it.

use crate::side::Side;
use crate::timing::Samples;
use anyhow::Context;
use futures_util::future::try_join_all;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use std::time::{Duration, Instant};

/// What a pod's whole start is called.
pub(crate) const RUNNING: &str = "pod + container to running";
/// What a pod's whole end is called.
pub(crate) const REMOVED: &str = "stop and remove a pod";

/// One pod that runs.
pub(crate) struct Started {
    pub(crate) pod: String,
    pub(crate) container: String,
    took: [(&'static str, Duration); 4],
}

/// A side with all its pods.
#[derive(Default)]
pub(crate) struct Filled {
    /// In the order in which they were started.
    pub(crate) pods: Vec<Started>,
    /// Times of all of them.
    pub(crate) samples: Samples,
    /// All batches together.
    pub(crate) whole: Duration,
}

impl Filled {
    /// The median of a quarter of the pods, in the order in which they were started.
    pub(crate) fn quarter(&self, number: usize) -> Duration {
        let size = self.pods.len() / 4;
        let mut times: Vec<Duration> =
            self.pods.iter().skip(number * size).take(size).map(|pod| pod.took[0].1).collect();
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or_default()
    }
}

/// Fills a side, batch by batch.
pub(crate) async fn fill(side: &Side, pods: usize, at_once: usize) -> anyhow::Result<Filled> {
    let mut filled = Filled::default();
    for first in (0..pods).step_by(at_once) {
        let begun = Instant::now();
        let batch = (first..pods.min(first + at_once)).map(|number| start(side, number));
        let batch = try_join_all(batch).await.with_context(|| side.name.to_owned())?;
        filled.whole += begun.elapsed();
        for pod in batch {
            pod.took.iter().for_each(|(name, time)| filled.samples.keep(name, *time));
            filled.pods.push(pod);
        }
    }
    Ok(filled)
}

async fn start(side: &Side, number: usize) -> anyhow::Result<Started> {
    let mut cri = side.cri.clone();
    let config = side.pod(&format!("full{number}"));
    let begun = Instant::now();
    let pod = cri.run_pod(&config).await?;
    let ran = begun.elapsed();
    side.node.remember(&pod);
    let container = cri.create(&pod, &side.container(&config), &config).await?;
    let created = begun.elapsed();
    side.node.remember(&container);
    cri.start(&container).await?;
    let all = begun.elapsed();
    let took = [
        (RUNNING, all),
        ("RunPodSandbox", ran),
        ("CreateContainer", created - ran),
        ("StartContainer", all - created),
    ];
    Ok(Started { pod, container, took })
}

/// Stops and removes all pods of a side, as many at a time as were started.
pub(crate) async fn empty(side: &Side, filled: &Filled, at_once: usize) -> anyhow::Result<Samples> {
    let ends = stream::iter(filled.pods.iter().map(|started| end(side, &started.pod)));
    let times: Vec<Duration> = ends.buffer_unordered(at_once).try_collect().await?;
    let mut samples = Samples::default();
    times.into_iter().for_each(|time| samples.keep(REMOVED, time));
    let left = side.cri.clone().pods().await?;
    anyhow::ensure!(left.is_empty(), "{}: {} pods are left", side.name, left.len());
    Ok(samples)
}

async fn end(side: &Side, pod: &str) -> anyhow::Result<Duration> {
    let mut cri = side.cri.clone();
    let begun = Instant::now();
    cri.stop_pod(pod).await?;
    cri.remove_pod(pod).await?;
    Ok(begun.elapsed())
}
