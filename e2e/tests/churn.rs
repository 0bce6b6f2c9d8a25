//! Pods come and go at random while the daemon and shims are killed at random: no line of a log is lost or doubled, no
//! exit code is wrong, and nothing is left.

mod killer;
mod pod;

use anyhow::Result;
use berth_e2e::churn::{Chance, fit};
use berth_e2e::faults;
use berth_e2e::harness::{Bed, Context};
use berth_e2e::node::{NetworkMode, Settings};
use berth_e2e::{check, procfs, tests};
use killer::Killer;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

tests![; minutes 10 [kills_in_churn]; long [many_kills_in_churn, memory_in_churn]];

/// Counts the runs whose seeds were used up before a release; see `Chance::seed`.
const SEED: &str = include_str!("churn/seed");
/// Pods at one time.
const WORKERS: usize = 4;

async fn kills_in_churn(context: Context) -> Result<()> {
    churn(context, 40).await
}

async fn many_kills_in_churn(context: Context) -> Result<()> {
    churn(context, 300).await
}

async fn churn(context: Context, kills: usize) -> Result<()> {
    let seed = Chance::seed(SEED);
    let mut chance = Chance::new(seed);
    let network = if chance.percent(50) { NetworkMode::Builtin } else { NetworkMode::Cni };
    let bed = Arc::new(context.bed_with(Settings::network(network)).await?);
    bed.busybox().await?;
    let killer = Arc::new(Killer::default());
    let workers: Vec<_> = (0..WORKERS)
        .map(|number| tokio::spawn(pod::work(bed.clone(), killer.clone(), chance.branch(), number)))
        .collect();
    let killed = killer.kill(&bed, &mut chance, kills).await;
    killer.over.store(true, Ordering::Relaxed);
    let mut pods = 0;
    let mut problems = Vec::new();
    for worker in workers {
        let done = worker.await?;
        pods += done.pods;
        problems.extend(done.problems);
    }
    let words = format!("seed {seed} ({network:?}): {killed:?} in {pods} pods");
    println!("        {words}");
    killed?;
    check!(problems.is_empty(), "{words}\n{}", problems.join("\n"));
    check!(pods > kills / 10, "too few pods for a churn: {words}");
    nothing_left(&bed, network).await
}

async fn nothing_left(bed: &Bed, network: NetworkMode) -> Result<()> {
    bed.node.remove_everything().await?;
    let left = faults::left_of_pods(&bed.node, &BTreeSet::new(), Duration::from_secs(5)).await;
    check!(left.is_empty(), "left behind:\n{}", left.join("\n"));
    if network == NetworkMode::Cni {
        let held = faults::held_addresses(&bed.node);
        check!(held.is_empty(), "host-local still holds {held:?}");
        faults::remove_bridge(&bed.node);
    }
    Ok(())
}

/// Fifteen minutes without kills: the daemon's memory has no slope that noise does not explain.
async fn memory_in_churn(context: Context) -> Result<()> {
    let bed = Arc::new(context.bed_with(Settings { quiet: true, ..Settings::default() }).await?);
    bed.busybox().await?;
    let killer = Arc::new(Killer::default());
    let mut chance = Chance::new(Chance::seed(SEED));
    let workers: Vec<_> = (0..WORKERS)
        .map(|number| tokio::spawn(pod::work(bed.clone(), killer.clone(), chance.branch(), number)))
        .collect();
    let samples = measure(&bed, Duration::from_secs(15 * 60)).await;
    killer.over.store(true, Ordering::Relaxed);
    for worker in workers {
        let done = worker.await?;
        check!(done.problems.is_empty(), "{}", done.problems.join("\n"));
    }
    // The first minutes fill caches and the allocator.
    let warm: Vec<(f64, f64)> = samples.iter().copied().filter(|(minute, _)| *minute > 3.0).collect();
    let line = fit(&warm).ok_or_else(|| anyhow::anyhow!("too few samples: {samples:?}"))?;
    println!("        daemon: {:+.1} ± {:.1} KiB a minute, last {:?}", line.slope, line.error, warm.last());
    check!(line.slope < 3.0 * line.error + 10.0, "the daemon grows: {line:?}, {samples:?}");
    nothing_left(&bed, NetworkMode::Builtin).await
}

/// `(minutes, KiB)` of the daemon: its own memory, without the pages of its program, which come and go with the kernel's mood.
async fn measure(bed: &Bed, time: Duration) -> Vec<(f64, f64)> {
    let begun = Instant::now();
    let mut samples = Vec::new();
    while begun.elapsed() < time {
        tokio::time::sleep(Duration::from_secs(5)).await;
        if let Some(kib) = bed.node.daemon_pid().and_then(procfs::anonymous_kib) {
            samples.push((begun.elapsed().as_secs_f64() / 60.0, kib as f64));
        }
    }
    samples
}

/// Whether a flag that ends the churn is set.
fn over(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Relaxed)
}
