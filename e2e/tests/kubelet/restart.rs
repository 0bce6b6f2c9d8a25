//! The daemon is killed, then the kubelet is started anew: pods go on.

use super::{container, id_of, whole};
use anyhow::{Context as _, Result};
use berth_e2e::check;
use berth_e2e::harness::Bed;
use berth_e2e::kubelet::Kubelet;
use serde_json::Value;
use std::time::{Duration, Instant};

/// The same containers are there afterwards, as often restarted as before.
pub(super) async fn unnoticed(bed: &Bed, kubelet: &mut Kubelet) -> Result<()> {
    let before = containers(&kubelet.pod("whole").await?.context("gone")?);
    bed.node.kill_daemon().await?;
    // Long enough for the kubelet's probes and lists to meet nobody.
    tokio::time::sleep(Duration::from_secs(3)).await;
    bed.node.start_daemon().await?;
    found_again(kubelet).await?;
    kubelet.restart().await?;
    let pod = kubelet.until("whole", "Ready again", whole::ready).await?;
    let after = containers(&pod);
    check!(after == before, "before: {before:?}\nafter: {after:?}\n{pod:#}");
    Ok(())
}

fn containers(pod: &Value) -> Vec<(String, u64)> {
    let of =
        |name: &&str| (id_of(pod, name), container(pod, name)["restartCount"].as_u64().unwrap_or_default());
    ["side", "web", "talk"].iter().map(of).collect()
}

/// The kubelet finds the daemon by itself, within its own pause between two tries.
async fn found_again(kubelet: &Kubelet) -> Result<()> {
    let begun = Instant::now();
    loop {
        match kubelet.api().run("whole", "talk", "cat /sub/file").await {
            Ok(said) => {
                check!(said == "from-init\n", "{said:?}");
                return Ok(());
            }
            Err(error) if begun.elapsed() > Duration::from_secs(20) => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}
