//! A CNI plugin goes wrong at ADD or DEL, before or after the others have done their work; the daemon is killed on top
//! of it, or the caller goes away and asks again: pods stay removable, nothing leaks, no exit is lost.

use anyhow::{Context as _, Result};
use berth_e2e::faults::{self, Mood, Plugin, Position};
use berth_e2e::harness::{Bed, Context, Pod};
use berth_e2e::node::{NetworkMode, Settings};
use berth_e2e::{check, podspec, procfs};
use berth_proto::cri as wire;
use std::collections::BTreeSet;
use std::time::Duration;
use tonic::Status;

/// Longer than all plugins may take together, and those that are called after them to undo.
const PATIENCE: Duration = Duration::from_secs(60);

/// What happens besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Besides {
    Nothing,
    /// The daemon is killed while the plugin is at it, or just after, and started anew.
    DaemonKilled,
    /// The caller goes away and asks again.
    CallerGone,
}

const BESIDES: [Besides; 3] = [Besides::Nothing, Besides::DaemonKilled, Besides::CallerGone];

/// Which of the pod's verbs ends its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Stop,
    Remove,
}

async fn bed(context: &Context) -> Result<(Bed, [Plugin; 2])> {
    let node = context.prepared(Settings::network(NetworkMode::Cni))?;
    let plugins = [Plugin::install(&node, Position::First)?, Plugin::install(&node, Position::Last)?];
    let bed = context.lay(node).await?;
    bed.node.start_daemon().await?;
    bed.busybox().await?;
    Ok((bed, plugins))
}

/// No pod, nothing of one, and no address that is still held.
async fn nothing_left(bed: &Bed) -> Result<()> {
    bed.node.remove_everything().await?;
    let left = faults::left_of_pods(&bed.node, &BTreeSet::new(), Duration::from_secs(4)).await;
    check!(left.is_empty(), "left behind:\n{}", left.join("\n"));
    let held = faults::held_addresses(&bed.node);
    check!(held.is_empty(), "host-local still holds {held:?}");
    Ok(())
}

/// The cells of one verb, all of them or this run's part.
async fn table<F>(context: Context, verb: &str, moods: &[Mood], cell: F) -> Result<()>
where
    F: AsyncFn(&Bed, &Plugin, Mood, Besides, String) -> Result<()>,
{
    let (bed, plugins) = bed(&context).await?;
    let (mut failures, mut number, mut ran) = (Vec::new(), 0, 0);
    for plugin in &plugins {
        for mood in moods {
            for besides in BESIDES {
                number += 1;
                if !faults::everything() && number % super::PARTS != faults::turn(super::PARTS) {
                    continue;
                }
                ran += 1;
                if let Err(error) = cell(&bed, plugin, *mood, besides, format!("moody{number}")).await {
                    failures.push(format!("{} {mood:?} × {besides:?}: {error:#}", plugin.name()));
                    plugin.be("ANY", Mood::Well)?;
                    bed.node.remove_everything().await?;
                }
            }
        }
    }
    println!("        plugins at {verb}: {ran} cells of {number}");
    check!(failures.is_empty(), "{} of {ran} cells failed:\n{}", failures.len(), failures.join("\n"));
    faults::remove_bridge(&bed.node);
    Ok(())
}

/// RunPodSandbox meets the plugin; once it is well the next attempt is a pod like any other.
async fn run(bed: &Bed, plugin: &Plugin, mood: Mood, besides: Besides, name: String) -> Result<()> {
    let mut config = podspec::pod(&bed.node, &name);
    plugin.be("ADD", mood)?;
    match besides {
        Besides::Nothing => refused(plugin, in_time(ask(bed, &config).await?).await?)?,
        Besides::CallerGone => {
            let calling = ask(bed, &config).await?;
            check!(plugin.called(PATIENCE).await, "the plugin was not called");
            calling.abort();
            refused(plugin, in_time(ask(bed, &config).await?).await?)?;
        }
        Besides::DaemonKilled => {
            let calling = ask(bed, &config).await?;
            check!(plugin.called(PATIENCE).await, "the plugin was not called");
            bed.node.kill_daemon().await?;
            bed.node.start_daemon().await?;
            let answer = in_time(calling).await?;
            check!(answer.is_err(), "an answer from a killed daemon: {answer:?}");
        }
    }
    plugin.be("ADD", Mood::Well)?;
    if let Some(metadata) = &mut config.metadata {
        metadata.attempt += 1;
    }
    let pod = bed.run_pod(config).await.context("with the plugin well again")?;
    let id = bed.busybox_in(&pod, "c", "exec sleep 1000").await?;
    check!(bed.exec(&id, "echo well").await? == "well\n", "exec");
    nothing_left(bed).await
}

type Calling = tokio::task::JoinHandle<Result<String, Status>>;

async fn ask(bed: &Bed, config: &wire::PodSandboxConfig) -> Result<Calling> {
    let (config, mut cri) = (config.clone(), bed.cri().await?);
    Ok(tokio::spawn(async move { cri.run_pod(&config).await }))
}

async fn ask_end(bed: &Bed, end: End, pod: &Pod) -> Result<Calling> {
    let (pod, mut cri) = (pod.id.clone(), bed.cri().await?);
    Ok(tokio::spawn(async move {
        match end {
            End::Stop => cri.stop_pod(&pod).await,
            End::Remove => cri.remove_pod(&pod).await,
        }
        .map(|()| String::new())
    }))
}

async fn in_time(calling: Calling) -> Result<Result<String, Status>> {
    Ok(tokio::time::timeout(PATIENCE, calling).await.context("the call hangs")??)
}

/// The caller hears of it, by the plugin's name.
fn refused(plugin: &Plugin, answer: Result<String, Status>) -> Result<()> {
    let said = answer.err().context("what the plugin did was kept from the caller")?;
    check!(said.message().contains(plugin.name()), "the plugin is not named: {said}");
    Ok(())
}

/// The pod's end meets the plugin: the kubelet is told, may ask again, and once the plugin is well the pod goes.
async fn end(bed: &Bed, end: End, plugin: &Plugin, mood: Mood, besides: Besides, name: String) -> Result<()> {
    let pod = bed.pod(&name).await?;
    let id = bed.busybox_in(&pod, "c", "while [ ! -e /tmp/go ]; do usleep 2000; done; exit 42").await?;
    // Not by an exec: the container's end would now and then be its end as well.
    let init = procfs::init_of(&id).context("the container has no process")?;
    std::fs::write(format!("/proc/{init}/root/tmp/go"), "")?;
    check!(bed.ended(&id).await?.exit_code == 42, "its exit");
    plugin.be("DEL", mood)?;
    let calling = ask_end(bed, end, &pod).await?;
    match besides {
        Besides::Nothing => refused(plugin, in_time(calling).await?)?,
        Besides::CallerGone => {
            check!(plugin.called(PATIENCE).await, "the plugin was not called");
            calling.abort();
            refused(plugin, in_time(ask_end(bed, end, &pod).await?).await?)?;
        }
        Besides::DaemonKilled => {
            check!(plugin.called(PATIENCE).await, "the plugin was not called");
            bed.node.kill_daemon().await?;
            bed.node.start_daemon().await?;
            // It may have been told before the daemon's end.
            let answer = in_time(calling).await?;
            check!(answer.is_err(), "a success from a killed daemon: {answer:?}");
        }
    }
    let status = bed.ended(&id).await.context("the exit after all this")?;
    check!(status.exit_code == 42, "{status:?}");
    plugin.be("DEL", Mood::Well)?;
    in_time(ask_end(bed, end, &pod).await?).await?.context("with the plugin well again")?;
    nothing_left(bed).await
}

pub(super) async fn plugin_at_run(context: Context) -> Result<()> {
    table(context, "RunPodSandbox", &[Mood::Fails, Mood::Hangs, Mood::Dies, Mood::Babbles], run).await
}

pub(super) async fn plugin_at_stop(context: Context) -> Result<()> {
    let cell = async |bed: &Bed, plugin: &Plugin, mood, besides, name| {
        end(bed, End::Stop, plugin, mood, besides, name).await
    };
    table(context, "StopPodSandbox", &[Mood::Fails, Mood::Hangs, Mood::Dies], cell).await
}

pub(super) async fn plugin_at_remove(context: Context) -> Result<()> {
    let cell = async |bed: &Bed, plugin: &Plugin, mood, besides, name| {
        end(bed, End::Remove, plugin, mood, besides, name).await
    };
    table(context, "RemovePodSandbox", &[Mood::Fails, Mood::Hangs, Mood::Dies], cell).await
}
