//! Containers that end when they should not.

use super::{container, id_of};
use anyhow::Result;
use berth_e2e::check;
use berth_e2e::harness::Bed;
use berth_e2e::kubelet::Kubelet;
use serde_json::Value;

/// A failing liveness probe restarts the one container, and no other.
pub(super) async fn unhealthy_is_restarted(kubelet: &Kubelet) -> Result<()> {
    kubelet.api().run("whole", "talk", "rm /shared/alive").await?;
    let again =
        |pod: &Value| container(pod, "talk")["restartCount"] == 1 && container(pod, "talk")["ready"] == true;
    let pod = kubelet.until("whole", "restarted", again).await?;
    check!(container(&pod, "talk")["lastState"]["terminated"]["exitCode"] == 0, "{pod:#}");
    for other in ["web", "side"] {
        check!(container(&pod, other)["restartCount"] == 0, "{other} was restarted: {pod:#}");
    }
    Ok(())
}

/// Attempts rise in the kubelet's eyes and in the runtime's, with exit code and last words.
pub(super) async fn crashes_again_and_again(bed: &Bed, kubelet: &Kubelet) -> Result<()> {
    let often = |pod: &Value| {
        let c = container(pod, "c");
        c["restartCount"].as_u64().unwrap_or_default() >= 3
            && c["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    };
    let pod = kubelet.until("crashing", "in a crash loop", often).await?;
    let last = &container(&pod, "c")["lastState"]["terminated"];
    check!(last["exitCode"] == 3 && last["reason"] == "Error" && last["message"] == "because", "{last:#}");
    let id = id_of(&pod, "c");
    let attempts = |c: &berth_proto::cri::Container| c.metadata.as_ref().map_or(0, |m| u64::from(m.attempt));
    let listed = bed.cri().await?.containers().await?;
    let mut crashed =
        listed.iter().filter(|c| c.labels.get("io.kubernetes.pod.name").is_some_and(|n| n == "crashing-n1"));
    let count = container(&pod, "c")["restartCount"].as_u64().unwrap_or_default();
    check!(crashed.any(|c| attempts(c) >= count.min(3)), "no attempt {count} of {id}: {listed:#?}");
    Ok(())
}

/// The kernel's kill is told as such.
pub(super) async fn out_of_memory(kubelet: &Kubelet) -> Result<()> {
    let failed = |pod: &Value| pod["status"]["phase"] == "Failed";
    let pod = kubelet.until("hungry", "failed", failed).await?;
    let ended = &container(&pod, "c")["state"]["terminated"];
    check!(ended["reason"] == "OOMKilled" && ended["exitCode"] == 137, "{ended:#}");
    Ok(())
}
