//! Many pods at one time: what the monitors and the daemon weigh, and how soon a killed daemon is back.

use crate::side::Side;
use anyhow::Context;
use berth_e2e::procfs::{self, Process};
use std::time::{Duration, Instant};

/// What was found on one side.
pub(crate) struct Memory {
    /// Monitors (shims, pause processes) per pod, KiB PSS.
    pub(crate) monitors: f64,
    /// The daemon, KiB PSS.
    pub(crate) daemon: u64,
    /// From start to the first list of all pods after kill -9.
    pub(crate) restart: Duration,
    /// Listing all pods, median of 20.
    pub(crate) list: Duration,
}

/// Starts the pods, weighs, kills the daemon, starts it again, removes all.
pub(crate) async fn run(side: &Side, pods: usize) -> anyhow::Result<Memory> {
    let mut cri = side.cri.clone();
    for number in 0..pods {
        let config = side.pod(&format!("many{number}"));
        let pod = cri.run_pod(&config).await?;
        side.node.remember(&pod);
        let id = cri.create(&pod, &side.container(&config), &config).await?;
        side.node.remember(&id);
        cri.start(&id).await?;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let daemon = side.node.daemon_pid().context("the daemon is gone")?;
    let weight: u64 = monitors(side, daemon).iter().filter_map(|p| procfs::pss_kib(p.pid)).sum();
    let daemon = procfs::pss_kib(daemon).context("no PSS of the daemon")?;
    let list = list(side, pods).await?;
    let restart = restart(side, pods).await?;
    side.node.remove_everything().await?;
    Ok(Memory { monitors: weight as f64 / pods as f64, daemon, restart, list })
}

/// Processes of the node that are neither its daemon nor the pods' own programs.
fn monitors(side: &Side, daemon: i32) -> Vec<Process> {
    let name = side.node.tag().name();
    let mine = |p: &Process| p.command.contains(&name) || p.cgroups.contains(&name);
    let all = procfs::processes().into_iter().filter(mine);
    all.filter(|p| p.pid != daemon && !p.command.starts_with("sleep 100000")).collect()
}

async fn list(side: &Side, pods: usize) -> anyhow::Result<Duration> {
    let mut cri = side.cri.clone();
    let mut times = Vec::new();
    for _ in 0..20 {
        let begun = Instant::now();
        anyhow::ensure!(cri.pods().await?.len() == pods, "not {pods} pods");
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

async fn restart(side: &Side, pods: usize) -> anyhow::Result<Duration> {
    side.node.kill_daemon().await?;
    let begun = Instant::now();
    side.node.start_daemon().await?;
    while side.node.cri().await?.pods().await?.len() != pods {
        anyhow::ensure!(begun.elapsed() < Duration::from_secs(60), "the pods are not back");
    }
    Ok(begun.elapsed())
}
