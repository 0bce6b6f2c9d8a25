//! Looking at a full node, as a kubelet does all the time.

use super::fill::Filled;
use crate::side::Side;
use crate::timing::Samples;
use anyhow::{Context, ensure};
use berth_e2e::procfs;
use berth_proto::cri as wire;
use std::time::Duration;

/// What is looked at.
pub(crate) const NAMES: [&str; 5] =
    ["ListPodSandbox", "ListContainers", "PodSandboxStatus", "ContainerStatus", "ListContainerStats"];
/// Rounds of the lists.
const ROUNDS: usize = 50;
/// How long the daemon is watched while nobody asks anything.
const REST: Duration = Duration::from_secs(10);

/// What was found.
pub(crate) struct Looked {
    pub(crate) samples: Samples,
    pub(crate) daemon_mib: f64,
    pub(crate) cpu_ms: f64,
}

/// Looks at everything; every pod must be ready and every container running.
pub(crate) async fn at(side: &Side, filled: &Filled) -> anyhow::Result<Looked> {
    let mut samples = Samples::default();
    for _ in 0..ROUNDS {
        lists(side, filled.pods.len(), &mut samples).await?;
    }
    let mut cri = side.cri.clone();
    for started in &filled.pods {
        let pod = samples.time(NAMES[2], cri.pod(&started.pod)).await?;
        ensure!(pod.state() == wire::PodSandboxState::SandboxReady, "{}: {pod:?}", side.name);
        let container = samples.time(NAMES[3], cri.container(&started.container)).await?;
        ensure!(container.state() == wire::ContainerState::ContainerRunning, "{}: {container:?}", side.name);
    }
    let daemon = side.node.daemon_pid().context("the daemon is gone")?;
    let before = procfs::cpu_ms(daemon).context("no CPU time of the daemon")?;
    tokio::time::sleep(REST).await;
    let after = procfs::cpu_ms(daemon).context("no CPU time of the daemon")?;
    let daemon_mib = procfs::pss_kib(daemon).context("no PSS of the daemon")? as f64 / 1024.0;
    Ok(Looked { samples, daemon_mib, cpu_ms: (after - before) as f64 })
}

async fn lists(side: &Side, count: usize, samples: &mut Samples) -> anyhow::Result<()> {
    let mut cri = side.cri.clone();
    let ready = i32::from(wire::PodSandboxState::SandboxReady);
    let pods = samples.time(NAMES[0], cri.pods()).await?;
    ensure!(pods.iter().filter(|pod| pod.state == ready).count() == count, "{}: not all ready", side.name);
    let running = i32::from(wire::ContainerState::ContainerRunning);
    let all = samples.time(NAMES[1], cri.containers()).await?;
    ensure!(all.iter().filter(|c| c.state == running).count() == count, "{}: not all running", side.name);
    let stats = cri.runtime.list_container_stats(wire::ListContainerStatsRequest::default());
    let stats = samples.time(NAMES[4], stats).await?.into_inner().stats;
    ensure!(stats.len() == count, "{}: stats of {} containers", side.name, stats.len());
    Ok(())
}
