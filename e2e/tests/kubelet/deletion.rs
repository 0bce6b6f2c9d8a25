//! Static pods go when their manifests go.

use anyhow::{Context as _, Result};
use berth_e2e::check;
use berth_e2e::harness::Bed;
use berth_e2e::kubelet::Kubelet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// preStop ran before the containers ended, the sidecar ended last, and nothing of any pod is left.
pub(super) async fn graceful(bed: &Bed, kubelet: &Kubelet) -> Result<()> {
    for container in bed.cri().await?.containers().await? {
        bed.node.remember(&container.id);
    }
    for name in ["whole", "crashing", "hungry", "resized"] {
        kubelet.withdraw(name)?;
    }
    let begun = Instant::now();
    loop {
        let left = left(bed, kubelet).await?;
        if left.is_empty() {
            break;
        }
        // The kubelet looks once a minute for what it may remove.
        check!(
            begun.elapsed() < Duration::from_secs(150),
            "still there: {}\n{}",
            left.join("\n"),
            kubelet.log_tail(40)
        );
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let trace = std::fs::read_to_string(kubelet.dir().join("trace/t"))?;
    let lines: Vec<&str> = trace.lines().collect();
    // talk was ended once before.
    let at = |word: &str| {
        lines.iter().rposition(|line| *line == word).with_context(|| format!("no {word}: {trace}"))
    };
    check!(at("preStop")? < at("preStop-done")? && at("preStop-done")? < at("web-ended")?, "{trace}");
    check!(at("side-ended")? > at("web-ended")? && at("side-ended")? > at("talk-ended")?, "{trace}");
    Ok(())
}

/// Pods that the kubelet or the runtime still lists, their cgroups, their folders.
async fn left(bed: &Bed, kubelet: &Kubelet) -> Result<Vec<String>> {
    let mut left = Vec::new();
    for name in ["whole", "crashing", "hungry", "resized"] {
        left.extend(kubelet.pod(name).await?.map(|_| format!("/pods: {name}")));
    }
    let mut cri = bed.cri().await?;
    left.extend(cri.pods().await?.into_iter().map(|pod| format!("sandbox {}", pod.id)));
    left.extend(cri.containers().await?.into_iter().map(|container| format!("container {}", container.id)));
    let mut folders = vec![kubelet.dir().join("root/pods")];
    for quality in ["kubepods/burstable", "kubepods/besteffort"] {
        folders.extend(bed.node.cgroup().directories(&bed.node.cgroup().child(quality)));
    }
    left.extend(folders.iter().flat_map(below).map(|path| path.display().to_string()));
    Ok(left)
}

fn below(folder: &PathBuf) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}
