//! A real kubelet runs static pods on a node: over the built-in network, and over CNI.

mod deletion;
mod failing;
mod manifests;
mod resize;
mod restart;
mod whole;

use anyhow::{Context as _, Result};
use berth_e2e::harness::{Bed, Context};
use berth_e2e::kubelet::{Kubelet, place};
use berth_e2e::node::{NetworkMode, Settings};
use berth_e2e::{paths, tests};
use serde_json::Value;
use std::time::Duration;

tests![; minutes 7 [builtin, cni]; long [oldest]];

/// Less than the runner's: the inside must be able to tidy up before the outside gives up.
const LIMIT: Duration = Duration::from_secs(330);

/// Which kubelet on which node.
struct Setting {
    /// The test's name.
    name: &'static str,
    program: &'static str,
    network: NetworkMode,
    gates: &'static [(&'static str, bool)],
    /// Whether it resizes static pods in place.
    resizes: bool,
}

/// With this gate the kubelet's figures come from the runtime.
const FIGURES: (&str, bool) = ("PodAndContainerStatsFromCRI", true);

async fn builtin(context: Context) -> Result<()> {
    let network = NetworkMode::Builtin;
    let name = "kubelet::builtin";
    story(context, &Setting { name, program: "kubelet", network, gates: &[FIGURES], resizes: true }).await
}

async fn cni(context: Context) -> Result<()> {
    let network = NetworkMode::Cni;
    let name = "kubelet::cni";
    story(context, &Setting { name, program: "kubelet", network, gates: &[], resizes: true }).await
}

/// The oldest line that is supported.
async fn oldest(context: Context) -> Result<()> {
    let network = NetworkMode::Builtin;
    // There the crash loop's pause can only be set by a gate.
    let gates = &[FIGURES, ("KubeletCrashLoopBackOffMax", true)];
    let name = "kubelet::oldest";
    story(context, &Setting { name, program: "kubelet-1.34", network, gates, resizes: false }).await
}

async fn story(context: Context, setting: &Setting) -> Result<()> {
    let program = paths::peer(setting.program)?;
    if !place::entered(setting.name).await? {
        return Ok(());
    }
    let bed = context.bed_with(Settings::network(setting.network)).await?;
    let mut kubelet = Kubelet::start(&bed.node, &program, setting.gates).await?;
    let told = tokio::time::timeout(LIMIT, pods(&bed, &mut kubelet, setting)).await;
    let complaints = kubelet.errors(15);
    let stopped = kubelet.stop().await;
    if setting.network == NetworkMode::Cni {
        // The plugin made the bridge; it stays, so it is the test's to remove.
        let bridge = bed.node.tag().bridge();
        tokio::process::Command::new("ip").args(["link", "delete", &bridge]).status().await?;
    }
    let told = told.context("the story takes too long").and_then(|told| told);
    told.with_context(|| format!("the kubelet's last complaints:\n{complaints}")).and(stopped)
}

async fn pods(bed: &Bed, kubelet: &mut Kubelet, setting: &Setting) -> Result<()> {
    let image = bed.image("busybox:1");
    let trace = kubelet.dir().join("trace").display().to_string();
    for pod in [
        manifests::whole(&image, &trace),
        manifests::crashing(&image),
        manifests::hungry(&image),
        manifests::resized(&image, "100m", "32Mi"),
    ] {
        kubelet.put(&pod)?;
    }
    whole::goes_ready(kubelet).await?;
    whole::limits_in_files(bed, kubelet).await?;
    whole::inside(kubelet).await?;
    whole::reached(bed, kubelet).await?;
    let larger = manifests::resized(&image, "200m", "48Mi");
    match setting.resizes {
        true => resize::in_place(bed, kubelet, &larger).await?,
        false => resize::refused(kubelet, &larger).await?,
    }
    failing::unhealthy_is_restarted(kubelet).await?;
    failing::crashes_again_and_again(bed, kubelet).await?;
    failing::out_of_memory(kubelet).await?;
    whole::figures(kubelet, setting.gates.contains(&FIGURES)).await?;
    restart::unnoticed(bed, kubelet).await?;
    deletion::graceful(bed, kubelet).await
}

/// The status of a container, also of an init container; null while there is none.
fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let lists = ["containerStatuses", "initContainerStatuses"].map(|list| pod["status"][list].as_array());
    let mut all = lists.into_iter().flatten().flatten();
    all.find(|status| status["name"] == name).unwrap_or(&Value::Null)
}

/// The bare id of a container.
fn id_of(pod: &Value, name: &str) -> String {
    let id = container(pod, name)["containerID"].as_str().unwrap_or_default();
    id.rsplit('/').next().unwrap_or_default().to_owned()
}

/// A file of a container's cgroup, which must lie in the kubelet's cgroup of its pod.
fn cgroup_file(bed: &Bed, pod: &Value, name: &str, files: &[&str]) -> Result<String> {
    let uid = pod["metadata"]["uid"].as_str().context("no uid")?;
    let path = bed.node.cgroup().child(&format!("kubepods/burstable/pod{uid}/{}", id_of(pod, name)));
    for dir in bed.node.cgroup().directories(&path) {
        for file in files {
            if let Ok(text) = std::fs::read_to_string(dir.join(file)) {
                return Ok(text.trim().to_owned());
            }
        }
    }
    anyhow::bail!("none of {files:?} in {path}")
}
