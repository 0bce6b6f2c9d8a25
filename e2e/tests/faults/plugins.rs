//! A CNI plugin fails or hangs at ADD or DEL, and the daemon is killed on top of it: pods stay removable, nothing leaks.

use anyhow::{Context as _, Result};
use berth_e2e::faults::{self, Mood, Plugin};
use berth_e2e::harness::{Bed, Context};
use berth_e2e::node::{NetworkMode, Settings};
use berth_e2e::{check, podspec};
use std::collections::BTreeSet;
use std::time::Duration;

/// Longer than a plugin may take, and the plugins that are called after it to undo.
const PATIENCE: Duration = Duration::from_secs(150);

async fn bed(context: &Context) -> Result<(Bed, Plugin)> {
    let node = context.prepared(Settings::network(NetworkMode::Cni))?;
    let plugin = Plugin::install(&node)?;
    let bed = context.lay(node).await?;
    bed.node.start_daemon().await?;
    bed.busybox().await?;
    Ok((bed, plugin))
}

/// No pod, nothing of one, and no address that is still held.
async fn nothing_left(bed: &Bed) -> Result<()> {
    bed.node.remove_everything().await?;
    let left = faults::left_of_pods(&bed.node, &BTreeSet::new(), Duration::from_secs(4)).await;
    check!(left.is_empty(), "left behind:\n{}", left.join("\n"));
    let held = faults::held_addresses(&bed.node);
    check!(held.is_empty(), "host-local still holds {held:?}");
    faults::remove_bridge(&bed.node);
    Ok(())
}

/// ADD goes wrong with the daemon left alone, and with the daemon killed while it waits or afterwards.
async fn add(context: Context, mood: Mood) -> Result<()> {
    let (bed, plugin) = bed(&context).await?;
    let config = podspec::pod(&bed.node, "moody");
    plugin.be("ADD", mood)?;
    let mut cri = bed.cri().await?;
    let refused =
        tokio::time::timeout(PATIENCE, cri.run_pod(&config)).await.context("RunPodSandbox hangs")?;
    let said = refused.err().context("a pod whose plugin went wrong was made")?;
    check!(said.message().contains("moody"), "the plugin is not named: {said}");
    let (wish, mut early) = (config.clone(), bed.cri().await?);
    let calling = tokio::spawn(async move { early.run_pod(&wish).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    bed.node.kill_daemon().await?;
    plugin.be("ADD", Mood::Well)?;
    bed.node.start_daemon().await?;
    let _ = calling.await?;
    bed.node.remove_everything().await?;
    let mut config = config;
    if let Some(metadata) = &mut config.metadata {
        metadata.attempt = 1;
    }
    let pod = bed.run_pod(config).await.context("with the plugin well again")?;
    let id = bed.busybox_in(&pod, "c", "exec sleep 1000").await?;
    check!(bed.exec(&id, "echo well").await? == "well\n", "exec");
    nothing_left(&bed).await
}

/// DEL goes wrong: the kubelet is told, may ask again, and once the plugin is well the pod goes.
async fn del(context: Context, mood: Mood) -> Result<()> {
    let (bed, plugin) = bed(&context).await?;
    let pod = bed.pod("moody").await?;
    let id = bed.busybox_in(&pod, "c", "while [ ! -e /tmp/go ]; do usleep 2000; done; exit 42").await?;
    bed.exec(&id, "touch /tmp/go").await?;
    check!(bed.ended(&id).await?.exit_code == 42, "its exit");
    plugin.be("DEL", mood)?;
    let mut cri = bed.cri().await?;
    let refused =
        tokio::time::timeout(PATIENCE, cri.stop_pod(&pod.id)).await.context("StopPodSandbox hangs")?;
    let said = refused.err().context("a failed DEL was kept from the kubelet")?;
    check!(said.message().contains("moody"), "the plugin is not named: {said}");
    let (pod_id, mut early) = (pod.id.clone(), bed.cri().await?);
    let calling = tokio::spawn(async move { early.stop_pod(&pod_id).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    bed.node.kill_daemon().await?;
    let _ = calling.await?;
    bed.node.start_daemon().await?;
    let status = bed.ended(&id).await.context("the exit after the restart")?;
    check!(status.exit_code == 42, "{status:?}");
    plugin.be("DEL", Mood::Well)?;
    bed.cri().await?.stop_pod(&pod.id).await.context("with the plugin well again")?;
    nothing_left(&bed).await
}

pub(super) async fn plugin_fails_at_add(context: Context) -> Result<()> {
    add(context, Mood::Fails).await
}

pub(super) async fn plugin_fails_at_del(context: Context) -> Result<()> {
    del(context, Mood::Fails).await
}

pub(super) async fn plugin_hangs_at_add(context: Context) -> Result<()> {
    add(context, Mood::Hangs).await
}

pub(super) async fn plugin_hangs_at_del(context: Context) -> Result<()> {
    del(context, Mood::Hangs).await
}
