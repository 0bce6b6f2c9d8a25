//! The fault table: every verb, at every fault point that it passes, with everything that can go wrong there.
//!
//! The points come from the product's own inventory: each verb first tells which it passes, and a point that no verb
//! passes is a failure of this test. After each cell the pod can be removed, nothing is left, and no exit is lost.

mod cell;
mod kind;
mod plugins;
mod scene;
mod verb;

use anyhow::Result;
use berth_e2e::faults::{self, Disk, Plugin, Position, everything};
use berth_e2e::harness::Context;
use berth_e2e::node::{NetworkMode, Settings};
use berth_e2e::{check, tests};
use cell::Ground;
use kind::Kind;
use std::collections::BTreeSet;
use std::sync::Mutex;
use verb::Verb;

tests![every_point_is_passed ;
minutes 15 [
    pull_image, run_pod, create_container, start_container, exec_sync, stop_container, remove_container,
    stop_pod, remove_pod, plugin_at_run, plugin_at_stop, plugin_at_remove
]];

use plugins::{plugin_at_remove, plugin_at_run, plugin_at_stop};

/// Of how many runs each takes a part.
const PARTS: usize = 3;

/// A node with a small disk, whose fault points can be armed.
async fn ground(context: &Context, network: NetworkMode) -> Result<Ground> {
    let extra_args = vec!["--allow-faults".to_owned()];
    let node = context.prepared(Settings { extra_args, ..Settings::network(network) })?;
    let disk = Disk::mount(&node)?;
    let cni = network == NetworkMode::Cni;
    let plugin = cni.then(|| Plugin::install(&node, Position::Last)).transpose()?;
    let bed = context.lay(node).await?;
    bed.node.start_daemon().await?;
    bed.busybox().await?;
    Ok(Ground { bed, disk, plugin, stale: Mutex::default() })
}

/// Ends the node while its file systems are still there.
async fn close(ground: &Ground) -> Result<()> {
    ground.bed.node.remove_everything().await?;
    ground.bed.node.stop_daemon().await?;
    if ground.plugin.is_some() {
        faults::remove_bridge(&ground.bed.node);
    }
    ground.disk.unmount()
}

async fn every_point_is_passed(context: Context) -> Result<()> {
    let mut missing: BTreeSet<String> = faults::inventory()?.into_iter().collect();
    check!(missing.len() > 30, "the inventory is short: {missing:?}");
    for network in [NetworkMode::Builtin, NetworkMode::Cni] {
        let ground = ground(&context, network).await?;
        for (number, verb) in Verb::ALL.into_iter().enumerate() {
            for point in cell::passed(&ground.bed, verb, &format!("walk{number}")).await? {
                missing.remove(&point);
            }
        }
        close(&ground).await?;
    }
    check!(missing.is_empty(), "no verb passes {missing:?}: give the walk what it needs to get there");
    Ok(())
}

/// All cells of one verb, or this run's part of them.
async fn table(context: Context, verb: Verb) -> Result<()> {
    half(&context, verb, NetworkMode::Builtin, &Kind::ANYWHERE).await?;
    half(&context, verb, NetworkMode::Cni, &Kind::PLUGINS).await
}

async fn half(context: &Context, verb: Verb, network: NetworkMode, kinds: &[Kind]) -> Result<()> {
    let ground = ground(context, network).await?;
    let points = cell::passed(&ground.bed, verb, "look").await?;
    let mut all = Vec::new();
    for point in &points {
        all.extend(kinds.iter().map(|kind| (point, *kind)));
    }
    let turn = faults::turn(PARTS);
    let mut failures = Vec::new();
    let mut ran = 0;
    for (number, (point, kind)) in all.into_iter().enumerate() {
        if !everything() && number % PARTS != turn {
            continue;
        }
        ran += 1;
        let name = format!("cell{number}");
        if let Err(error) = cell::run(&ground, verb, point, kind, &name).await {
            failures.push(format!("{verb:?} × {point} × {kind:?}: {error:#}"));
            cell::settle(&ground).await?;
        }
    }
    println!(
        "        {verb:?} ({network:?}): {ran} cells of {} at {} points",
        points.len() * kinds.len(),
        points.len()
    );
    check!(failures.is_empty(), "{} of {ran} cells failed:\n{}", failures.len(), failures.join("\n"));
    close(&ground).await
}

async fn pull_image(context: Context) -> Result<()> {
    table(context, Verb::PullImage).await
}

async fn run_pod(context: Context) -> Result<()> {
    table(context, Verb::RunPodSandbox).await
}

async fn create_container(context: Context) -> Result<()> {
    table(context, Verb::CreateContainer).await
}

async fn start_container(context: Context) -> Result<()> {
    table(context, Verb::StartContainer).await
}

async fn exec_sync(context: Context) -> Result<()> {
    table(context, Verb::ExecSync).await
}

async fn stop_container(context: Context) -> Result<()> {
    table(context, Verb::StopContainer).await
}

async fn remove_container(context: Context) -> Result<()> {
    table(context, Verb::RemoveContainer).await
}

async fn stop_pod(context: Context) -> Result<()> {
    table(context, Verb::StopPodSandbox).await
}

async fn remove_pod(context: Context) -> Result<()> {
    table(context, Verb::RemovePodSandbox).await
}
