//! One cell of the table: a verb is brought to a point, something goes wrong there, and all must be well afterwards.

use super::kind::Kind;
use super::scene::Scene;
use super::verb::{Call, Verb};
use anyhow::{Context as _, Result};
use berth_e2e::check;
use berth_e2e::faults::{self, Disk, Mood, Plugin};
use berth_e2e::harness::Bed;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tonic::Status;

type Calling = JoinHandle<Result<String, Status>>;

/// How long a verb may take after what went wrong.
const WITHIN: Duration = Duration::from_secs(40);

/// Where cells are played.
pub(super) struct Ground {
    pub(super) bed: Bed,
    pub(super) disk: Disk,
    /// With CNI, a plugin that can go wrong.
    pub(super) plugin: Option<Plugin>,
    /// What failed cells left behind: told once, and not again by each cell after them.
    pub(super) stale: Mutex<BTreeSet<String>>,
}

/// The points that a verb passes.
pub(super) async fn passed(bed: &Bed, verb: Verb, name: &str) -> Result<Vec<String>> {
    let scene = Scene::set(bed, verb, name).await?;
    let wish: Vec<String> = faults::inventory()?.iter().map(|point| format!("{point}=note")).collect();
    faults::arm(&bed.node, &wish.join(","))?;
    scene.release()?;
    let made = verb.call(bed, &scene).make(bed.cri().await?).await;
    made.with_context(|| format!("{verb:?} with nothing wrong"))?;
    scene.no_lost_exit(bed, false).await?;
    let hits = faults::hits(&bed.node)?;
    let off: Vec<String> = hits.keys().map(|point| format!("{point}=off")).collect();
    faults::arm(&bed.node, &off.join(","))?;
    tidy(bed).await?;
    let points = hits.into_iter().filter(|(_, count)| *count > 0).map(|(point, _)| point);
    Ok(points.collect())
}

/// Plays one cell.
pub(super) async fn run(ground: &Ground, verb: Verb, point: &str, kind: Kind, name: &str) -> Result<()> {
    let bed = &ground.bed;
    let scene = Scene::set(bed, verb, name).await.context("before")?;
    let mut call = verb.call(bed, &scene);
    let act = if kind == Kind::StepFails { "1*fail" } else { "hold" };
    faults::arm(&bed.node, &format!("{point}={act}"))?;
    let calling = begin(bed, &call).await?;
    scene.release()?;
    check!(
        faults::reached(&bed.node, point, Duration::from_secs(10)).await?,
        "the point was not reached; the call gave {:?}",
        ended(calling).await
    );
    // What the bystander said is now with its shim, if not yet with the daemon.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let answer = strike(ground, &scene, point, kind, calling).await?;
    after(bed, kind, &mut call, answer).await?;
    scene.no_lost_exit(bed, kind == Kind::ShimKilled && scene.shares_pod()).await?;
    call.once(bed).await?;
    tidy(bed).await.context("tidying up")?;
    clean(ground).await
}

async fn begin(bed: &Bed, call: &Call) -> Result<Calling> {
    let (call, cri) = (call.clone(), bed.cri().await?);
    Ok(tokio::spawn(async move { call.make(cri).await }))
}

async fn ended(calling: Calling) -> Result<Result<String, Status>> {
    Ok(tokio::time::timeout(WITHIN, calling).await.context("the call hangs")??)
}

/// What goes wrong; what the call then said, if there was still anybody to hear it.
async fn strike(
    ground: &Ground,
    scene: &Scene,
    point: &str,
    kind: Kind,
    calling: Calling,
) -> Result<Option<Result<String, Status>>> {
    let (bed, disk) = (&ground.bed, &ground.disk);
    let release = || faults::arm(&bed.node, &format!("{point}=off"));
    match kind {
        Kind::StepFails => return Ok(Some(ended(calling).await?)),
        Kind::DaemonKilled => {
            bed.node.kill_daemon().await?;
            bed.node.start_daemon().await.context("the daemon after it was killed")?;
        }
        Kind::ShimKilled => {
            let pod = scene.pod.as_ref().map(|pod| pod.id.clone()).or(own_shim(bed, scene));
            pod.map(|pod| faults::kill_shims(&bed.node, Some(&pod)));
            release()?;
        }
        Kind::DiskFull => {
            disk.fill()?;
            release()?;
            let answer = ended(calling).await;
            disk.free()?;
            return Ok(Some(answer?));
        }
        Kind::PluginFails | Kind::PluginHangs => {
            let plugin = ground.plugin.as_ref().context("no plugin here")?;
            plugin.be("ANY", kind.mood())?;
            release()?;
            let answer = ended(calling).await;
            plugin.be("ANY", Mood::Well)?;
            return Ok(Some(answer?));
        }
        Kind::CallerGone => {
            calling.abort();
            tokio::time::sleep(Duration::from_millis(20)).await;
            release()?;
            return Ok(None);
        }
    }
    Ok(Some(ended(calling).await?))
}

/// The sandbox that RunPodSandbox is making has a shim before it has an answer.
fn own_shim(bed: &Bed, scene: &Scene) -> Option<String> {
    let shims = faults::shims(&bed.node, None);
    shims.iter().filter_map(faults::sandbox_of).find(|pod| *pod != scene.bystander_pod)
}

/// The verb is asked for again, as a kubelet would, and must succeed; without its shim only ends must.
async fn after(bed: &Bed, kind: Kind, call: &mut Call, answer: Option<Result<String, Status>>) -> Result<()> {
    let made = match answer {
        Some(Ok(id)) if kind != Kind::DaemonKilled => Ok(id),
        _ => call.again(bed).await,
    };
    match made {
        Ok(id) if call.makes() => bed.node.remember(&id),
        Ok(_) => {}
        // What was to be done in a pod that is lost is not done.
        Err(_) if kind == Kind::ShimKilled && !call.ends() => {}
        Err(error) => return Err(error.context("asked again")),
    }
    Ok(())
}

/// Every pod is stopped and removed, each with a few tries as a kubelet has them.
async fn tidy(bed: &Bed) -> Result<()> {
    let begun = Instant::now();
    loop {
        let left = bed.node.remove_everything().await;
        let Err(error) = left else { return Ok(()) };
        if begun.elapsed() > Duration::from_secs(15) {
            return Err(error.context("not removable"));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Nothing is left of any pod: not on the host, not in the daemon's directories.
async fn clean(ground: &Ground) -> Result<()> {
    let stale = ground.stale.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let left = faults::left_of_pods(&ground.bed.node, &stale, Duration::from_secs(4)).await;
    check!(left.is_empty(), "left behind:\n{}", left.join("\n"));
    let held = faults::held_addresses(&ground.bed.node);
    check!(held.is_empty(), "host-local still holds {held:?}");
    Ok(())
}

/// After a failed cell: disarmed, space on the disk, a daemon, no pods.
pub(super) async fn settle(ground: &Ground) -> Result<()> {
    let bed = &ground.bed;
    // It is there only if the cell failed with a full disk.
    let _ = ground.disk.free();
    bed.node.kill_daemon().await?;
    bed.node.start_daemon().await?;
    // What cannot be removed is in the list of failures already.
    let _ = tidy(bed).await;
    let left = faults::left_of_pods(&bed.node, &BTreeSet::new(), Duration::from_secs(1)).await;
    ground.stale.lock().unwrap_or_else(PoisonError::into_inner).extend(left);
    Ok(())
}
